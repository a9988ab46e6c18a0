import { basename, dirname } from 'node:path';
import type { Call } from './trace.ts';

export type NodeId = number;
/** A change of the disk that a power cut may undo. `sure`: the call after which it certainly survives. */
type Base = { born: number; sure: number };
export type Atom = Base &
  (
    | { is: 'name'; folder: NodeId; name: string; node: NodeId | null }
    | {
        is: 'move';
        from: { folder: NodeId; name: string };
        to: { folder: NodeId; name: string };
        node: NodeId;
        /** The call after which the new name survives; the old one may reappear until `sure`. */
        arrived: number;
      }
    | { is: 'bytes'; node: NodeId; at: number; bytes: Buffer }
    | { is: 'size'; node: NodeId; size: number }
  );
/** What a cut does to an atom. `both`: a moved file has both names. A number: how many of its first bytes survive. */
export type Fate = 'lost' | 'kept' | 'both' | number | { sectors: ReadonlySet<number> };

export type Tree = { names: Map<NodeId, Map<string, NodeId>>; bytes: Map<NodeId, Buffer> };
export const ROOT: NodeId = 0;
export const SECTOR = 512;

/** The scenario as changes of a disk; `paths`: the first path of each node. */
export type Disk = { atoms: Atom[]; calls: Call[]; start: Tree; folders: Set<NodeId>; paths: Map<NodeId, string> };

/**
 * What the calls did, and when each change became certain, assuming only what POSIX and studies of file systems promise
 * (ALICE, OSDI'14): a sync of a file keeps its bytes, not its name; a sync of a folder keeps the names in it; anything
 * else may be kept or lost independently, in any order. A move never loses the file: the old name disappears only once
 * the new one exists, but if only the new folder was synced, both may exist. `isIgnored`: syncs of these paths do
 * nothing, to show what breaks without them.
 */
export function diskOf(calls: Call[], root: string, start: Tree, isIgnored: (path: string) => boolean): Disk {
  const live = copyTree(start);
  const atoms: Atom[] = [];
  const paths = new Map<NodeId, string>([[ROOT, '.']]);
  const folders = new Set<NodeId>();
  let next = Math.max(ROOT, ...live.names.keys(), ...live.bytes.keys()) + 1;
  const find = (path: string) => nodeAt(live, path.slice(root.length + 1));
  const place = (path: string) => {
    const folder = find(dirname(path));
    if (folder === undefined) throw new Error(`no folder for ${path}`);
    return { folder, name: basename(path) };
  };
  const add = (atom: Atom) => {
    atoms.push(atom);
    applyAtom(live, atom, 'kept');
  };
  const fresh = (path: string) => {
    const node = next++;
    paths.set(node, path.slice(root.length + 1));
    return node;
  };
  for (const [born, call] of calls.entries()) {
    const base = { born, sure: Number.POSITIVE_INFINITY };
    switch (call.is) {
      case 'open': {
        const node = find(call.path);
        if (node === undefined) add({ ...base, is: 'name', ...place(call.path), node: fresh(call.path) });
        else if (call.truncates && live.bytes.get(node)?.length) add({ ...base, is: 'size', node: node, size: 0 });
        break;
      }
      case 'write': {
        const node = find(call.path);
        if (node === undefined) break; // It has no name any more, so nobody can read it.
        const at = call.at === 'end' ? (live.bytes.get(node)?.length ?? 0) : call.at;
        add({ ...base, is: 'bytes', node, at, bytes: call.bytes });
        break;
      }
      case 'size': {
        const node = find(call.path);
        if (node !== undefined && live.bytes.get(node)?.length !== call.size)
          add({ ...base, is: 'size', node, size: call.size });
        break;
      }
      case 'folder': {
        const node = fresh(call.path);
        folders.add(node);
        live.names.set(node, new Map());
        add({ ...base, is: 'name', ...place(call.path), node });
        break;
      }
      case 'link':
        add({ ...base, is: 'name', ...place(call.to), node: known(find(call.from), call.from) });
        break;
      case 'unlink':
      case 'unfolder':
        add({ ...base, is: 'name', ...place(call.path), node: null });
        break;
      case 'move': {
        const node = known(find(call.from), call.from);
        add({ ...base, is: 'move', from: place(call.from), to: place(call.to), node, arrived: base.sure });
        break;
      }
      case 'sync':
        if (!isIgnored(call.path)) promise(atoms, find(call.path), born, calls, call);
        break;
      default:
        call satisfies never;
    }
  }
  return { atoms, calls, start, folders, paths };
}

/** Makes all changes of a node certain at the end of a sync if they had ended before it began. */
function promise(atoms: Atom[], node: NodeId | undefined, now: number, calls: Call[], sync: Call): void {
  for (const atom of atoms) {
    if ((calls[atom.born]?.ended ?? 0) >= sync.begun) continue;
    const sure = () => {
      atom.sure = Math.min(atom.sure, now);
    };
    if (atom.is === 'move') {
      if (atom.to.folder === node) atom.arrived = Math.min(atom.arrived, now);
      if (atom.from.folder === node) sure();
    } else if ((atom.is === 'name' ? atom.folder : atom.node) === node) sure();
  }
}

function known(node: NodeId | undefined, path: string): NodeId {
  if (node === undefined) throw new Error(`the trace uses ${path}, which the model of the disk does not have`);
  return node;
}

/** The disk after a power cut before call `cut`; `fate` decides about changes that are not certain. */
export function treeAt(disk: Disk, cut: number, fate: (atom: Atom, place: number) => Fate): Tree {
  const tree = copyTree(disk.start);
  for (const node of disk.folders) tree.names.set(node, tree.names.get(node) ?? new Map());
  for (const [place, atom] of disk.atoms.entries()) {
    if (atom.born >= cut) break;
    applyAtom(tree, atom, atom.sure < cut ? 'kept' : fate(atom, place));
  }
  return tree;
}

function applyAtom(tree: Tree, atom: Atom, fate: Fate): void {
  if (fate === 'lost') return;
  if (atom.is === 'name') {
    if (atom.node === null) tree.names.get(atom.folder)?.delete(atom.name);
    else {
      tree.names.get(atom.folder)?.set(atom.name, atom.node);
      if (!tree.names.has(atom.node) && !tree.bytes.has(atom.node)) tree.bytes.set(atom.node, Buffer.alloc(0));
    }
  } else if (atom.is === 'move') {
    tree.names.get(atom.to.folder)?.set(atom.to.name, atom.node);
    if (fate !== 'both') tree.names.get(atom.from.folder)?.delete(atom.from.name);
    if (!tree.names.has(atom.node) && !tree.bytes.has(atom.node)) tree.bytes.set(atom.node, Buffer.alloc(0));
  } else {
    const old = tree.bytes.get(atom.node) ?? Buffer.alloc(0);
    if (atom.is === 'size') tree.bytes.set(atom.node, sized(old, atom.size));
    else tree.bytes.set(atom.node, written(old, atom.at, atom.bytes, fate));
  }
}

/** Applies a write of which only some bytes or sectors survived; missing bytes read as zeros. */
function written(old: Buffer, at: number, bytes: Buffer, fate: Fate): Buffer {
  const length = typeof fate === 'number' ? fate : bytes.length;
  const merged = sized(old, Math.max(old.length, at + length));
  if (typeof fate !== 'object') {
    bytes.copy(merged, at, 0, length);
    return merged;
  }
  for (let from = 0; from < bytes.length; ) {
    const sector = Math.floor((at + from) / SECTOR);
    const to = Math.min(bytes.length, (sector + 1) * SECTOR - at);
    if (fate.sectors.has(sector)) bytes.copy(merged, at + from, from, to);
    from = to;
  }
  return merged;
}

function sized(old: Buffer, size: number): Buffer {
  const bytes = Buffer.alloc(size);
  old.copy(bytes);
  return bytes;
}

export function nodeAt(tree: Tree, path: string): NodeId | undefined {
  let node: NodeId | undefined = ROOT;
  for (const part of path.split('/').filter(Boolean))
    node = node === undefined ? node : tree.names.get(node)?.get(part);
  return node;
}

export function copyTree(tree: Tree): Tree {
  return {
    names: new Map([...tree.names].map(([node, names]) => [node, new Map(names)])),
    bytes: new Map(tree.bytes),
  };
}

/** All reachable files and folders, parents first. */
export function* walk(tree: Tree, node: NodeId = ROOT, at = ''): Generator<{ path: string; node: NodeId }> {
  for (const [name, child] of [...(tree.names.get(node) ?? [])].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const path = at === '' ? name : `${at}/${name}`;
    yield { path, node: child };
    if (tree.names.has(child)) yield* walk(tree, child, path);
  }
}
