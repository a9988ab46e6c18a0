/**
 * A list of work as Markdown: numbered or bulleted, one level. An item may carry a command, as the code span that ends it or as one
 * fenced block under it, and notes of the form `- needs: 1`, a bullet each. Read the way CommonMark reads lists, spans and
 * fences, as far as needed. Runbooks and templates are both this.
 */

/** A bullet under an item: `- done when: file work/x.md`. */
export type Note = { line: number; key: string; value: string };

export type Item = {
  /** Its place in the list, from 1. */
  number: number;
  /** Lines of the whole text, from 1. */
  line: number;
  /** What it says, without its command. One line, never empty where there is a command. */
  description: string;
  command?: string;
  notes: Note[];
  /** What keeps it from being understood. */
  fault?: { line: number; what: string };
};

type Open = {
  number: number;
  line: number;
  /** Where its text begins: what is indented as far belongs to it. */
  column: number;
  text: string[];
  blocks: string[];
  notes: Note[];
  nested: number | undefined;
};
type Fence = { mark: string; indent: number; lines: string[] };

const ITEM = /^(\s*)(\d{1,9}[.)]|[-*+])(?:(\s+)(.*))?$/;
const RULE = /^ {0,3}([-*])(?:\s*\1){2,}\s*$/;
const FENCE = /^(\s*)(`{3,}|~{3,})([^`]*)$/;
const CHECKBOX = /^\[ \]\s+/;
const TICKED = /^\[[xX]\]\s/;
/** A box that is no box, since a backslash stands before it. */
const ESCAPED = /^\\(?=\\*\[[ xX]\]\s)/;
const SPAN = /(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)/g;
const NOTE = /^(\p{L}[\p{L} _-]{0,30}?)\s*[:：](?:\s+(.*))?$/u;

/** Bullets under an item that are notes on it. Any other bullet there is a list inside a list. */
export const NOTE_KEYS = ['needs', 'done when', 'agent', 'notes', 'when', 'rollback', 'part of', 'command'] as const;
export type NoteKey = (typeof NOTE_KEYS)[number];

/** `Done_When` and `done when` are one key. */
export const noteKey = (key: string): NoteKey | undefined => {
  const plain = key.toLowerCase().replace(/[\s_-]+/g, ' ');
  return NOTE_KEYS.find((one) => one === plain);
};

/** The items of a text, in order; lists in fenced code and prose around the list are no items. Total: never throws. */
export function readItems(text: string): Item[] {
  return rawItems(text).map(toItem);
}

/** What stands before the list of a text. */
export function wordsBefore(text: string): string {
  const first = readItems(text)[0]?.line ?? 1;
  return text
    .split(/\r\n?|\n/)
    .slice(0, first - 1)
    .join('\n')
    .trim();
}

function rawItems(text: string): Open[] {
  const items: Open[] = [];
  let open: Open | undefined;
  let fence: Fence | undefined;
  let blank = false;
  for (const [place, line] of text.split(/\r\n?|\n/).entries()) {
    if (fence) {
      if (closes(fence, line)) {
        open?.blocks.push(fence.lines.join('\n'));
        fence = undefined;
      } else fence.lines.push(withoutIndent(line, fence.indent));
      continue;
    }
    const [, indent = '', mark] = FENCE.exec(line) ?? [];
    const item = RULE.test(line) ? null : ITEM.exec(line);
    const depth = item?.[1]?.length ?? 0;
    if (mark) fence = { mark, indent: indent.length, lines: [] };
    else if (item && open && depth >= open.column) noted(open, item[4] ?? '', place + 1);
    else if (item && depth <= 3) {
      open = begun(items.length + 1, place + 1, item);
      items.push(open);
    } else if (blank && /^\S/.test(line)) open = undefined;
    else if (/^ {0,3}#{1,6}\s/.test(line)) open = undefined;
    else if (line.trim() !== '') open?.text.push(line.trim());
    blank = line.trim() === '';
  }
  if (fence) open?.blocks.push(fence.lines.join('\n'));
  return items;
}

function begun(
  number: number,
  line: number,
  [, indent = '', marker = '', space = ' ', text = '']: RegExpExecArray,
): Open {
  const column = indent.length + marker.length + space.length;
  return { number, line, column, text: [text.replace(CHECKBOX, '')], blocks: [], notes: [], nested: undefined };
}

function noted(open: Open, text: string, line: number): void {
  const [, key = '', value = ''] = NOTE.exec(text.trim()) ?? [];
  if (noteKey(key)) open.notes.push({ line, key, value: value.trim() });
  else open.nested ??= line;
}

function closes({ mark }: Fence, line: string): boolean {
  const text = line.trim();
  return text.length >= mark.length && text === (mark[0] ?? '').repeat(text.length);
}

function withoutIndent(line: string, width: number): string {
  const indent = line.length - line.trimStart().length;
  return line.slice(Math.min(indent, width));
}

function toItem({ number, line, text: lines, blocks, notes, nested }: Open): Item {
  const text = lines.join(' ').trim();
  const own = { number, line, notes };
  const faulty = (what: string, at = line): Item => ({ ...own, description: text, fault: { line: at, what } });
  if (TICKED.test(text)) return faulty('is ticked already; take it out, or untick it');
  if (nested !== undefined)
    return faulty(
      `has a list inside; write its commands as items of their own, and notes as one of: ${NOTE_KEYS.join(', ')}`,
      nested,
    );
  if (blocks.length > 1) return faulty(`has ${blocks.length} blocks of commands; give it one`);
  const said = text.replace(ESCAPED, '');
  if (notes.some((note) => noteKey(note.key) === 'command')) return { ...own, description: said };
  const block = blocks[0]?.trim();
  if (block) return { ...own, description: described(said) || firstLine(block), command: block };
  const span = lastSpan(said);
  if (!span) return { ...own, description: said };
  return { ...own, description: described(said.slice(0, span.at)) || firstLine(span.code), command: span.code };
}

/** The code span that ends a text, but for a full stop. */
function lastSpan(text: string): { at: number; code: string } | undefined {
  const span = [...text.matchAll(SPAN)].at(-1);
  if (!span || !/^[.;\u3002\uFF1B]?$/.test(text.slice(span.index + span[0].length).trim())) return undefined;
  const code = span[2] ?? '';
  // CommonMark: one space inside both ends is padding, there to let code begin or end with a backtick.
  const bare = /^ .*\S.* $/.test(code) ? code.slice(1, -1) : code;
  return bare.trim() === '' ? undefined : { at: span.index, code: bare };
}

const described = (text: string) => text.trim().replace(/\s*[:\uFF1A]$/, '');
const firstLine = (text: string) => text.split('\n', 1)[0] ?? '';

/**
 * Items are told apart by their descriptions, whatever their case, so one whose description is taken already gets a number:
 * by an earlier item of its list, or by one of those in `before`.
 */
export function distinct<T extends { description: string }>(items: readonly T[], before: readonly T[] = []): T[] {
  const taken = new Set(before.map((item) => folded(item.description)));
  return items.map((item) => {
    let { description } = item;
    for (let time = 2; taken.has(folded(description)); time++) description = `${item.description} (${time})`;
    taken.add(folded(description));
    return { ...item, description };
  });
}

const folded = (description: string) => description.normalize('NFC').toLowerCase().replace(/\s+/g, ' ');
