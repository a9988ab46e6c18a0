import type { Locator } from 'playwright-core';
import { errorText, UserError } from '../../protocol/errors.ts';
import type { ImageFile } from '../../protocol/images.ts';
import type { Browser } from './launch.ts';
import type { Tab } from './tabs.ts';

/** How long is waited for what a page may or may not do, in ms. */
export type Patience = {
  /** For an element to be there, to hold still and to be reachable. */
  elementMs: number;
  /** For a cookie banner: consent frameworks come with a script of their own, after the page. */
  comesMs: number;
};
export const PATIENCE: Patience = { elementMs: 8000, comesMs: 800 };

/** What an action works with. */
export type Desk = { browser: Browser; work: string; signal: AbortSignal; patience: Patience };
/** What an action says for itself, before the page is shown. */
export type Done = {
  ok: boolean;
  says: string[];
  /** What of the page is to be shown, and which line on. */
  page: 'changes' | 'all' | 'none';
  from?: number | undefined;
  /** Shown to a model that sees. */
  images?: ImageFile[];
  /** It was done for a file: without one it failed. */
  wantsFile?: boolean;
};

/** What is a file ends the navigation to it, in Playwright's words. */
export const isDownload = (error: unknown): boolean => /Download is starting/.test(errorText(error));

export const done = (...says: string[]): Done => ({ ok: true, says, page: 'changes' });

/** The element that was shown with this number. Throws UserError where it is not there any more. */
export async function element(asked: string, tab: Tab): Promise<Locator> {
  const number = asked.replace(/[[\]]/g, '');
  const ref = tab.refs.refOf(number);
  const found = ref === undefined ? undefined : tab.page.getByRef(ref);
  if (found && (await found.count().catch(() => 0)) > 0) return found;
  throw new UserError(`[${number}] is not on this page any more. Choose from the page as it is now:`);
}
