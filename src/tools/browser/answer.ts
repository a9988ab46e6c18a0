import type { ToolResult } from '../../engine/ports.ts';
import { clip } from '../../protocol/recorded.ts';
import type { Desk, Done } from './desk.ts';
import type { Browser } from './launch.ts';
import { changes, lookAt, pageFrom } from './view.ts';

/** What the model is told: where it is, what happened by itself, and the page or what changed on it. */
export async function answer(
  { browser, work, signal }: Desk,
  { ok, says, page, from = 1, wantsFile = false, images }: Done,
): Promise<ToolResult> {
  const { tabs } = browser;
  const shown = page === 'none' ? [] : await pageInWords(browser, page, from, signal);
  const files = await tabs.downloads.land(work);
  const notes = [...says, ...files.texts, ...tabs.news()];
  const head = await heading(browser);
  return {
    ok: ok && (!wantsFile || files.saved > 0),
    text: [head, ...notes.map((note) => `[${note}]`), ...shown].join('\n'),
    ...(images && images.length > 0 && { images }),
  };
}

async function pageInWords(
  browser: Browser,
  page: 'changes' | 'all',
  from: number,
  signal: AbortSignal,
): Promise<string[]> {
  const tab = await browser.tabs.current();
  if (isOwn(tab.page.url())) return [];
  // Reading on means in the page that was begun, not in one that moved meanwhile.
  if (from > 1 && tab.seen && from <= tab.seen.length) return ['', pageFrom(tab.seen, from)];
  const before = tab.seen;
  const { lines, isNew } = await lookAt(tab, signal);
  tab.seen = lines;
  if (from > 1) return [`(the page has ${lines.length} lines)`];
  return ['', page === 'all' || isNew || !before ? pageFrom(lines, 1) : changes(before, lines)];
}

async function heading({ tabs }: Browser): Promise<string> {
  if (tabs.count() === 0) return 'no page is open';
  const { page, isStuck } = await tabs.current();
  const title = isStuck ? '' : await page.title().catch(() => '');
  const which = tabs.count() > 1 ? ` (tab ${tabs.at()} of ${tabs.count()})` : '';
  if (isOwn(page.url())) return `no page is shown${which}`;
  return `${clip(page.url(), 500)}${title.trim() === '' ? '' : ` — ${clip(title.replace(/\s+/g, ' ').trim(), 200)}`}${which}`;
}

/** Chromium's own pages: the one before the first, and the one that stands for a page that did not come. */
const isOwn = (url: string): boolean => url === 'about:blank' || url.startsWith('chrome-error:');
