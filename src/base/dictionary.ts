/** The own property of an unknown value under a key; undefined if it has none. */
export function propertyOf(value: unknown, key: PropertyKey): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
  return Reflect.get(value, key);
}

/**
 * Values by keys that others chose: ids of steps, names of agents and tools. A plain object also has inherited keys
 * (`constructor`, `toString`), so it is never indexed with such a key: tests/foreign-keys.test.ts enforces this.
 */
export type Dictionary<T> = Readonly<Record<string, T>>;

/** The value under that key; undefined if there is none, even if every object inherits something of that name. */
export function getOwn<T>(values: Dictionary<T>, key: string): T | undefined {
  return Object.hasOwn(values, key) ? values[key] : undefined;
}

/** A copy without that key. */
export function omitKey<T>(values: Dictionary<T>, key: string): Record<string, T> {
  return Object.fromEntries(Object.entries(values).filter(([one]) => one !== key));
}
