/**
 * The front matter of a text file, between two lines of `---`, as far as it consists of `key: value` lines, and the
 * text after it.
 */
export type FrontMatter = { fields: Readonly<Record<string, string>>; body: string };

/**
 * Parses the front matter of a text; undefined if it has none or it never ends. Supports the YAML that people write
 * there: plain, quoted and folded values, and blocks after `|` and `>`. Lists and nested keys are skipped, never an
 * error.
 */
export function parseFrontMatter(text: string): FrontMatter | undefined {
  const lines = text.replace(/^\uFEFF/, '').split(/\r?\n/);
  if (lines[0]?.trimEnd() !== '---') return undefined;
  const end = lines.findIndex((line, at) => at > 0 && /^(?:---|\.\.\.)\s*$/.test(line));
  if (end < 0) return undefined;
  const body = lines
    .slice(end + 1)
    .join('\n')
    .replace(/^\n+/, '');
  return { fields: parseFields(lines.slice(1, end)), body };
}

/** A text that this program wrote with a front matter of words and JSON values, each on one line; else undefined. */
export function parseWrittenFrontMatter(file: string): object | undefined {
  const [, head, text] = /^---\n([\s\S]*?)\n---\n\n?([\s\S]*?)\n?$/.exec(file) ?? [];
  const facts = head?.split('\n').map((line): [string, unknown] => {
    const [, key = '', value = ''] = /^(\w+): (.*)$/.exec(line) ?? [];
    const json = parseJson(value);
    return [key, json === undefined ? value : json];
  });
  return facts && { ...Object.fromEntries(facts), text };
}

function parseFields(lines: readonly string[]): Record<string, string> {
  const fields = new Map<string, string>();
  for (let at = 0; at < lines.length; at++) {
    const [, key, first = ''] = /^([A-Za-z_][\w-]*):(?:\s+(.*))?$/.exec(lines[at] ?? '') ?? [];
    if (key === undefined) continue;
    const more: string[] = [];
    while (at + 1 < lines.length && /^(?:\s|$)/.test(lines[at + 1] ?? '')) more.push(lines[++at] ?? '');
    if (!fields.has(key)) fields.set(key, parseValue(first.trim(), more));
  }
  return Object.fromEntries(fields);
}

function parseValue(first: string, more: readonly string[]): string {
  const block = /^([|>])[-+\d]*(?:\s+#.*)?$/.exec(first)?.[1];
  if (block !== undefined) return block === '|' ? dedent(more).join('\n').trim() : joinFoldedLines(dedent(more));
  const whole = joinFoldedLines([first, ...more]);
  const [quote] = whole;
  if (quote === '"' || quote === "'") return unquote(whole, quote);
  return whole.replace(/(?:^|\s+)#.*$/, '');
}

/** Joins the lines of a paragraph into one; an empty line remains a break. */
function joinFoldedLines(lines: readonly string[]): string {
  return lines
    .map((line) => line.trim())
    .join('\n')
    .trim()
    .replace(/\n+/g, (breaks) => (breaks.length === 1 ? ' ' : '\n'.repeat(breaks.length - 1)));
}

function dedent(lines: readonly string[]): string[] {
  const depth = Math.min(...lines.filter((line) => line.trim() !== '').map((line) => line.search(/\S/)));
  return lines.map((line) => line.slice(depth));
}

function unquote(whole: string, quote: string): string {
  if (quote === "'") return (/^'((?:[^']|'')*)'/.exec(whole)?.[1] ?? whole.slice(1)).replaceAll("''", "'");
  const inner = /^"(?:[^"\\]|\\.)*"/s.exec(whole)?.[0];
  if (inner === undefined) return whole.slice(1);
  // Where an escape is one that YAML has and JSON has not, the text as it is is close enough to be read.
  return String(parseJson(inner.replaceAll('\n', '\\n')) ?? inner.slice(1, -1));
}

import { parseJson } from './json.ts';
