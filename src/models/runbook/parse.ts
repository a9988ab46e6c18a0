/**
 * A runbook: a Markdown list (numbered or bulleted, one level) whose items carry a command each, as the code span that
 * ends the item or as one fenced block under it. Read the way CommonMark reads lists, spans and fences, as far as needed.
 */

export type Step = { description: string; command: string };
export type Runbook = {
  /** Empty where `problems` is not. */
  steps: Step[];
  /** What keeps the list from being run, an item a line. */
  problems: string[];
};

type Item = {
  number: number;
  /** Where its text begins: what is indented as far belongs to it. */
  column: number;
  text: string[];
  blocks: string[];
  nested: boolean;
};
type Fence = { mark: string; indent: number; lines: string[] };

const ITEM = /^(\s*)(\d{1,9}[.)]|[-*+])(?:(\s+)(.*))?$/;
const RULE = /^ {0,3}([-*])(?:\s*\1){2,}\s*$/;
const FENCE = /^(\s*)(`{3,}|~{3,})([^`]*)$/;
const CHECKBOX = /^\[ \]\s+/;
const TICKED = /^\[[xX]\]\s/;
/** The engine names a message's files behind it; they are no words of the last item. */
const ATTACHED = /^\[attached: .*\]$/;
const SPAN = /(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)/g;

/** The runbook in a message, or undefined where no item of it has a command. */
export function parseRunbook(message: string): Runbook | undefined {
  const read = readItems(message).map(toStep);
  if (!read.some((one) => 'command' in one)) return undefined;
  const problems = read.flatMap((one) => ('problem' in one ? [one.problem] : []));
  return problems.length > 0
    ? { steps: [], problems }
    : { steps: distinct(read.filter((one) => 'command' in one)), problems };
}

function readItems(message: string): Item[] {
  const items: Item[] = [];
  let open: Item | undefined;
  let fence: Fence | undefined;
  let blank = false;
  for (const line of message.split(/\r\n?|\n/)) {
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
    else if (item && open && depth >= open.column) open.nested = true;
    else if (item && depth <= 3) {
      const [, , marker = '', space = ' ', text = ''] = item;
      const column = depth + marker.length + space.length;
      open = { number: items.length + 1, column, text: [text.replace(CHECKBOX, '')], blocks: [], nested: false };
      items.push(open);
    } else if (blank && /^\S/.test(line)) open = undefined;
    else if (/^ {0,3}#{1,6}\s/.test(line)) open = undefined;
    else if (line.trim() !== '' && !ATTACHED.test(line)) open?.text.push(line.trim());
    blank = line.trim() === '';
  }
  if (fence) open?.blocks.push(fence.lines.join('\n'));
  return items;
}

function closes({ mark }: Fence, line: string): boolean {
  const text = line.trim();
  return text.length >= mark.length && text === (mark[0] ?? '').repeat(text.length);
}

function withoutIndent(line: string, width: number): string {
  const indent = line.length - line.trimStart().length;
  return line.slice(Math.min(indent, width));
}

function toStep(item: Item): Step | { problem: string } {
  const text = item.text.join(' ').trim();
  const problem = (what: string) => ({ problem: `Item ${item.number} ("${shown(text)}") ${what}.` });
  if (TICKED.test(text)) return problem('is ticked already; take it out, or untick it');
  if (item.nested) return problem('has a list inside; write its commands as items of their own');
  if (item.blocks.length > 1) return problem(`has ${item.blocks.length} blocks of commands; give it one`);
  const block = item.blocks[0]?.trim();
  if (block) return { description: description(text) || firstLine(block), command: block };
  const span = lastSpan(text);
  if (!span) return problem('has no command');
  return { description: description(text.slice(0, span.at)) || firstLine(span.code), command: span.code };
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

const description = (text: string) => text.trim().replace(/\s*[:\uFF1A]$/, '');
const firstLine = (text: string) => text.split('\n', 1)[0] ?? '';
const shown = (text: string) => ([...text].length > 60 ? `${[...text].slice(0, 60).join('')}…` : text);

/**
 * Steps are told apart by their descriptions, whatever their case, so one whose description is taken already gets a number:
 * by an earlier step of its list, or by one of those in `before`.
 */
export function distinct(steps: Step[], before: readonly Step[] = []): Step[] {
  const taken = new Set(before.map((step) => folded(step.description)));
  return steps.map((step) => {
    let { description } = step;
    for (let time = 2; taken.has(folded(description)); time++) description = `${step.description} (${time})`;
    taken.add(folded(description));
    return { ...step, description };
  });
}

const folded = (description: string) => description.normalize('NFC').toLowerCase().replace(/\s+/g, ' ');
