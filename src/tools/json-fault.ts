/**
 * Where a text stops being JSON. The runtime's own message names the place for some faults and not for others, and
 * differs from version to version.
 */

const WHITE = /[ \t\r\n]*/y;
/** A string up to its closing quote, or to the first character that cannot be part of one. */
const STRING = /"[^"\\\u0000-\u001f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\u0000-\u001f]*)*/y;
const ATOM = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;

/** A number, a word or an escape that the end of the text breaks off. */
const CUT =
  /(?:\\(?:u[0-9a-fA-F]{0,3})?|t|tr|tru|f|fa|fal|fals|n|nu|nul|-|-?(?:0|[1-9]\d*)(?:\.|(?:\.\d+)?[eE][+-]?))$/y;

type Wants = 'value' | 'first item' | 'key' | 'first key' | 'colon' | 'comma';
type Token = { kind: string; end: number };

/** The index of the first character that cannot be right; the text's length where it only ends too early. */
export function faultAt(text: string): number {
  const open: string[] = [];
  let wants: Wants = 'value';
  for (let at = after(WHITE, text, 0); at < text.length; ) {
    const token = tokenAt(text, at);
    if ('fault' in token) return token.fault;
    const next = accept(wants, token.kind, open);
    if (!next) return at;
    wants = next;
    at = after(WHITE, text, token.end);
  }
  return text.length;
}

function tokenAt(text: string, at: number): Token | { fault: number } {
  const first = text.charAt(at);
  if ('{}[],:'.includes(first)) return { kind: first, end: at + 1 };
  if (first === '"') {
    const end = after(STRING, text, at);
    return text[end] === '"' ? { kind: 'string', end: end + 1 } : { fault: after(CUT, text, end) };
  }
  if (after(CUT, text, at) > at) return { fault: text.length };
  const end = after(ATOM, text, at);
  return end > at ? { kind: 'atom', end } : { fault: at };
}

/** What may follow; undefined where the token is out of place. `open` holds the brackets still to be closed. */
function accept(wants: Wants, kind: string, open: string[]): Wants | undefined {
  const closes = kind === open.at(-1) && (wants === 'comma' || wants.startsWith('first'));
  if (closes) {
    open.pop();
    return 'comma';
  }
  switch (wants) {
    case 'value':
    case 'first item':
      return acceptValue(kind, open);
    case 'key':
    case 'first key':
      return kind === 'string' ? 'colon' : undefined;
    case 'colon':
      return kind === ':' ? 'value' : undefined;
    case 'comma':
      if (kind !== ',' || open.length === 0) return undefined;
      return open.at(-1) === '}' ? 'key' : 'value';
    default:
      return wants satisfies never;
  }
}

function acceptValue(kind: string, open: string[]): Wants | undefined {
  if (kind === '{') {
    open.push('}');
    return 'first key';
  }
  if (kind === '[') {
    open.push(']');
    return 'first item';
  }
  return kind === 'string' || kind === 'atom' ? 'comma' : undefined;
}

function after(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return at + (pattern.exec(text)?.[0].length ?? 0);
}
