import { z } from 'zod';
import { clip } from '../../protocol/recorded.ts';

const State = z.union([z.boolean(), z.string()]).optional();
/** One element of a page as Playwright tells it (`ariaSnapshotJSON`); keys not named here are of no use to a model. */
const Element = z.object({
  role: z.string(),
  name: z.string().optional(),
  ref: z.string().optional(),
  text: z.string().optional(),
  url: z.string().optional(),
  level: z.number().optional(),
  cursor: z.string().optional(),
  active: State,
  checked: State,
  disabled: State,
  expanded: State,
  pressed: State,
  selected: State,
  get children(): z.ZodOptional<z.ZodArray<z.ZodUnion<readonly [z.ZodString, typeof Element]>>> {
    return z.array(z.union([z.string(), Element])).optional();
  },
});
type Element = z.infer<typeof Element>;
export const Tree = z.array(z.union([z.string(), Element]));
type Node = z.infer<typeof Tree>[number];

/** Roles that are read, not acted upon: their numbers would only cost room. */
const READ_ONLY = new Set(
  'paragraph listitem list row rowgroup cell rowheader columnheader generic text strong emphasis code time term definition group document main banner contentinfo navigation region article complementary blockquote caption figure superscript subscript mark separator note status alert log heading'.split(
    ' ',
  ),
);
const CELLS = new Set(['cell', 'rowheader', 'columnheader', 'gridcell']);
const MOST_OF_NAME = 300;
const MOST_OF_TEXT = 2000;
const MOST_OF_URL = 300;

/**
 * A page as lines: `[e12] button "Accept"`, indented by what holds what. Wrappers that say nothing are left out, and a row of a
 * table that only holds text is one line. `numberOf` gives an element's ref its number for the model.
 */
export function linesOf(tree: Node[], numberOf: (ref: string) => string): string[] {
  const lines: string[] = [];
  const add = (depth: number, text: string) => lines.push(`${'  '.repeat(depth)}${text}`);

  function walk(node: Node, depth: number): void {
    if (typeof node === 'string') {
      if (node.trim() !== '') add(depth, oneLine(node, MOST_OF_TEXT));
      return;
    }
    const cells = cellsOf(node);
    if (cells) {
      add(depth, `row: ${cells.join(' | ')}`);
      return;
    }
    const children = node.children ?? [];
    if (isWrapper(node)) {
      for (const child of [...textOf(node), ...children]) walk(child, depth);
      return;
    }
    const only = children.length === 1 ? children[0] : undefined;
    const inline = node.text === undefined && typeof only === 'string' ? only : node.text;
    add(depth, lineOf(node, inline, numberOf));
    if (inline !== only || only === undefined) for (const child of children) walk(child, depth + 1);
  }

  for (const node of tree) walk(node, 0);
  return lines;
}

const textOf = (node: Element): string[] => (node.text === undefined ? [] : [node.text]);

function isWrapper({ role, name, cursor }: Element): boolean {
  return (
    /^(?:generic|paragraph|rowgroup|none|presentation|strong|emphasis|code|mark|time)$/.test(role) &&
    !name &&
    cursor !== 'pointer'
  );
}

function lineOf(node: Element, inline: string | undefined, numberOf: (ref: string) => string): string {
  const { role, name, ref, url, level, cursor } = node;
  const isActedOn = ref !== undefined && (!READ_ONLY.has(role) || cursor === 'pointer');
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
    name ? ` "${oneLine(name, MOST_OF_NAME)}"` : '',
    states.length > 0 ? ` (${states.join(', ')})` : '',
    url === undefined ? '' : ` -> ${oneLine(url, MOST_OF_URL)}`,
    inline === undefined || inline.trim() === '' ? '' : `: ${oneLine(inline, MOST_OF_TEXT)}`,
  ].join('');
}

/** The texts of a row whose cells hold nothing else; undefined where it is no such row. */
function cellsOf(node: Element): string[] | undefined {
  if (node.role !== 'row' || node.cursor === 'pointer' || !node.children?.length) return undefined;
  const texts: string[] = [];
  for (const cell of node.children) {
    if (typeof cell === 'string' || !CELLS.has(cell.role)) return undefined;
    const inner = cell.children ?? [];
    if (inner.some((child) => typeof child !== 'string') || cell.cursor === 'pointer') return undefined;
    texts.push(oneLine(cell.name ?? cell.text ?? inner.join(' '), MOST_OF_NAME));
  }
  return texts;
}

const oneLine = (text: string, max: number): string => clip(text.replace(/\s+/g, ' ').trim(), max);
