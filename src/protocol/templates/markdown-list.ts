/**
 * A work list in Markdown: numbered or bulleted, one level. An item may have a command, as a code span at its end or as
 * one fenced block under it, and notes of the form `- needs: 1`, one bullet each. Parsed the way CommonMark parses
 * lists, spans and fences, as far as needed. Both runbooks and templates use this format.
 */

/** A bullet under an item: `- done when: file work/x.md`. */
export type ItemNote = { line: number; key: string; value: string };

export type ListItem = {
  /** Its position in the list, from 1. */
  number: number;
  /** Lines of the whole text, from 1. */
  line: number;
  /** Its text, without its command. One line, never empty if there is a command. */
  description: string;
  command?: string;
  notes: ItemNote[];
  /** Why it cannot be understood. */
  fault?: { line: number; what: string };
};

type OpenItem = {
  number: number;
  line: number;
  /** The column where its text starts: lines indented at least as far belong to it. */
  column: number;
  text: string[];
  blocks: string[];
  notes: ItemNote[];
  nested: number | undefined;
};
type Fence = { mark: string; indent: number; lines: string[] };

const ITEM = /^(\s*)(\d{1,9}[.)]|[-*+])(?:(\s+)(.*))?$/;
const RULE = /^ {0,3}([-*])(?:\s*\1){2,}\s*$/;
const FENCE = /^(\s*)(`{3,}|~{3,})([^`]*)$/;
const CHECKBOX = /^\[ \]\s+/;
const TICKED = /^\[[xX]\]\s/;
/** An escaped checkbox: a backslash stands before it. */
const ESCAPED_CHECKBOX = /^\\(?=\\*\[[ xX]\]\s)/;
const SPAN = /(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)/g;
const NOTE_LINE = /^(\p{L}[\p{L} _-]{0,30}?)\s*[:：](?:\s+(.*))?$/u;

/** Bullets under an item that are notes on it. Any other bullet there is a nested list. */
export const NOTE_KEYS = [
  ...(['needs', 'done when', 'agent', 'notes', 'when', 'rollback', 'part of', 'command'] as const),
  ...(['each', 'gather', 'failed part'] as const),
] as const;
export type NoteKey = (typeof NOTE_KEYS)[number];

/** `Done_When` and `done when` are the same key. */
export const normalizeNoteKey = (key: string): NoteKey | undefined => {
  const plain = key.toLowerCase().replace(/[\s_-]+/g, ' ');
  return NOTE_KEYS.find((one) => one === plain);
};

/** The items of a text, in order; lists in fenced code and prose around the list are not items. Total: never throws. */
export function parseListItems(text: string): ListItem[] {
  return scanItems(text).map(finishItem);
}

/** The text before the list. */
export function textBeforeList(text: string): string {
  const first = parseListItems(text)[0]?.line ?? 1;
  return text
    .split(/\r\n?|\n/)
    .slice(0, first - 1)
    .join('\n')
    .trim();
}

function scanItems(text: string): OpenItem[] {
  const items: OpenItem[] = [];
  let open: OpenItem | undefined;
  let fence: Fence | undefined;
  let blank = false;
  for (const [place, line] of text.split(/\r\n?|\n/).entries()) {
    if (fence) {
      if (closesFence(fence, line)) {
        open?.blocks.push(fence.lines.join('\n'));
        fence = undefined;
      } else fence.lines.push(removeIndent(line, fence.indent));
      continue;
    }
    const [, indent = '', mark] = FENCE.exec(line) ?? [];
    const item = RULE.test(line) ? null : ITEM.exec(line);
    const depth = item?.[1]?.length ?? 0;
    if (mark) fence = { mark, indent: indent.length, lines: [] };
    else if (item && open && depth >= open.column) addNote(open, item[4] ?? '', place + 1);
    else if (item && depth <= 3) {
      open = startItem(items.length + 1, place + 1, item);
      items.push(open);
    } else if (blank && /^\S/.test(line)) open = undefined;
    else if (/^ {0,3}#{1,6}\s/.test(line)) open = undefined;
    else if (line.trim() !== '') open?.text.push(line.trim());
    blank = line.trim() === '';
  }
  if (fence) open?.blocks.push(fence.lines.join('\n'));
  return items;
}

function startItem(
  number: number,
  line: number,
  [, indent = '', marker = '', space = ' ', text = '']: RegExpExecArray,
): OpenItem {
  const column = indent.length + marker.length + space.length;
  return { number, line, column, text: [text.replace(CHECKBOX, '')], blocks: [], notes: [], nested: undefined };
}

function addNote(open: OpenItem, text: string, line: number): void {
  const [, key = '', value = ''] = NOTE_LINE.exec(text.trim()) ?? [];
  if (normalizeNoteKey(key)) open.notes.push({ line, key, value: value.trim() });
  else open.nested ??= line;
}

function closesFence({ mark }: Fence, line: string): boolean {
  const text = line.trim();
  return text.length >= mark.length && text === (mark[0] ?? '').repeat(text.length);
}

function removeIndent(line: string, width: number): string {
  const indent = line.length - line.trimStart().length;
  return line.slice(Math.min(indent, width));
}

function finishItem({ number, line, text: lines, blocks, notes, nested }: OpenItem): ListItem {
  const text = lines.join(' ').trim();
  const own = { number, line, notes };
  const faulty = (what: string, at = line): ListItem => ({ ...own, description: text, fault: { line: at, what } });
  if (TICKED.test(text)) return faulty('is ticked already; take it out, or untick it');
  if (nested !== undefined)
    return faulty(
      `has a list inside; write its commands as items of their own, and notes as one of: ${NOTE_KEYS.join(', ')}`,
      nested,
    );
  if (blocks.length > 1) return faulty(`has ${blocks.length} blocks of commands; give it one`);
  const unescaped = text.replace(ESCAPED_CHECKBOX, '');
  if (notes.some((note) => normalizeNoteKey(note.key) === 'command')) return { ...own, description: unescaped };
  const block = blocks[0]?.trim();
  if (block) return { ...own, description: withoutTrailingColon(unescaped) || firstLine(block), command: block };
  const span = trailingCodeSpan(unescaped);
  if (!span) return { ...own, description: unescaped };
  return {
    ...own,
    description: withoutTrailingColon(unescaped.slice(0, span.at)) || firstLine(span.code),
    command: span.code,
  };
}

/** The code span at the end of a text, ignoring a full stop. */
function trailingCodeSpan(text: string): { at: number; code: string } | undefined {
  const span = [...text.matchAll(SPAN)].at(-1);
  if (!span || !/^[.;\u3002\uFF1B]?$/.test(text.slice(span.index + span[0].length).trim())) return undefined;
  const code = span[2] ?? '';
  // CommonMark: one space at both ends is padding, which lets code start or end with a backtick.
  const bare = /^ .*\S.* $/.test(code) ? code.slice(1, -1) : code;
  return bare.trim() === '' ? undefined : { at: span.index, code: bare };
}

const withoutTrailingColon = (text: string) => text.trim().replace(/\s*[:\uFF1A]$/, '');
const firstLine = (text: string) => text.split('\n', 1)[0] ?? '';

/**
 * Items are identified by their descriptions, ignoring case, so one whose description is already taken gets a number:
 * by an earlier item of its list, or by one of those in `before`.
 */
export function makeDescriptionsUnique<T extends { description: string }>(
  items: readonly T[],
  before: readonly T[] = [],
): T[] {
  const taken = new Set(before.map((item) => normalizeDescription(item.description)));
  return items.map((item) => {
    let { description } = item;
    for (let time = 2; taken.has(normalizeDescription(description)); time++)
      description = `${item.description} (${time})`;
    taken.add(normalizeDescription(description));
    return { ...item, description };
  });
}

const normalizeDescription = (description: string) => description.normalize('NFC').toLowerCase().replace(/\s+/g, ' ');
