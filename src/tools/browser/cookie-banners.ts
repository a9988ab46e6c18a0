import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type AutoConsent from '@duckduckgo/autoconsent';
import type { BrowserContext, Page } from 'playwright-core';
import { z } from 'zod';
import { getOwn } from '../../base/collections.ts';

/**
 * Messages from the script. A page that gains access to the binding could send anything, so they are validated like any
 * input.
 */
const BannerMessage = z.discriminatedUnion('type', [
  z.object({ type: z.literal('popupFound'), cmp: z.string() }),
  z.object({ type: z.literal('optOutResult'), cmp: z.string(), result: z.boolean() }),
  z.object({ type: z.literal('autoconsentDone'), cmp: z.string(), isCosmetic: z.boolean() }),
]);

const BINDING = '__consentTold';
/** If a banner has no reject button, its settings are opened, and may appear within this time, in any frame. */
const SETTINGS_MS = 3000;
/** Messages accepted per page; a real banner never sends more. */
const MAX_MESSAGES = 200;

/** Display names of banners whose rules have other names. */
const BANNER_NAMES: Record<string, string> = {
  Onetrust: 'OneTrust',
  Cybotcookiebot: 'Cookiebot',
  'TrustArc-top': 'TrustArc',
  'usercentrics-api': 'Usercentrics',
  didomi: 'Didomi',
  quantcast: 'Quantcast',
  osano: 'Osano',
};

/**
 * Opts out if a rule knows the banner or it has a plain reject button; never accepts. Nothing is hidden in advance, so
 * that a banner that could not be answered stays visible.
 */
const AUTOCONSENT_CONFIG: ConstructorParameters<typeof AutoConsent.default>[1] = {
  enabled: true,
  autoAction: 'optOut',
  isMainWorld: true,
  enablePrehide: false,
  heuristicMode: 'reject',
  enableHeuristicDetection: true,
};

/** Handles cookie banners on the pages of a context. */
export type CookieBanners = {
  /** Whether a banner of this page is being answered. */
  isAnswering(page: Page): boolean;
};

let script: Promise<string> | undefined;

/**
 * Answers the cookie banners of all pages of a context by autoconsent's rules; `addNote` receives each outcome as text.
 */
export async function answerCookieBanners(
  context: BrowserContext,
  addNote: (page: Page, text: string) => void,
): Promise<CookieBanners> {
  const open = new WeakMap<Page, Set<string>>();
  const messageCounts = new WeakMap<Page, number>();
  await context.exposeBinding(BINDING, ({ page }, message: unknown) => {
    const count = (messageCounts.get(page) ?? 0) + 1;
    messageCounts.set(page, count);
    const parsed = BannerMessage.safeParse(message);
    if (!parsed.success || count > MAX_MESSAGES) return;
    const at = open.get(page) ?? new Set();
    open.set(page, at);
    const { data } = parsed;
    if (data.type === 'popupFound') at.add(data.cmp);
    if (data.type === 'autoconsentDone') {
      // A refusal in one frame also answers the banner that opened it.
      at.clear();
      const how = data.isCosmetic ? 'hidden, not answered' : 'opted out';
      addNote(page, `a cookie banner was dismissed (${bannerName(data.cmp)}, ${how})`);
    }
    if (data.type === 'optOutResult' && !data.result) {
      at.delete(data.cmp);
      addNote(
        page,
        `a cookie banner (${bannerName(data.cmp)}) could not be dismissed by itself; answer it where it is in the way`,
      );
    }
    if (data.type === 'optOutResult' && data.result)
      setTimeout(() => leftOpen(page, at, data.cmp), SETTINGS_MS).unref();
  });
  context.on('page', forgetAtNavigation);
  for (const page of context.pages()) forgetAtNavigation(page);
  script ??= loadConsentScript();
  await context.addInitScript({ content: await script });

  function leftOpen(page: Page, at: Set<string>, cmp: string): void {
    if (!at.delete(cmp) || at.size > 0 || open.get(page) !== at) return;
    addNote(
      page,
      `a cookie banner (${bannerName(cmp)}) was not answered: it has no button to refuse, and its settings were opened, which may ` +
        'come up some seconds from now; refuse there where they are in the way',
    );
  }

  function forgetAtNavigation(page: Page): void {
    page.on('framenavigated', (frame) => {
      if (frame !== page.mainFrame()) return;
      open.delete(page);
      messageCounts.delete(page);
    });
  }

  return { isAnswering: (page) => (open.get(page)?.size ?? 0) > 0 };
}

function bannerName(cmp: string): string {
  if (cmp.startsWith('HEURISTIC')) return 'by its own button';
  return getOwn(BANNER_NAMES, cmp) ?? cmp.replace(/[^\w .:/-]/g, '').slice(0, 60);
}

/** The library and its rules as one script, which hides its binding from the page before any page code runs. */
async function loadConsentScript(): Promise<string> {
  const files = consentFiles();
  const [library, rules] = await Promise.all([readFile(files.library, 'utf8'), readFile(files.rules, 'utf8')]);
  return `(() => {
    const send = globalThis.${BINDING};
    delete globalThis.${BINDING};
    if (!send || !/^https?:$/.test(location.protocol)) return;
    const module = { exports: {} };
    ((module, exports) => {${library}
    })(module, module.exports);
    const forwarded = ['popupFound', 'optOutResult', 'autoconsentDone'];
    const forward = async (message) => { if (forwarded.includes(message.type)) await send(message); };
    new module.exports.default(forward, ${JSON.stringify(AUTOCONSENT_CONFIG)}, { autoconsent: [], compact: ${rules} });
  })();`;
}

/** Files of autoconsent. The build copies them to where the built programs are; otherwise they are in the package. */
function consentFiles() {
  const built = {
    library: new URL('./autoconsent/autoconsent.cjs.js', import.meta.url),
    rules: new URL('./autoconsent/compact-rules.json', import.meta.url),
  };
  if (existsSync(built.library)) return built;
  const { resolve } = createRequire(import.meta.url);
  return {
    library: resolve('@duckduckgo/autoconsent'),
    rules: resolve('@duckduckgo/autoconsent/rules/compact-rules.json'),
  };
}
