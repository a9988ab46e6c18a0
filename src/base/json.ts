import { escapeInvisible } from './strings.ts';
import { attempt } from './user-error.ts';

/** A position in a text, both counted from 1; columns are counted in code points. */
export type TextPosition = { line: number; column: number };

/** Why a text is not JSON, and where. */
export type JsonSyntaxError = TextPosition & { expected: string; found: string };

const NUMBER_OR_WORD = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;
/** A number, a word or an escape that the end of the text cuts off. */
const CUT_VALUE = /(?:t|tr|tru|f|fa|fal|fals|n|nu|nul|-|-?(?:0|[1-9]\d*)(?:\.|(?:\.\d+)?[eE][+-]?))$/y;
const CUT_ESCAPE = /\\(?:u[0-9a-fA-F]{0,3})?$/y;
const SPACE = /[ \t\n\r]*/y;
const MAX_DEPTH = 1000;

/** `earlier`: the offset of an earlier occurrence of the key in the same object. */
type VisitPath = (path: ReadonlyArray<string | number>, offset: number, earlier?: number) => void;

class ScanError extends Error {
  readonly at: number;
  readonly wanted: string;

  constructor(at: number, wanted: string) {
    super(wanted);
    this.at = at;
    this.wanted = wanted;
  }
}

/** The value of a JSON text; undefined, which no schema accepts, if it is not JSON. */
export const parseJson = (text: string): unknown => attempt(() => JSON.parse(text));

/** The value of a JSON text, or why it is not JSON, with line and column. */
export function parseJsonOrWhy(text: string): { ok: true; value: unknown } | { ok: false; why: string } {
  try {
    return { ok: true, value: JSON.parse(text) };
  } catch (error) {
    return { ok: false, why: whyNotJson(text) ?? String(error) };
  }
}

/** Why a text is not JSON, with line and column; undefined if it is. */
export function whyNotJson(text: string): string | undefined {
  const fault = findJsonSyntaxError(text);
  return fault && `line ${fault.line}, column ${fault.column}: expected ${fault.expected}, got ${fault.found}`;
}

/** The first syntax error in a JSON text (RFC 8259); undefined if it is valid. */
export function findJsonSyntaxError(text: string): JsonSyntaxError | undefined {
  const error = scanError(text);
  if (error === undefined) return undefined;
  const char = text.codePointAt(error.at);
  const came = char === undefined ? 'the end of the file' : escapeInvisible(JSON.stringify(String.fromCodePoint(char)));
  return { ...positionAt(text, error.at), expected: error.wanted, found: came };
}

/** The index of the first character that is not JSON; the text's length if it only ends too early, or is JSON. */
export const findJsonFault = (text: string): number => scanError(text)?.at ?? text.length;

function scanError(text: string): ScanError | undefined {
  try {
    scanJson(text, () => {});
    return undefined;
  } catch (error) {
    if (error instanceof ScanError) return error;
    throw error;
  }
}

/** The end of the JSON object or list that begins here, by its brackets; -1 if it does not end. */
export function jsonEnd(text: string, from: number): number {
  const [opener, closer] = text[from] === '[' ? ['[', ']'] : ['{', '}'];
  let depth = 0;
  for (let at = from; at < text.length; at++) {
    const char = text[at];
    if (char === '"') {
      for (at++; at < text.length && text[at] !== '"'; at++) if (text[at] === '\\') at++;
    } else if (char === opener) depth++;
    else if (char === closer && --depth === 0) return at + 1;
  }
  return -1;
}

/** Longest text that is searched for JSON. */
const MAX_SEARCHED_CHARS = 200_000;

/** The first complete JSON object in a text that may have prose or a fence around it; undefined if there is none. */
export function firstJsonObject(text: string): unknown {
  const within = text.slice(0, MAX_SEARCHED_CHARS);
  for (let from = within.indexOf('{'); from >= 0; from = within.indexOf('{', from + 1)) {
    const to = jsonEnd(within, from);
    if (to < 0) return undefined;
    // Not this brace where it is no JSON: prose may contain braces of its own.
    const value = parseJson(within.slice(from, to));
    if (value !== undefined) return value;
  }
  return undefined;
}

/** The position of a path in a JSON text: its key, or the item of a list. Undefined if the text has no such path. */
export function positionOfJsonPath(text: string, path: readonly PropertyKey[]): TextPosition | undefined {
  const wanted = JSON.stringify(path.map(String));
  let found: number | undefined;
  scanJson(text, (here, offset) => {
    // The last of several equal keys counts, as for JSON.parse.
    if (here.length === path.length && JSON.stringify(here.map(String)) === wanted) found = offset;
  });
  return found === undefined ? undefined : positionAt(text, found);
}

/** A duplicate key of an object: its position, and that of the first occurrence. */
export type RepeatedKey = { path: PropertyKey[]; place: TextPosition; first: TextPosition };

/** Duplicate keys within an object, of which JSON.parse silently drops the first; at most `most` of them. */
export function repeatedKeys(text: string, most: number): RepeatedKey[] {
  const found: RepeatedKey[] = [];
  scanJson(text, (path, offset, earlier) => {
    if (earlier === undefined || found.length >= most) return;
    found.push({ path: [...path], place: positionAt(text, offset), first: positionAt(text, earlier) });
  });
  return found;
}

/** The position of an offset in a text. */
export function positionAt(text: string, offset: number): TextPosition {
  const before = text.slice(0, offset);
  const lineStart = before.lastIndexOf('\n') + 1;
  return { line: before.split('\n').length, column: [...before.slice(lineStart)].length + 1 };
}

function scanJson(text: string, visit: VisitPath): void {
  let at = 0;
  const path: Array<string | number> = [];

  const match = (pattern: RegExp): boolean => {
    pattern.lastIndex = at;
    const found = pattern.test(text);
    if (found) at = pattern.lastIndex;
    return found;
  };
  const take = (char: string): boolean => {
    match(SPACE);
    if (text[at] !== char) return false;
    at++;
    return true;
  };
  const must = (done: boolean, wanted: string): void => {
    if (!done) throw new ScanError(at, wanted);
  };

  const string = (): string => {
    const start = at;
    must(take('"'), 'a key in double quotes');
    while (text[at] !== '"') {
      must(at < text.length, 'a closing double quote');
      must(text.charCodeAt(at) >= 0x20, 'no line break or control character inside a string');
      if (text[at] === '\\') must(match(ESCAPE) || match(CUT_ESCAPE), 'an escape such as \\n or \\\\');
      else at++;
    }
    at++;
    const content: unknown = JSON.parse(text.slice(start, at));
    return String(content);
  };

  const object = () => {
    if (take('}')) return;
    const keys = new Map<string, number>();
    do {
      match(SPACE);
      const keyAt = at;
      const key = string();
      path.push(key);
      visit(path, keyAt, keys.get(key));
      if (!keys.has(key)) keys.set(key, keyAt);
      must(take(':'), '":" after the key');
      value();
      path.pop();
    } while (take(','));
    must(take('}'), '"," or "}"');
  };

  const list = () => {
    if (take(']')) return;
    let index = 0;
    do {
      match(SPACE);
      path.push(index++);
      visit(path, at);
      value();
      path.pop();
    } while (take(','));
    must(take(']'), '"," or "]"');
  };

  const value = () => {
    must(path.length < MAX_DEPTH, `at most ${MAX_DEPTH} levels of nesting`);
    match(SPACE);
    if (take('{')) object();
    else if (take('[')) list();
    else if (text[at] === '"') string();
    else must(!match(CUT_VALUE) && match(NUMBER_OR_WORD), 'a value');
  };

  value();
  match(SPACE);
  must(at === text.length, 'nothing after the value');
}

/** The values only of a JSON object, such as a call's arguments, in one text; what is none stays as it is. */
export function jsonValues(json: string): string {
  const value = parseJson(json);
  if (typeof value !== 'object' || value === null) return json;
  const values: unknown[] = Object.values(value);
  return values.map((one) => (typeof one === 'string' ? one : JSON.stringify(one))).join(' ');
}
