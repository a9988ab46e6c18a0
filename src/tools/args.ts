import type { z } from 'zod';
import { UserError } from '../protocol/errors.ts';
import { clip } from '../protocol/recorded.ts';
import { faultAt } from './json-fault.ts';
import { nearest } from './nearest.ts';

/**
 * The arguments of a call, parsed and checked. Throws UserError in words the model can act on. Nothing is guessed: text
 * that does not parse is never taken for `{}`; only no text at all is, where the tool needs no argument.
 */
export function readArgs<Args extends z.ZodObject>(tool: string, schema: Args, text: string): z.output<Args> {
  const value = text.trim() === '' ? {} : parse(tool, schema, text);
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const faults = result.error.issues.map((issue) => misfit(issue, value, schema));
  throw new UserError(`The arguments of \`${tool}\` do not fit: ${faults.join('; ')}. ${wanted(schema)}`);
}

function parse(tool: string, schema: z.ZodObject, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new UserError(`The arguments of \`${tool}\` are not JSON: ${faultInWords(text)} ${wanted(schema)}`);
  }
}

function faultInWords(text: string): string {
  const at = faultAt(text);
  const before = text.slice(0, at);
  const line = before.split('\n').length;
  const column = at - before.lastIndexOf('\n');
  const excerpt = [...before].slice(-40).join('');
  if (at >= text.length) return `they end too early, after \`${excerpt}\` (${text.length} characters came).`;
  const came = String.fromCodePoint(text.codePointAt(at) ?? 0);
  const control = came < ' ';
  const hint = control ? ' Inside a string a line break is written \\n, a tab \\t.' : '';
  return `at line ${line}, column ${column}, after \`${excerpt}\`, came ${control ? JSON.stringify(came) : `\`${came}\``}.${hint}`;
}

function wanted(schema: z.ZodObject): string {
  const keys = Object.entries(schema.shape).map(([key, value]) =>
    value.safeParse(undefined).success ? `${key}?` : key,
  );
  return `Wanted one JSON object: { ${keys.join(', ')} }.`;
}

function misfit(issue: z.core.$ZodIssue, args: unknown, schema: z.ZodObject): string {
  if (issue.code === 'unrecognized_keys') {
    const known = Object.keys(schema.shape);
    return issue.keys
      .map((key) => `there is no key \`${key}\`, the nearest is ${nearest(key, known)[0] ?? 'none'}`)
      .join('; ');
  }
  const value = at(args, issue.path);
  const key = issue.path.length === 0 ? 'the whole' : `\`${issue.path.join('.')}\``;
  if (value === undefined) return `${key} is missing`;
  const came = clip(JSON.stringify(value), 60);
  if (issue.code === 'invalid_type') return `${key}: wanted ${issue.expected}, came ${came}`;
  return `${key}: ${issue.message}, came ${came}`;
}

function at(value: unknown, path: PropertyKey[]): unknown {
  return path.reduce<unknown>((inner, key) => Reflect.get(Object(inner), key), value);
}
