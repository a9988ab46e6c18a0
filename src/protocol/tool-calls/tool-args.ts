import type { z } from 'zod';
import { sortBySimilarity, truncate } from '../../base/strings.ts';
import { UserError } from '../../base/user-error.ts';

/**
 * The arguments of a call, parsed and validated. Throws UserError worded so that the model can act on it. Nothing is
 * guessed: text that does not parse is never taken for `{}`; only empty text is, if the tool needs no argument.
 */
export function parseToolArgs<Args extends z.ZodObject>(tool: string, schema: Args, text: string): z.output<Args> {
  const value = text.trim() === '' ? {} : parseJsonArgs(tool, schema, text);
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const faults = result.error.issues.map((issue) => describeIssue(issue, value, schema));
  throw new UserError(`The arguments of \`${tool}\` do not fit: ${faults.join('; ')}. ${describeExpectedArgs(schema)}`);
}

function parseJsonArgs(tool: string, schema: z.ZodObject, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new UserError(
      `The arguments of \`${tool}\` are not JSON: ${describeJsonFault(text)} ${describeExpectedArgs(schema)}`,
    );
  }
}

function describeJsonFault(text: string): string {
  const at = findJsonFault(text);
  const before = text.slice(0, at);
  const line = before.split('\n').length;
  const column = at - before.lastIndexOf('\n');
  const excerpt = [...before].slice(-40).join('');
  if (at >= text.length) return `they end too early, after \`${excerpt}\` (${text.length} characters).`;
  const got = String.fromCodePoint(text.codePointAt(at) ?? 0);
  const control = got < ' ';
  const hint = control ? ' Inside a string a line break is written \\n, a tab \\t.' : '';
  return `at line ${line}, column ${column}, after \`${excerpt}\`, got ${control ? JSON.stringify(got) : `\`${got}\``}.${hint}`;
}

function describeExpectedArgs(schema: z.ZodObject): string {
  const keys = Object.entries(schema.shape).map(([key, value]) =>
    value.safeParse(undefined).success ? `${key}?` : key,
  );
  return `Expected one JSON object: { ${keys.join(', ')} }.`;
}

function describeIssue(issue: z.core.$ZodIssue, args: unknown, schema: z.ZodObject): string {
  if (issue.code === 'unrecognized_keys') {
    const at = issue.path.length === 0 ? '' : `\`${issue.path.join('.')}\`: `;
    return issue.keys
      .map(
        (key) => `${at}there is no key \`${key}\`${nearestKey(key, at === '' ? Object.keys(schema.shape) : undefined)}`,
      )
      .join('; ');
  }
  if (issue.code === 'invalid_union') {
    const choices = fittingChoices(issue.errors);
    if (choices.length > 0) return describeChoices(choices, issue.path, (one) => describeIssue(one, args, schema));
  }
  const value = valueAtPath(args, issue.path);
  const key = issue.path.length === 0 ? 'the whole' : `\`${issue.path.join('.')}\``;
  if (value === undefined) return `${key} is missing`;
  const got = truncate(JSON.stringify(value), 60);
  if (issue.code === 'invalid_type') return `${key}: expected ${issue.expected}, got ${got}`;
  return `${key}: ${issue.message}, got ${got}`;
}

function nearestKey(key: string, known: readonly string[] | undefined): string {
  return known === undefined ? '' : `, the nearest is ${sortBySimilarity(key, known)[0] ?? 'none'}`;
}

/** The choices of a union that are of the value's own type and that it misses by least; none if there is no such. */
function fittingChoices(errors: z.core.$ZodIssue[][]): z.core.$ZodIssue[][] {
  const ofType = errors.filter(
    (issues) => !issues.some(({ code, path }) => code === 'invalid_type' && path.length === 0),
  );
  const least = Math.min(...ofType.map((issues) => issues.length));
  return ofType.filter((issues) => issues.length === least);
}

/** What is wrong by each choice; keys that none of them has are listed once. */
function describeChoices(
  choices: z.core.$ZodIssue[][],
  at: PropertyKey[],
  describe: (issue: z.core.$ZodIssue) => string,
): string {
  const [own = [], unknown = []] = [false, true].map((isUnknown) =>
    choices.map((issues) =>
      issues
        .filter(({ code }) => (code === 'unrecognized_keys') === isUnknown)
        .map((issue) => describe({ ...issue, path: [...at, ...issue.path] }))
        .join('; '),
    ),
  );
  return [own.filter(Boolean).join(', or '), unknown[0]].filter(Boolean).join('; ');
}

function valueAtPath(value: unknown, path: PropertyKey[]): unknown {
  return path.reduce<unknown>((inner, key) => Reflect.get(Object(inner), key), value);
}

/**
 * Finds where a text stops being JSON. The runtime's own message gives the position only for some errors, and differs
 * between versions.
 */
const WHITESPACE = /[ \t\r\n]*/y;
/** A string up to its closing quote, or to the first character that cannot be part of one. */
const STRING = /"[^"\\\u0000-\u001f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\u0000-\u001f]*)*/y;
const ATOM = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;

/** A number, a word or an escape cut off by the end of the text. */
const TRUNCATED =
  /(?:\\(?:u[0-9a-fA-F]{0,3})?|t|tr|tru|f|fa|fal|fals|n|nu|nul|-|-?(?:0|[1-9]\d*)(?:\.|(?:\.\d+)?[eE][+-]?))$/y;

type ExpectedToken = 'value' | 'first item' | 'key' | 'first key' | 'colon' | 'comma';
type Token = { kind: string; end: number };

/** The index of the first invalid character; the text's length if it only ends too early. */
export function findJsonFault(text: string): number {
  const open: string[] = [];
  let wants: ExpectedToken = 'value';
  for (let at = skipMatch(WHITESPACE, text, 0); at < text.length; ) {
    const token = tokenAt(text, at);
    if ('fault' in token) return token.fault;
    const next = nextExpected(wants, token.kind, open);
    if (!next) return at;
    wants = next;
    at = skipMatch(WHITESPACE, text, token.end);
  }
  return text.length;
}

function tokenAt(text: string, at: number): Token | { fault: number } {
  const first = text.charAt(at);
  if ('{}[],:'.includes(first)) return { kind: first, end: at + 1 };
  if (first === '"') {
    const end = skipMatch(STRING, text, at);
    return text[end] === '"' ? { kind: 'string', end: end + 1 } : { fault: skipMatch(TRUNCATED, text, end) };
  }
  if (skipMatch(TRUNCATED, text, at) > at) return { fault: text.length };
  const end = skipMatch(ATOM, text, at);
  return end > at ? { kind: 'atom', end } : { fault: at };
}

/** What may follow; undefined if the token is out of place. `open` is the stack of open brackets. */
function nextExpected(wants: ExpectedToken, kind: string, open: string[]): ExpectedToken | undefined {
  const closes = kind === open.at(-1) && (wants === 'comma' || wants.startsWith('first'));
  if (closes) {
    open.pop();
    return 'comma';
  }
  switch (wants) {
    case 'value':
    case 'first item':
      return nextAfterValue(kind, open);
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

function nextAfterValue(kind: string, open: string[]): ExpectedToken | undefined {
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

function skipMatch(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  return at + (pattern.exec(text)?.[0].length ?? 0);
}
