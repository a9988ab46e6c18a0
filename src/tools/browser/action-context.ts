import { setTimeout as sleep } from 'node:timers/promises';
import type { Locator } from 'playwright-core';
import { errorText, UserError } from '../../base/user-error.ts';
import type { ImageFile } from '../../protocol/session/message.ts';
import type { Browser } from './launch-browser.ts';
import type { Tab } from './tabs.ts';

/** How long to wait for what a page may or may not do. */
export type Patience = {
  /** For an element to exist, stop moving and become reachable. */
  elementMs: number;
  /** For a cookie banner: consent frameworks load their own script after the page. */
  comesMs: number;
};
export const PATIENCE: Patience = { elementMs: 8000, comesMs: 800 };

/** What an action needs. */
export type ActionContext = { browser: Browser; work: string; signal: AbortSignal; patience: Patience };
/** What an action reports, before the page is shown. */
export type ActionResult = {
  ok: boolean;
  messages: string[];
  /** How much of the page to show, and from which line. */
  page: 'changes' | 'all' | 'none';
  from?: number | undefined;
  /** Shown to a model that accepts images. */
  images?: ImageFile[];
  /** Whether the action was meant to produce a file, so that it failed without one. */
  wantsFile?: boolean;
};

/** A navigation that turns out to be a download fails with this Playwright error. */
export const isDownloadError = (error: unknown): boolean => /Download is starting/.test(errorText(error));

export const pageChanged = (...messages: string[]): ActionResult => ({ ok: true, messages, page: 'changes' });

/** The element that was shown with this number. Throws UserError if it no longer exists. */
export async function findElement(asked: string, tab: Tab): Promise<Locator> {
  const number = asked.replace(/[[\]]/g, '');
  const ref = tab.refs.refOf(number);
  const found = ref === undefined ? undefined : tab.page.getByRef(ref);
  if (found && (await found.count().catch(() => 0)) > 0) return found;
  throw new UserError(`[${number}] is not on this page any more. Choose from the page as it is now:`);
}

/** How long a page may take to react to an action. Each is an upper limit, not a fixed wait. */
const REACTION_MS = 250;
const LEAVE_MS = 15_000;
const LOAD_MS = 5000;
const QUIET_MS = 2000;
const BANNER_ANSWERED_MS = 8000;
const POLL_MS = 50;

/** After a new document: waits until it has loaded and any cookie banner is answered, each for a limited time. */
export async function waitForLoad(tab: Tab, { browser: { tabs }, signal, patience }: ActionContext): Promise<void> {
  await Promise.all([
    tab.page.waitForLoadState('load', { timeout: LOAD_MS, signal }).catch(() => undefined),
    sleep(patience.comesMs, undefined, { signal }),
  ]);
  await waitForIdle(tab, signal);
  await waitWhileNot(() => !tabs.isAnsweringBanner(tab), BANNER_ANSWERED_MS, signal);
}

/** After an action on a page: waits for its immediate effects, a new page or a few requests. */
export async function waitForReaction(tab: Tab, before: number, context: ActionContext): Promise<void> {
  const { signal } = context;
  await sleep(REACTION_MS, undefined, { signal });
  await waitWhileNot(() => !tab.traffic.isLeaving, LEAVE_MS, signal);
  if (tab.traffic.arrived !== before) await waitForLoad(tab, context);
  else await waitForIdle(tab, signal);
}

const waitForIdle = (tab: Tab, signal: AbortSignal) => waitWhileNot(() => tab.traffic.open === 0, QUIET_MS, signal);

async function waitWhileNot(condition: () => boolean, ms: number, signal: AbortSignal): Promise<void> {
  for (let waited = 0; waited < ms && !condition(); waited += POLL_MS) await sleep(POLL_MS, undefined, { signal });
}
