/**
 * A list that only grows at its end and whose older versions stay as they were. Appending to the newest version costs the
 * same however long the list is; appending to an older one copies.
 */
export type Grow<T> = { readonly length: number; readonly items: readonly T[] };

export function growing<T>(items: T[] = []): Grow<T> {
  return { length: items.length, items };
}

export function grown<T>(list: Grow<T>, ...added: T[]): Grow<T> {
  // Invariant: the first `length` entries of the shared array never change; only its newest owner may push behind them.
  const items = list.items.length === list.length ? (list.items as T[]) : list.items.slice(0, list.length);
  items.push(...added);
  return { length: items.length, items };
}

/** The entries of this version. */
export function listed<T>(list: Grow<T>): readonly T[] {
  return list.items.length === list.length ? list.items : list.items.slice(0, list.length);
}
