import { valueAtPath } from '../../base/collections.ts';
import { nearestName } from '../../base/strings.ts';
import { maskKeys } from '../../protocol/settings/env-variable.ts';

/** The part of a zod schema's interface used here. */
export type SchemaLike<T> = {
  safeParse(
    value: unknown,
  ): { success: true; data: T } | { success: false; error: { issues: ReadonlyArray<SchemaIssue> } };
  toJSONSchema(): unknown;
};
export type SchemaIssue = { code?: string; path: PropertyKey[]; message: string; keys?: string[] };

/** One fault of a value: where, what was expected, what was found. */
export type SchemaError = { path: PropertyKey[]; text: string; unknownKey: boolean };

/** Other programs' names for protective settings, which are too different to be found as misspellings. */
const OTHER_NAMES: ReadonlyMap<string, string> = new Map([
  ...['deny', 'allow', 'ask', 'rules', 'perms', 'tools', 'allowed_tools', 'disallowed_tools', 'denied_tools'].map(
    (name) => [name, 'permissions'] as const,
  ),
  ...['approval', 'approval_mode', 'approval_policy', 'permission_mode'].map((name) => [name, 'approvals'] as const),
  ...['allowed_senders', 'allow_from', 'from'].map((name) => [name, 'senders'] as const),
  ...['sandbox_mode', 'sandboxed'].map((name) => [name, 'sandbox'] as const),
  ...['servers', 'mcp'].map((name) => [name, 'mcpServers'] as const),
]);

/** zod's issues in words a person can act on; an unknown key comes with the nearest known one. */
export function describeSchemaErrors(
  issues: ReadonlyArray<SchemaIssue>,
  value: unknown,
  schema: SchemaLike<unknown>,
): SchemaError[] {
  return issues.flatMap((issue): SchemaError[] => {
    if (issue.code !== 'unrecognized_keys') {
      return [{ path: issue.path, text: prefixWithPath(issue.path, describeIssue(issue, value)), unknownKey: false }];
    }
    const known = knownKeys(schema, issue.path);
    return (issue.keys ?? []).map((key) => {
      const path = [...issue.path, key];
      const text = `unknown key "${maskKeys(path.map(String).join('.'))}"${suggestKey(nearestKey(key, known), known)}`;
      return { path, text, unknownKey: true };
    });
  });
}

const prefixWithPath = (path: PropertyKey[], text: string) =>
  path.length > 0 ? `${maskKeys(path.map(String).join('.'))}: ${text}` : text;

function describeIssue(issue: SchemaIssue, value: unknown): string {
  const wanted = issue.message.replace(/^[A-Z][a-z ]*: expected /, 'expected ').replace(/, received .*$/s, '');
  const came = valueAtPath(value, issue.path);
  if (came === undefined || issue.code === 'custom') return wanted;
  return mayHoldSecret(issue.path) ? `${wanted}; the value is not shown` : `${wanted}, got ${shortJson(came)}`;
}

/** Whether a value may be a secret, because of the setting it belongs to. */
const mayHoldSecret = (path: readonly PropertyKey[]): boolean =>
  path.some((key) => key === 'api_key_env' || key === 'secrets' || key === 'env' || key === 'headers');

/** Keys are masked here too, since one may be in an unexpected place. */
function shortJson(value: unknown): string {
  const points = [...maskKeys(JSON.stringify(value) ?? String(value))];
  return points.length > 60 ? `${points.slice(0, 60).join('')}…` : points.join('');
}

function nearestKey(key: string, known: string[]): string | undefined {
  const same = OTHER_NAMES.get(
    key.replace(/(?<=[a-z])[A-Z]|-/g, (found) => `_${found.replace('-', '')}`).toLowerCase(),
  );
  return same !== undefined && known.includes(same) ? same : nearestName(key, known);
}

function suggestKey(near: string | undefined, known: string[]): string {
  if (known.length === 0) return '';
  return near === undefined ? `; known keys: ${known.join(', ')}` : `; did you mean "${near}"?`;
}

function knownKeys(schema: SchemaLike<unknown>, path: PropertyKey[]): string[] {
  let here: unknown = schema.toJSONSchema();
  for (const key of path) {
    here =
      typeof key === 'number'
        ? valueAtPath(here, ['items'])
        : (valueAtPath(here, ['properties', key]) ?? valueAtPath(here, ['additionalProperties']));
  }
  const properties = valueAtPath(here, ['properties']);
  return typeof properties === 'object' && properties !== null ? Object.keys(properties) : [];
}
