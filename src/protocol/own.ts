/**
 * Values by keys that others chose: ids of steps, names of agents and tools. A plain object has keys of its own kind too
 * (`constructor`, `toString`), so it is never indexed with such a key: tests/foreign-keys.test.ts holds the code to it.
 */
export type ByName<T> = Readonly<Record<string, T>>;

/** The value under that key; undefined where there is none, also where every object has something of that name. */
export function own<T>(values: ByName<T>, key: string): T | undefined {
  return Object.hasOwn(values, key) ? values[key] : undefined;
}

/** The same without that key. */
export function withoutKey<T>(values: ByName<T>, key: string): Record<string, T> {
  return Object.fromEntries(Object.entries(values).filter(([one]) => one !== key));
}
