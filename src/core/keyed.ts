/**
 * Values by key, of which every older version stays as it was: adding to a hundred thousand costs about what adding to ten
 * does. A tree of hash tries (Bagwell, "Ideal Hash Trees", 2001) in plain data, so that JSON keeps it whole.
 */
export type Keyed<T> = { readonly size: number; readonly root: Node<T> };

type Entry<T> = readonly [key: string, value: T];
/** A leaf, or a branch with `FAN` nodes. */
type Node<T> = { readonly entries: ReadonlyArray<Entry<T>> } | { readonly nodes: ReadonlyArray<Node<T>> };

const BITS = 5;
const FAN = 1 << BITS;
/** Entries of a leaf before it becomes a branch. */
const LEAF = 12;
/** Below this the hash has no more bits, and a leaf grows. */
const DEEPEST = Math.floor(32 / BITS);

export function keyed<T>(): Keyed<T> {
  return { size: 0, root: { entries: [] } };
}

/** The value of a key; undefined where there is none. */
export function entryOf<T>({ root }: Keyed<T>, key: string): T | undefined {
  const hash = hashOf(key);
  let node = root;
  for (let depth = 0; 'nodes' in node; depth++) {
    const next: Node<T> | undefined = node.nodes[digit(hash, depth)];
    if (!next) return undefined;
    node = next;
  }
  return node.entries.find(([known]) => known === key)?.[1];
}

/** The same with this value for the key. */
export function withValue<T>(all: Keyed<T>, key: string, value: T): Keyed<T> {
  const size = all.size + (entryOf(all, key) === undefined ? 1 : 0);
  return { size, root: put(all.root, [key, value], hashOf(key), 0) };
}

function put<T>(node: Node<T>, entry: Entry<T>, hash: number, depth: number): Node<T> {
  if ('nodes' in node) {
    const place = digit(hash, depth);
    return { nodes: node.nodes.with(place, put(node.nodes[place] ?? { entries: [] }, entry, hash, depth + 1)) };
  }
  const place = node.entries.findIndex(([key]) => key === entry[0]);
  if (place >= 0) return { entries: node.entries.with(place, entry) };
  const entries = [...node.entries, entry];
  return entries.length > LEAF && depth < DEEPEST ? split(entries, depth) : { entries };
}

function split<T>(entries: ReadonlyArray<Entry<T>>, depth: number): Node<T> {
  const nodes = Array.from({ length: FAN }, (): Array<Entry<T>> => []);
  for (const entry of entries) nodes[digit(hashOf(entry[0]), depth)]?.push(entry);
  return { nodes: nodes.map((part) => ({ entries: part })) };
}

const digit = (hash: number, depth: number): number => (hash >>> (depth * BITS)) & (FAN - 1);

/** FNV-1a over UTF-16, its bits mixed once more since the lowest ones choose the first branch. */
function hashOf(key: string): number {
  let hash = 0x811c9dc5;
  for (let place = 0; place < key.length; place++) hash = Math.imul(hash ^ key.charCodeAt(place), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  return (hash ^ (hash >>> 13)) >>> 0;
}

/** All entries. Put one by one into an empty one in this order, they make the same again. */
export function entriesOf<T>({ root }: Keyed<T>): Array<readonly [key: string, value: T]> {
  const within = (node: Node<T>): ReadonlyArray<Entry<T>> =>
    'nodes' in node ? node.nodes.flatMap(within) : node.entries;
  return [...within(root)];
}

/** What `entriesOf` gave. */
export function keyedOf<T>(entries: ReadonlyArray<readonly [key: string, value: T]>): Keyed<T> {
  return entries.reduce((all, [key, value]) => withValue(all, key, value), keyed<T>());
}
