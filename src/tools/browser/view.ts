import { errorText, UserError } from '../../protocol/errors.ts';
import { unlessAborted } from '../web/outbound.ts';
import type { Tab } from './tabs.ts';
import { linesOf, Tree } from './tree.ts';

/** How much of a page is shown at once, in code points: below what an answer may have before it is cut in its middle. */
const MOST_SHOWN = 12_000;
/** More lines than this that are new are no change, but another page. */
const MOST_CHANGED = 60;
const TREE_MS = 10_000;
/** Playwright's depth: what is nested deeper is left out, and its walk stays within its stack. */
const DEPTH = 150;
const TRIES = 3;

/** Reads a page anew. Throws UserError where it does not answer, the signal's reason where that aborts. */
export async function lookAt(tab: Tab, signal: AbortSignal): Promise<{ lines: string[]; isNew: boolean }> {
  for (let tried = 1; ; tried++) {
    try {
      return await read(tab, signal);
    } catch (error) {
      signal.throwIfAborted();
      // It went elsewhere while it was read.
      if (tried < TRIES && /context was destroyed|navigat|detached/i.test(errorText(error))) continue;
      tab.isStuck ||= /Timeout|crash/i.test(errorText(error));
      const what = tab.isStuck ? 'The page does not answer: its scripts are busy, or it crashed.' : errorText(error);
      throw new UserError(`${what} Navigate to another page, or read it with web_fetch.`);
    }
  }
}

async function read(tab: Tab, signal: AbortSignal): Promise<{ lines: string[]; isNew: boolean }> {
  const { page, refs } = tab;
  const began = await unlessAborted(
    page.evaluate(() => performance.timeOrigin),
    AbortSignal.any([signal, AbortSignal.timeout(TREE_MS)]),
  );
  const json = await page.ariaSnapshotJSON({ mode: 'ai', depth: DEPTH, timeout: TREE_MS, signal });
  const document = await page.evaluate(() => performance.timeOrigin);
  if (document !== began) throw new Error('It navigated meanwhile.');
  const isNew = document !== tab.document;
  if (isNew) refs.forget('all');
  tab.document = document;
  tab.isStuck = false;
  return { lines: linesOf(Tree.parse(json), refs.numberOf), isNew };
}

/** Lines of a page from one on (from 1), as many as fit, with where to read on. */
export function pageFrom(lines: string[], from: number): string {
  if (lines.length === 0) return '(an empty page)';
  let room = MOST_SHOWN;
  let end = from - 1;
  while (end < lines.length && (end === from - 1 || room >= lengthOf(lines[end]))) room -= lengthOf(lines[end++]);
  const shown = lines.slice(from - 1, end);
  if (from === 1 && end === lines.length) return shown.join('\n');
  const on = end < lines.length ? `; \`snapshot\` with \`from: ${end + 1}\` reads on` : '';
  return `[lines ${from} to ${end} of ${lines.length}${on}]\n${shown.join('\n')}`;
}

const lengthOf = (line: string | undefined): number => [...(line ?? '')].length + 1;

/** What is different since the model last saw the page: each new line below those it is inside of. */
export function changes(before: string[], after: string[]): string {
  const left = new Map<string, number>();
  for (const line of before) left.set(line, (left.get(line) ?? 0) + 1);
  const isNew = after.map((line) => {
    const count = left.get(line) ?? 0;
    left.set(line, count - 1);
    return count <= 0;
  });
  const count = isNew.filter(Boolean).length;
  const gone = before.length - (after.length - count);
  if (count === 0 && gone === 0) return 'Nothing on the page changed.';
  if (count > MOST_CHANGED || count > after.length / 2) return pageFrom(after, 1);
  const shown = pageFrom(withParents(after, isNew), 1);
  const told = [`${count} new or changed lines`, gone > 0 ? `${gone} are gone` : ''].filter(Boolean).join(', ');
  return count === 0
    ? `${gone} lines of the page are gone, the others are as before.`
    : `[${told}; all else is as before]\n${shown}`;
}

function withParents(lines: string[], wanted: boolean[]): string[] {
  const kept = new Set<number>();
  const open: number[] = [];
  const depthOf = (line: string) => line.length - line.trimStart().length;
  lines.forEach((line, at) => {
    while (open.length > 0 && depthOf(lines[open.at(-1) ?? 0] ?? '') >= depthOf(line)) open.pop();
    open.push(at);
    if (wanted[at]) for (const each of open) kept.add(each);
  });
  return lines.filter((_, at) => kept.has(at));
}
