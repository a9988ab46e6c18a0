import type { Locator, Page } from 'playwright-core';
import { z } from 'zod';
import { raceAbort } from '../../base/async.ts';
import { sha256 } from '../../base/sha256.ts';
import { formatBytes, oneLine, truncate } from '../../base/strings.ts';
import { errorText, UserError } from '../../base/user-error.ts';
import { type ImageFile, MAX_IMAGE_BYTES } from '../../protocol/session/message.ts';
import { openWorkPaths } from '../files/work-paths.ts';
import { findFreePath, writeWorkFile } from '../files/write-file.ts';
import type { Tab } from './tabs.ts';

/** How much of a page is shown at once, in code points: below the size at which an answer is truncated. */
const MAX_SHOWN = 12_000;
/** With more new lines than this, it is shown as another page, not as a change. */
const MAX_CHANGED = 60;
const TREE_MS = 10_000;
/** Playwright's depth limit: deeper elements are left out, and its recursion stays within its stack. */
const MAX_DEPTH = 150;
const TRIES = 3;

/** Reads the current page. Throws UserError if the page does not respond, the signal's reason if that aborts. */
export async function snapshotPage(tab: Tab, signal: AbortSignal): Promise<{ lines: string[]; isNew: boolean }> {
  for (let tried = 1; ; tried++) {
    try {
      return await readSnapshot(tab, signal);
    } catch (error) {
      signal.throwIfAborted();
      // The page navigated while it was read.
      if (tried < TRIES && /context was destroyed|navigat|detached/i.test(errorText(error))) continue;
      tab.isStuck ||= /Timeout|crash/i.test(errorText(error));
      const what = tab.isStuck ? 'The page does not answer: its scripts are busy, or it crashed.' : errorText(error);
      throw new UserError(`${what} Navigate to another page, or read it with web_fetch.`);
    }
  }
}

async function readSnapshot(tab: Tab, signal: AbortSignal): Promise<{ lines: string[]; isNew: boolean }> {
  const { page, refs } = tab;
  const began = await raceAbort(
    page.evaluate(() => performance.timeOrigin),
    AbortSignal.any([signal, AbortSignal.timeout(TREE_MS)]),
  );
  const json = await page.ariaSnapshotJSON({ mode: 'ai', depth: MAX_DEPTH, timeout: TREE_MS, signal });
  const document = await page.evaluate(() => performance.timeOrigin);
  if (document !== began) throw new Error('It navigated meanwhile.');
  const isNew = document !== tab.document;
  if (isNew) refs.forget('all');
  tab.document = document;
  tab.isStuck = false;
  return { lines: renderTree(AriaTree.parse(json), refs.numberOf), isNew };
}

/** Lines of a page starting at `from` (1-based), as many as fit, with where to continue. */
export function pageLines(lines: string[], from: number): string {
  if (lines.length === 0) return '(an empty page)';
  let room = MAX_SHOWN;
  let end = from - 1;
  while (end < lines.length && (end === from - 1 || room >= lengthOf(lines[end]))) room -= lengthOf(lines[end++]);
  const shown = lines.slice(from - 1, end);
  if (from === 1 && end === lines.length) return shown.join('\n');
  const on = end < lines.length ? `; \`snapshot\` with \`from: ${end + 1}\` reads on` : '';
  return `[lines ${from} to ${end} of ${lines.length}${on}]\n${shown.join('\n')}`;
}

const lengthOf = (line: string | undefined): number => [...(line ?? '')].length + 1;

/** What changed since the model last saw the page: each new line below its parents. */
export function describeChanges(before: string[], after: string[]): string {
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
  if (count > MAX_CHANGED || count > after.length / 2) return pageLines(after, 1);
  const shown = pageLines(withParents(after, isNew), 1);
  const counts = [`${count} new or changed lines`, gone > 0 ? `${gone} are gone` : ''].filter(Boolean).join(', ');
  return count === 0
    ? `${gone} lines of the page are gone, the others are as before.`
    : `[${counts}; all else is as before]\n${shown}`;
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

const AriaState = z.union([z.boolean(), z.string()]).optional();
/** One element of a page as Playwright reports it (`ariaSnapshotJSON`), without keys that a model does not need. */
const AriaElement = z.object({
  role: z.string(),
  name: z.string().optional(),
  ref: z.string().optional(),
  text: z.string().optional(),
  url: z.string().optional(),
  level: z.number().optional(),
  cursor: z.string().optional(),
  active: AriaState,
  checked: AriaState,
  disabled: AriaState,
  expanded: AriaState,
  pressed: AriaState,
  selected: AriaState,
  get children(): z.ZodOptional<z.ZodArray<z.ZodUnion<readonly [z.ZodString, typeof AriaElement]>>> {
    return z.array(z.union([z.string(), AriaElement])).optional();
  },
});
type AriaElement = z.infer<typeof AriaElement>;
const AriaTree = z.array(z.union([z.string(), AriaElement]));
type AriaNode = z.infer<typeof AriaTree>[number];

/** Roles that cannot be acted upon: numbering them would only cost tokens. */
const READ_ONLY_ROLES = new Set(
  'paragraph listitem list row rowgroup cell rowheader columnheader generic text strong emphasis code time term definition group document main banner contentinfo navigation region article complementary blockquote caption figure superscript subscript mark separator note status alert log heading'.split(
    ' ',
  ),
);
const CELL_ROLES = new Set(['cell', 'rowheader', 'columnheader', 'gridcell']);
const MOST_OF_NAME = 300;
const MOST_OF_TEXT = 2000;
const MOST_OF_URL = 300;

/**
 * A page as lines: `[e12] button "Accept"`, indented by nesting. Wrappers without content are left out, and a table row
 * that holds only text is one line. `numberOf` maps an element's ref to its number for the model.
 */
function renderTree(tree: AriaNode[], numberOf: (ref: string) => string): string[] {
  const lines: string[] = [];
  const add = (depth: number, text: string) => lines.push(`${'  '.repeat(depth)}${text}`);

  function walk(node: AriaNode, depth: number): void {
    if (typeof node === 'string') {
      if (node.trim() !== '') add(depth, clip(node, MOST_OF_TEXT));
      return;
    }
    const cells = rowCells(node);
    if (cells) {
      add(depth, `row: ${cells.join(' | ')}`);
      return;
    }
    const children = node.children ?? [];
    if (isWrapper(node)) {
      for (const child of [...ownText(node), ...children]) walk(child, depth);
      return;
    }
    const only = children.length === 1 ? children[0] : undefined;
    const inline = node.text === undefined && typeof only === 'string' ? only : node.text;
    add(depth, elementLine(node, inline, numberOf));
    if (inline !== only || only === undefined) for (const child of children) walk(child, depth + 1);
  }

  for (const node of tree) walk(node, 0);
  return lines;
}

const ownText = (node: AriaElement): string[] => (node.text === undefined ? [] : [node.text]);

function isWrapper({ role, name, cursor }: AriaElement): boolean {
  return (
    /^(?:generic|paragraph|rowgroup|none|presentation|strong|emphasis|code|mark|time)$/.test(role) &&
    !name &&
    cursor !== 'pointer'
  );
}

function elementLine(node: AriaElement, inline: string | undefined, numberOf: (ref: string) => string): string {
  const { role, name, ref, url, level, cursor } = node;
  const isActedOn = ref !== undefined && (!READ_ONLY_ROLES.has(role) || cursor === 'pointer');
  const states = (['checked', 'disabled', 'expanded', 'pressed', 'selected'] as const).flatMap((state) =>
    node[state] === undefined || node[state] === false
      ? node[state] === false && state === 'expanded'
        ? ['collapsed']
        : []
      : [node[state] === true ? state : `${state}: ${node[state]}`],
  );
  if (node.active && isActedOn) states.push('focused');
  const kind = role === 'generic' ? (isActedOn ? 'clickable' : 'part') : role;
  return [
    isActedOn ? `[${numberOf(ref)}] ` : '',
    kind,
    level === undefined ? '' : ` ${level}`,
    name ? ` "${clip(name, MOST_OF_NAME)}"` : '',
    states.length > 0 ? ` (${states.join(', ')})` : '',
    url === undefined ? '' : ` -> ${clip(url, MOST_OF_URL)}`,
    inline === undefined || inline.trim() === '' ? '' : `: ${clip(inline, MOST_OF_TEXT)}`,
  ].join('');
}

/** The texts of a row whose cells hold only text; undefined for any other node. */
function rowCells(node: AriaElement): string[] | undefined {
  if (node.role !== 'row' || node.cursor === 'pointer' || !node.children?.length) return undefined;
  const texts: string[] = [];
  for (const cell of node.children) {
    if (typeof cell === 'string' || !CELL_ROLES.has(cell.role)) return undefined;
    const inner = cell.children ?? [];
    if (inner.some((child) => typeof child !== 'string') || cell.cursor === 'pointer') return undefined;
    texts.push(clip(cell.name ?? cell.text ?? inner.join(' '), MOST_OF_NAME));
  }
  return texts;
}

const clip = (text: string, max: number): string => truncate(oneLine(text), max);

const SCREENSHOT_MS = 20_000;
/** Chromium renders nothing taller than this, and it would take gigabytes. */
const MAX_HEIGHT = 16_384;

type ScreenshotOptions = { work: string; signal: AbortSignal; found: Locator | undefined; whole: boolean };

export type Screenshot = { message: string; images: ImageFile[] };

/**
 * Takes a screenshot of the view, the whole page or one element and saves it in `work/screenshots/`; reports its path.
 * A model that accepts images is shown it.
 */
export async function takeScreenshot(
  page: Page,
  { work, signal, found, whole }: ScreenshotOptions,
): Promise<Screenshot> {
  const how = { type: 'png', timeout: SCREENSHOT_MS, signal, animations: 'disabled' } as const;
  const height = whole ? z.number().parse(await page.evaluate('document.documentElement.scrollHeight')) : 0;
  const width = page.viewportSize()?.width ?? 1280;
  const clipped = height > MAX_HEIGHT ? { clip: { x: 0, y: 0, width, height: MAX_HEIGHT } } : {};
  const png = await (found ? found.screenshot(how) : page.screenshot({ ...how, fullPage: whole, ...clipped }));
  const paths = await openWorkPaths(work, []);
  const resolved = await findFreePath(paths, 'screenshots', 'page.png');
  await writeWorkFile(resolved, png, paths);
  const size = `${png.readUInt32BE(16)} x ${png.readUInt32BE(20)} pixels`;
  const cut = height > MAX_HEIGHT ? `; the page is taller, these are its first ${MAX_HEIGHT}` : '';
  const hash = sha256(png);
  const image = { path: resolved.displayName, type: 'image/png' as const, bytes: png.length, sha256: hash };
  return {
    message: `saved \`${resolved.displayName}\`, ${size}, ${formatBytes(png.length)}${cut}`,
    images: png.length <= MAX_IMAGE_BYTES ? [image] : [],
  };
}
