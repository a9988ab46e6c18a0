/** What an unknown value holds under a key of its own; undefined where it holds nothing there. */
export function field(value: unknown, key: PropertyKey): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
  return Reflect.get(value, key);
}
