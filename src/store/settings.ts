import { Config, Settings } from '../protocol/config.ts';
import { UserError } from '../protocol/errors.ts';
import { placeOf } from '../protocol/json-position.ts';
import { type NameFault, nameFaults } from '../protocol/tool-names.ts';
import { withoutKeys } from '../protocol/variable-name.ts';
import { at, type Complaint, complaints, parseJson, type Schema } from './complaints.ts';

/** Settings that hold, and what in the file was not understood and left out. */
export type Checked<T> = { value: T; warnings: string[] };

/** Checks the text of `agentd.json`. Throws UserError naming file, line, what was wanted and what came. */
export const checkConfig = (text: string | undefined, file: string): Checked<Config> => check(text, file, Config);

/** Checks the text of a `session.json`, likewise. */
export const checkSettings = (text: string | undefined, file: string): Checked<Settings> => check(text, file, Settings);

function check<T extends Config | Settings>(text: string | undefined, file: string, schema: Schema<T>): Checked<T> {
  const source = (text ?? '{}').replace(/^\uFEFF/, '');
  const parsed = parseJson(source);
  if (!parsed.ok) throw new UserError(`${file} is not JSON: ${parsed.why}.`);
  const warnings: string[] = [];
  for (;;) {
    const result = schema.safeParse(parsed.value);
    if (result.success) {
      const names = nameFaults(result.data).map((fault) =>
        located({ ...fault, text: labelled(fault), unknownKey: false }, source, file),
      );
      if (names.length > 0) throw new UserError(names.join('\n'));
      return { value: result.data, warnings };
    }
    const found = complaints(result.error.issues, parsed.value, schema);
    const spared = found.filter((complaint) => spare(complaint));
    if (spared.length === 0) throw new UserError(found.map((complaint) => located(complaint, source, file)).join('\n'));
    for (const complaint of spared) {
      warnings.push(located(complaint, source, file));
      remove(parsed.value, spare(complaint) ?? []);
    }
  }
}

/** Settings that hold something back: a slip in their name must not take that away. */
const PROTECTS: ReadonlySet<unknown> = new Set([
  ...['sandbox', 'approvals', 'permissions', 'network', 'senders', 'secrets', 'agents', 'memory', 'recall', 'model'],
]);

const labelled = ({ path, text }: NameFault): string => withoutKeys(`${path.map(String).join('.')}: ${text}`);

/**
 * What is named and left out, so that the rest holds without it: a key we do not know, which may be one of a newer version, and
 * an MCP server that is described wrongly.
 */
function spare({ unknownKey, path, near }: Complaint): PropertyKey[] | undefined {
  if (unknownKey) return near !== undefined && PROTECTS.has(path.length > 1 ? path[0] : near) ? undefined : path;
  return isOfServer(path) ? path.slice(0, 2) : undefined;
}

const isOfServer = (path: PropertyKey[]) => path[0] === 'mcpServers' && path.length > 1;

function located({ path, text: complaint, unknownKey }: Complaint, source: string, file: string): string {
  // What came there may be a secret.
  const text =
    isOfServer(path) && !unknownKey ? `${complaint.replace(/, came .*$/s, '')}; the server is left out` : complaint;
  // A key that is missing has no line of its own: its nearest parent that is there has one.
  for (let depth = path.length; depth > 0; depth--) {
    const place = placeOf(source, path.slice(0, depth));
    if (place) return `${file}, line ${place.line}, column ${place.column}: ${text}`;
  }
  return `${file}: ${text}`;
}

function remove(value: unknown, path: PropertyKey[]): void {
  const parent = at(value, path.slice(0, -1));
  const last = path.at(-1);
  if (typeof parent === 'object' && parent !== null && last !== undefined) Reflect.deleteProperty(parent, last);
}
