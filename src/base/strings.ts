/** The beginning of a text, at most `max` code points, with an ellipsis if something was left out. */
export function truncate(text: string, max: number): string {
  if (text.length <= max) return text;
  const points = [...text];
  return points.length <= max ? text : `${points.slice(0, max - 1).join('')}…`;
}

/** A text on one line: line breaks, controls and runs of spaces are one space. */
export const oneLine = (text: string): string => text.replace(/[\s\p{Cc}]+/gu, ' ').trim();

/** The first few items, and how many more there are. */
export function firstFew(items: readonly string[], most = 20): string[] {
  const more = items.length - most;
  return more > 0 ? [...items.slice(0, most), `… +${more}`] : [...items];
}

/** Beginning and end of a long text around a note that says what was left out and where the full text is. */
export function truncateMiddle(text: string, max: number, whole: string): string {
  const points = [...text];
  if (points.length <= max) return text;
  const half = Math.floor(max / 2);
  const left = points.length - 2 * half;
  const note = `\n[… ${left} characters left out; the whole: ${whole} …]\n`;
  return points.slice(0, half).join('') + note + points.slice(-half).join('');
}

/** Levenshtein distance: letters added, removed or replaced. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (const [i, left] of [...a].entries()) {
    const next = [i + 1];
    for (const [j, right] of [...b].entries()) {
      const replaced = (row[j] ?? 0) + (left === right ? 0 : 1);
      next.push(Math.min(replaced, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}

/** The known name that was probably meant, if one is close: at most two letters off, or a third of its length. */
export function nearestName(wanted: string, known: readonly string[]): string | undefined {
  const [nearest] = known
    .map((name) => ({ name, distance: editDistance(wanted.toLowerCase(), name.toLowerCase()) }))
    .sort((a, b) => a.distance - b.distance);
  return nearest && nearest.distance <= Math.max(2, nearest.name.length / 3) ? nearest.name : undefined;
}

/**
 * Characters that are invisible or reorder visible text: controls, direction marks, joiners, tags, fillers, line and
 * paragraph separators, private-use characters and lone surrogates. Tab and line feed are allowed.
 */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/gu;
/**
 * The same, except controls below DEL, which are handled separately in a terminal, and joiners and variation selectors
 * after non-ASCII characters: emoji and scripts need them.
 */
const MISLEADING =
  /(?!(?<=[^\x00-\x7f])(?:\u200c|\u200d|\ufe0e|\ufe0f))[\u007f-\u009f\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/gu;

/** For texts that a decision depends on: escapes invisible characters (`\u202e`). JSON keeps its meaning. */
export const escapeInvisible = (text: string): string =>
  text.replace(INVISIBLE, (char) => (char === '\n' || char === '\t' ? char : unicodeEscape(char)));

const CONTROLS = /(?![\n\t])[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** For text files that people print in a terminal: escapes controls, which act there, and what reorders text. */
export const escapeControls = (text: string): string => text.replaceAll('\r\n', '\n').replace(CONTROLS, unicodeEscape);

/** For texts that are only read: escapes misleading characters. */
export const escapeMisleading = (text: string): string => text.replace(MISLEADING, unicodeEscape);

/** For texts that a person answers: escapes controls and misleading characters, but no emoji or other scripts. */
export const legible = (text: string): string =>
  escapeMisleading(text.replace(/\p{Cc}/gu, (char) => (char === '\n' || char === '\t' ? char : unicodeEscape(char))));

/** In UTF-16 units, as JSON writes them. */
function unicodeEscape(char: string): string {
  return [...Array(char.length).keys()].map((at) => `\\u${char.charCodeAt(at).toString(16).padStart(4, '0')}`).join('');
}

/** Similarity of texts to one text, from 0 to 1: the share of letter pairs in common (Sørensen-Dice). */
export function similarityTo(wanted: string): (text: string) => number {
  const pairs = letterPairs(wanted);
  return (text) => {
    const others = letterPairs(text);
    let shared = 0;
    for (const pair of others) if (pairs.has(pair)) shared++;
    return (2 * shared) / (pairs.size + others.size);
  };
}

/** The names sorted by similarity to `wanted`, best first. */
export function sortBySimilarity(wanted: string, names: Iterable<string>): string[] {
  const like = similarityTo(wanted);
  return [...names]
    .map((name) => ({ name, score: like(name) }))
    .sort((a, b) => b.score - a.score)
    .map(({ name }) => name);
}

function letterPairs(text: string): Set<string> {
  const letters = ` ${text.trim().toLowerCase()} `;
  const pairs = new Set<string>();
  for (let at = 1; at < letters.length; at++) pairs.add(letters.slice(at - 1, at + 1));
  return pairs;
}

/** Removed and added lines, in diff format. */
export function diffLines(before: string, after: string): string {
  return [...prefixLines('-', before), ...prefixLines('+', after)].join('\n');
}

const prefixLines = (marker: string, text: string) =>
  text === ''
    ? []
    : text
        .replace(/\n$/, '')
        .split('\n')
        .map((line) => `${marker} ${line}`);

/** A name on one line, with control characters escaped. */
export function escapeControlChars(name: string): string {
  return name.replace(/[\u0000-\u001f\u007f]/g, (character) => JSON.stringify(character).slice(1, -1));
}

/** An exact size, for comparison. */
export function formatBytes(bytes: number): string {
  return bytes === 1 ? '1 byte' : `${bytes} bytes`;
}

/** A time in the time zone of this machine: `2026-03-01 14:05:09`. */
export function formatLocalTime(at: string): string {
  const date = new Date(at);
  const two = (n: number) => String(n).padStart(2, '0');
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** A time for readers in any time zone: `2026-03-01 13:05:09 UTC`. */
export const formatUtcTime = (at: string): string => at.replace(/^(\S{10})T(\d\d:\d\d:\d\d).*Z$/, '$1 $2 UTC');

/** Quotes any text as one word of a shell command. */
export const quoteForShell = (word: string): string =>
  /^[\w.,/@+-][\w.,/@+~-]*$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
