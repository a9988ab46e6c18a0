import { setTimeout as sleep } from 'node:timers/promises';
import type { Page } from 'playwright-core';

const TRY_MS = 1000;
const TRIES = 3;

/**
 * Closes a page, or gives up. Chromium sometimes loses the wish of a page that is just coming (seen in one of ten closings right
 * after the commit), and a page whose scripts are busy may never agree.
 */
export async function closePage(page: Page): Promise<void> {
  for (let tried = 0; tried < TRIES && !page.isClosed(); tried++) {
    const closing = page.close().catch(() => undefined);
    await Promise.race([closing, sleep(TRY_MS, undefined, { ref: false })]);
  }
}
