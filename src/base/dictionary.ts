/** What an unknown value holds under a key of its own; undefined where it holds nothing there. */
export function propertyOf(value: unknown, key: PropertyKey): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
  return Reflect.get(value, key);
}

/**
 * Values by keys that others chose: ids of steps, names of agents and tools. A plain object has keys of its own kind
 * too (`constructor`, `toString`), so it is never indexed with such a key: tests/foreign-keys.test.ts holds the code to
 * it.
 */
export type Dictionary<T> = Readonly<Record<string, T>>;

/** The value under that key; undefined where there is none, also where every object has something of that name. */
export function getOwn<T>(values: Dictionary<T>, key: string): T | undefined {
  return Object.hasOwn(values, key) ? values[key] : undefined;
}

/** The same without that key. */
export function omitKey<T>(values: Dictionary<T>, key: string): Record<string, T> {
  return Object.fromEntries(Object.entries(values).filter(([one]) => one !== key));
}
