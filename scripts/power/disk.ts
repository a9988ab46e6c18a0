import { basename, dirname } from 'node:path';
import type { Call } from './trace.ts';

export type NodeId = number;
/** A change of the disk that a power cut may undo. `sure`: the call by which it survives for certain. */
type Base = { born: number; sure: number };
export type Atom = Base &
  (
    | { is: 'name'; folder: NodeId; name: string; node: NodeId | null }
    | {
        is: 'move';
        from: { folder: NodeId; name: string };
        to: { folder: NodeId; name: string };
        node: NodeId;
        /** The call by which the new name survives; the old one may still come back until `sure`. */
        arrived: number;
      }
    | { is: 'bytes'; node: NodeId; at: number; bytes: Buffer }
    | { is: 'size'; node: NodeId; size: number }
  );
/** What a cut made of an atom. `both`: a file that was moved has both names. A number: so many of its first bytes are there. */
export type Fate = 'lost' | 'kept' | 'both' | number | { sectors: ReadonlySet<number> };

export type Tree = { names: Map<NodeId, Map<string, NodeId>>; bytes: Map<NodeId, Buffer> };
export const ROOT: NodeId = 0;
export const SECTOR = 512;

/** The scenario as changes of a disk; `calls` is how many calls there were, `paths` what each node was called first. */
export type Disk = { atoms: Atom[]; calls: Call[]; start: Tree; folders: Set<NodeId>; paths: Map<NodeId, string> };

/**
 * What the calls did, and when each change became certain, by what POSIX and the studies of file systems promise and no more
 * (ALICE, OSDI'14): a sync of a file keeps its bytes, not its name; a sync of a folder keeps the names in it; anything else may
 * be kept or lost by itself, in any order. A move keeps its file: the old name goes only together with the new one's coming, but
 * where only the new folder was synced both may be there. `isIgnored`: syncs of these paths do nothing, to see what breaks then.
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
        if (node === undefined) break; // It has no name any more: nobody will ever read it.
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

/** Everything of this node that had ended before the sync began is certain once the sync has ended. */
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

/** What is on the disk when the power goes before call `cut`, where `fate` decides what nothing promises. */
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

/** Bytes with a write on them of which some, or only some sectors, got through; what never came reads as zeros. */
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

/** Every file and folder that can be reached, parents first. */
export function* walk(tree: Tree, node: NodeId = ROOT, at = ''): Generator<{ path: string; node: NodeId }> {
  for (const [name, child] of [...(tree.names.get(node) ?? [])].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const path = at === '' ? name : `${at}/${name}`;
    yield { path, node: child };
    if (tree.names.has(child)) yield* walk(tree, child, path);
  }
}
