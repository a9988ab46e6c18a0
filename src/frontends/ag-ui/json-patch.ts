/** One operation of a JSON Patch (RFC 6902). */
export type PatchOperation = { op: 'add' | 'replace'; path: string; value: unknown } | { op: 'remove'; path: string };

/**
 * The operations that make one JSON value of another, in the order in which they are applied. Entries of lists are
 * compared by their place.
 */
export function jsonPatch(before: unknown, after: unknown, path = ''): PatchOperation[] {
  if (Array.isArray(before) && Array.isArray(after)) return listPatch(before, after, path);
  if (isObject(before) && isObject(after)) return objectPatch(before, after, path);
  return before === after ? [] : [{ op: 'replace', path, value: after }];
}

function listPatch(before: readonly unknown[], after: readonly unknown[], path: string): PatchOperation[] {
  const both = Math.min(before.length, after.length);
  const changed = after.slice(0, both).flatMap((value, place) => jsonPatch(before[place], value, `${path}/${place}`));
  const added = after.slice(both).map((value) => ({ op: 'add' as const, path: `${path}/-`, value }));
  // Behind a removed entry the places of the others change, so the last one goes first.
  const removed = before.slice(both).map((_, more) => ({
    op: 'remove' as const,
    path: `${path}/${before.length - 1 - more}`,
  }));
  return [...changed, ...added, ...removed];
}

function objectPatch(before: JsonObject, after: JsonObject, path: string): PatchOperation[] {
  const at = (key: string) => `${path}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
  const removed = Object.keys(before)
    .filter((key) => !Object.hasOwn(after, key))
    .map((key) => ({ op: 'remove' as const, path: at(key) }));
  const others = Object.entries(after).flatMap(([key, value]) =>
    Object.hasOwn(before, key)
      ? jsonPatch(before[key], value, at(key))
      : [{ op: 'add' as const, path: at(key), value }],
  );
  return [...removed, ...others];
}

type JsonObject = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
