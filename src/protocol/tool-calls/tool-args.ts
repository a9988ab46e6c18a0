import type { z } from 'zod';
import { valueAtPath } from '../../base/collections.ts';
import { findJsonFault, positionAt } from '../../base/json.ts';
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
  const { line, column } = positionAt(text, at);
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
    const nearest = (key: string) =>
      at === '' ? `, the nearest is ${sortBySimilarity(key, Object.keys(schema.shape))[0] ?? 'none'}` : '';
    return issue.keys.map((key) => `${at}there is no key \`${key}\`${nearest(key)}`).join('; ');
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
