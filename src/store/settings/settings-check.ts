import { valueAtPath } from '../../base/collections.ts';
import { parseJsonOrWhy, positionOfJsonPath, repeatedKeys, whyNotJson } from '../../base/json.ts';
import { UserError } from '../../base/user-error.ts';
import { Config, Settings } from '../../protocol/settings/config.ts';
import { maskKeys } from '../../protocol/settings/env-variable.ts';
import { findToolNameFaults, type ToolNameFault } from '../../protocol/tool-calls/tool-names.ts';
import { describeSchemaErrors, type SchemaError, type SchemaLike } from './schema-errors.ts';

/** Valid settings, and what in the file was not understood and left out. */
export type CheckedSettings<T> = { value: T; warnings: string[] };

/** Checks the text of `agentd.json`. Throws UserError naming file, line, what was expected and what was found. */
export const checkConfig = (text: string | undefined, file: string): CheckedSettings<Config> =>
  checkText(text, file, Config);

/** Checks the text of a `session.json`, likewise. */
export const checkSettings = (text: string | undefined, file: string): CheckedSettings<Settings> =>
  checkText(text, file, Settings);

function checkText<T extends Config | Settings>(
  text: string | undefined,
  file: string,
  schema: SchemaLike<T>,
): CheckedSettings<T> {
  const source = (text ?? '{}').replace(/^\uFEFF/, '');
  const settings = parsedSettings(source, file);
  const warnings: string[] = [];
  for (;;) {
    const result = schema.safeParse(settings);
    if (result.success) {
      checkNames(result.data, source, file);
      return { value: result.data, warnings };
    }
    const found = describeSchemaErrors(result.error.issues, settings, schema);
    const faults = found.filter((complaint) => !isNote(complaint) && !isMcpServerPath(complaint));
    if (faults.length > 0) throw new UserError(faultsInWords(faults, source, file));
    for (const complaint of found) {
      if (!isNote(complaint)) warnings.push(describeAtPosition(complaint, source, file));
      removeAtPath(settings, isNote(complaint) ? complaint.path : complaint.path.slice(0, 2));
    }
  }
}

/** JSON.parse keeps the last of two equal keys: an empty `permissions` further down would silently drop all rules. */
function parsedSettings(source: string, file: string): unknown {
  const parsed = parseJsonOrWhy(source);
  if (!parsed.ok) throw new UserError(`${file} is not JSON: ${parsed.why}.`);
  const tooDeep = whyNotJson(source);
  if (tooDeep !== undefined) throw new UserError(`${file}, ${tooDeep}.`);
  const repeated = repeatedKeys(source, MOST_REPEATED);
  if (repeated.length === 0) return parsed.value;
  const lines = repeated.map(({ path, place, first }) => {
    const key = maskKeys(path.map(String).join('.'));
    return `${file}, line ${place.line}, column ${place.column}: the key "${key}" is already in line ${first.line}, column ${first.column}`;
  });
  throw new UserError([...lines, 'A key may appear only once: merge the two, or remove one.'].join('\n'));
}

function checkNames(settings: Config | Settings, source: string, file: string): void {
  const names = findToolNameFaults(settings).map((fault) =>
    describeAtPosition({ ...fault, text: describeNameFault(fault), unknownKey: false }, source, file),
  );
  if (names.length > 0) throw new UserError(names.join('\n'));
}

/** An unknown key may be a misspelling of one that protects, so it makes the file invalid. */
function faultsInWords(faults: SchemaError[], source: string, file: string): string {
  const lines = faults.map((complaint) => describeAtPosition(complaint, source, file));
  if (faults.some(({ unknownKey }) => unknownKey)) lines.push(HOW_TO_MEND);
  return lines.join('\n');
}

const HOW_TO_MEND = 'Correct or remove unknown keys. Keys for your own notes begin with "x-" or "$" and are ignored.';

/** How many repeated keys are reported. */
const MOST_REPEATED = 10;

const describeNameFault = ({ path, text }: ToolNameFault): string => maskKeys(`${path.map(String).join('.')}: ${text}`);

/** Whether a key is a person's note in an object whose keys are fixed. */
const isNote = ({ unknownKey, path }: SchemaError): boolean => unknownKey && /^(?:x-|\$)/.test(String(path.at(-1)));

/** Whether a fault is within an MCP server, which is then reported and left out while the rest remains valid. */
const isMcpServerPath = ({ unknownKey, path }: SchemaError): boolean =>
  !unknownKey && path[0] === 'mcpServers' && path.length > 1;

function describeAtPosition(complaint: SchemaError, source: string, file: string): string {
  const { path } = complaint;
  // The value may be a secret.
  const text = isMcpServerPath(complaint)
    ? `${complaint.text.replace(/, got .*$/s, '')}; the server is ignored`
    : complaint.text;
  // A missing key has no line of its own: its nearest existing parent has one.
  for (let depth = path.length; depth > 0; depth--) {
    const place = positionOfJsonPath(source, path.slice(0, depth));
    if (place) return `${file}, line ${place.line}, column ${place.column}: ${text}`;
  }
  return `${file}: ${text}`;
}

function removeAtPath(value: unknown, path: PropertyKey[]): void {
  const parent = valueAtPath(value, path.slice(0, -1));
  const last = path.at(-1);
  if (typeof parent === 'object' && parent !== null && last !== undefined) Reflect.deleteProperty(parent, last);
}

/**
 * The text of a `session.json` with one more allow rule: after the last deny rule, so that it overrides none, and
 * before the ask rules. The rest is unchanged. Throws UserError if the file is invalid: a person has to fix it.
 */
export function addAllowRule(text: string | undefined, pattern: string): string {
  const { value } = checkSettings(text, 'session.json');
  const before = value.permissions ?? [];
  if (text !== undefined && before.some((rule) => rule.allow === pattern)) return text;
  const source = (text ?? '{}').replace(/^\uFEFF/, '');
  const all: unknown = JSON.parse(source);
  if (typeof all !== 'object' || all === null) throw new UserError('session.json is not an object.');
  const after = before.findLastIndex((rule) => rule.deny !== undefined) + 1;
  const permissions = [...before.slice(0, after), { allow: pattern }, ...before.slice(after)];
  const indent = /^([ \t]+)"/m.exec(source)?.[1] ?? 2;
  const written = `${JSON.stringify({ ...all, permissions }, null, indent)}\n`;
  // A rule that a person wrote into the approval may be invalid.
  checkSettings(written, 'session.json');
  return written;
}
