/**
 * An immutable map whose older versions remain valid: adding to a hundred thousand entries costs about what adding to
 * ten does. A tree of hash tries (Bagwell, "Ideal Hash Trees", 2001) in plain data, so that JSON preserves it.
 */
export type PersistentMap<T> = { readonly size: number; readonly root: TreeNode<T> };

type MapEntry<T> = readonly [key: string, value: T];
/** A leaf, or a branch with `BRANCHES` nodes. */
type TreeNode<T> = { readonly entries: ReadonlyArray<MapEntry<T>> } | { readonly nodes: ReadonlyArray<TreeNode<T>> };

const BITS = 5;
const BRANCHES = 1 << BITS;
/** Entries in a leaf before it becomes a branch. */
const LEAF_SIZE = 12;
/** At this depth the hash has no bits left, and a leaf grows. */
const MAX_TREE_DEPTH = Math.floor(32 / BITS);

export function emptyMap<T>(): PersistentMap<T> {
  return { size: 0, root: { entries: [] } };
}

/** The value of a key; undefined if there is none. */
export function mapGet<T>({ root }: PersistentMap<T>, key: string): T | undefined {
  const hash = hashKey(key);
  let node = root;
  for (let depth = 0; 'nodes' in node; depth++) {
    const next: TreeNode<T> | undefined = node.nodes[hashDigit(hash, depth)];
    if (!next) return undefined;
    node = next;
  }
  return node.entries.find(([known]) => known === key)?.[1];
}

/** A copy with this value for the key. */
export function mapSet<T>(all: PersistentMap<T>, key: string, value: T): PersistentMap<T> {
  const size = all.size + (mapGet(all, key) === undefined ? 1 : 0);
  return { size, root: insertEntry(all.root, [key, value], hashKey(key), 0) };
}

function insertEntry<T>(node: TreeNode<T>, entry: MapEntry<T>, hash: number, depth: number): TreeNode<T> {
  if ('nodes' in node) {
    const place = hashDigit(hash, depth);
    return { nodes: node.nodes.with(place, insertEntry(node.nodes[place] ?? { entries: [] }, entry, hash, depth + 1)) };
  }
  const place = node.entries.findIndex(([key]) => key === entry[0]);
  if (place >= 0) return { entries: node.entries.with(place, entry) };
  const entries = [...node.entries, entry];
  return entries.length > LEAF_SIZE && depth < MAX_TREE_DEPTH ? splitLeaf(entries, depth) : { entries };
}

function splitLeaf<T>(entries: ReadonlyArray<MapEntry<T>>, depth: number): TreeNode<T> {
  const nodes = Array.from({ length: BRANCHES }, (): Array<MapEntry<T>> => []);
  for (const entry of entries) nodes[hashDigit(hashKey(entry[0]), depth)]?.push(entry);
  return { nodes: nodes.map((part) => ({ entries: part })) };
}

const hashDigit = (hash: number, depth: number): number => (hash >>> (depth * BITS)) & (BRANCHES - 1);

/** FNV-1a over UTF-16, with its bits mixed once more, since the lowest ones choose the first branch. */
export function hashKey(key: string): number {
  let hash = 0x811c9dc5;
  for (let place = 0; place < key.length; place++) hash = Math.imul(hash ^ key.charCodeAt(place), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return (hash ^ (hash >>> 13)) >>> 0;
}

/** All entries. Inserted into an empty map in this order, they give the same map. */
export function mapEntries<T>({ root }: PersistentMap<T>): Array<readonly [key: string, value: T]> {
  const within = (node: TreeNode<T>): ReadonlyArray<MapEntry<T>> =>
    'nodes' in node ? node.nodes.flatMap(within) : node.entries;
  return [...within(root)];
}

/** A map from the result of `mapEntries`. */
export function mapFromEntries<T>(entries: ReadonlyArray<readonly [key: string, value: T]>): PersistentMap<T> {
  return entries.reduce((all, [key, value]) => mapSet(all, key, value), emptyMap<T>());
}

/**
 * A list that only grows at its end and whose older versions remain valid. Appending to the newest version takes
 * constant time; appending to an older one copies.
 */
export type AppendList<T> = { readonly length: number; readonly items: readonly T[] };

export function appendList<T>(items: T[] = []): AppendList<T> {
  return { length: items.length, items };
}

export function appendItems<T>(list: AppendList<T>, ...added: T[]): AppendList<T> {
  // Invariant: the first `length` entries of the shared array never change; only the newest version may append to it.
  const items = list.items.length === list.length ? (list.items as T[]) : list.items.slice(0, list.length);
  items.push(...added);
  return { length: items.length, items };
}

/** The entries of this version. */
export function listItems<T>(list: AppendList<T>): readonly T[] {
  return list.items.length === list.length ? list.items : list.items.slice(0, list.length);
}

/** Whether a value is an object with keys, and no list. */
export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The own property of an unknown value under a key; undefined if it has none. */
export function propertyOf(value: unknown, key: PropertyKey): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
  return Reflect.get(value, key);
}

/** The value at a path of keys; undefined if it does not exist. */
export const valueAtPath = (value: unknown, path: readonly PropertyKey[]): unknown =>
  path.reduce<unknown>(propertyOf, value);

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
