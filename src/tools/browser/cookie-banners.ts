import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import type AutoConsent from '@duckduckgo/autoconsent';
import type { BrowserContext, Page } from 'playwright-core';
import { z } from 'zod';
import { getOwn } from '../../base/dictionary.ts';

/** What the script tells; a page that got hold of the way could say anything, so it is checked like any input. */
const BannerMessage = z.discriminatedUnion('type', [
  z.object({ type: z.literal('popupFound'), cmp: z.string() }),
  z.object({ type: z.literal('optOutResult'), cmp: z.string(), result: z.boolean() }),
  z.object({ type: z.literal('autoconsentDone'), cmp: z.string(), isCosmetic: z.boolean() }),
]);

const BINDING = '__consentTold';
/**
 * A banner that has no button to refuse has its settings opened, and what follows is a matter of another frame or of
 * nobody.
 */
const SETTINGS_MS = 3000;
/** What is heard of one page; more is no banner. */
const MAX_MESSAGES = 200;

/** Names by which a person knows them, of those whose rules are called otherwise. */
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
 * Opt out where a rule knows the banner, or where it has a plain button to refuse; nothing is ever accepted. Nothing is
 * hidden beforehand: what could not be answered must be seen.
 */
const AUTOCONSENT_CONFIG: ConstructorParameters<typeof AutoConsent.default>[1] = {
  enabled: true,
  autoAction: 'optOut',
  isMainWorld: true,
  enablePrehide: false,
  heuristicMode: 'reject',
  enableHeuristicDetection: true,
};

/** Cookie banners of the pages of a context. */
export type CookieBanners = {
  /** Whether a banner of this page is being answered right now. */
  isAnswering(page: Page): boolean;
};

let script: Promise<string> | undefined;

/**
 * Has the banners of all pages of a context answered by the rules of autoconsent; `tell` gets what became of each, in
 * words.
 */
export async function answerCookieBanners(
  context: BrowserContext,
  tell: (page: Page, text: string) => void,
): Promise<CookieBanners> {
  const open = new WeakMap<Page, Set<string>>();
  const heard = new WeakMap<Page, number>();
  await context.exposeBinding(BINDING, ({ page }, message: unknown) => {
    const count = (heard.get(page) ?? 0) + 1;
    heard.set(page, count);
    const parsed = BannerMessage.safeParse(message);
    if (!parsed.success || count > MAX_MESSAGES) return;
    const at = open.get(page) ?? new Set();
    open.set(page, at);
    const { data } = parsed;
    if (data.type === 'popupFound') at.add(data.cmp);
    if (data.type === 'autoconsentDone') {
      // One frame's refusal also answers for the banner that opened it.
      at.clear();
      const how = data.isCosmetic ? 'hidden, not answered' : 'opted out';
      tell(page, `a cookie banner was dismissed (${bannerName(data.cmp)}, ${how})`);
    }
    if (data.type === 'optOutResult' && !data.result) {
      at.delete(data.cmp);
      tell(
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
    tell(
      page,
      `a cookie banner (${bannerName(cmp)}) was not answered: it has no button to refuse, and its settings were opened, which may ` +
        'come up some seconds from now; refuse there where they are in the way',
    );
  }

  function forgetAtNavigation(page: Page): void {
    page.on('framenavigated', (frame) => {
      if (frame !== page.mainFrame()) return;
      open.delete(page);
      heard.delete(page);
    });
  }

  return { isAnswering: (page) => (open.get(page)?.size ?? 0) > 0 };
}

function bannerName(cmp: string): string {
  if (cmp.startsWith('HEURISTIC')) return 'by its own button';
  return getOwn(BANNER_NAMES, cmp) ?? cmp.replace(/[^\w .:/-]/g, '').slice(0, 60);
}

/**
 * The library and its rules as one script, which takes the way to us out of the page's reach before the page begins.
 */
async function loadConsentScript(): Promise<string> {
  const { resolve } = createRequire(import.meta.url);
  const library = await readFile(resolve('@duckduckgo/autoconsent'), 'utf8');
  const rules = await readFile(resolve('@duckduckgo/autoconsent/rules/compact-rules.json'), 'utf8');
  return `(() => {
    const tell = globalThis.${BINDING};
    delete globalThis.${BINDING};
    if (!tell || !/^https?:$/.test(location.protocol)) return;
    const module = { exports: {} };
    ((module, exports) => {${library}
    })(module, module.exports);
    const heard = ['popupFound', 'optOutResult', 'autoconsentDone'];
    const send = async (message) => { if (heard.includes(message.type)) await tell(message); };
    new module.exports.default(send, ${JSON.stringify(AUTOCONSENT_CONFIG)}, { autoconsent: [], compact: ${rules} });
  })();`;
}
