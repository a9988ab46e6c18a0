import { isUtf8 } from 'node:buffer';
import type {
  ChangeCounts,
  CheckpointEntry,
  FileChange,
  LeftOut,
  LeftOutReason,
} from '../../protocol/session/checkpoint.ts';

/**
 * What a folder holds, by path. A key is the bytes of a path as latin1 text, so that names that are no UTF-8, and two
 * forms of the same letter, stay apart. A folder comes before what is in it.
 */
export type WorkState = { entries: Map<string, CheckpointEntry>; leftOut: LeftOut[] };

export const emptyState = (): WorkState => ({ entries: new Map(), leftOut: [] });

export const keyOfBytes = (bytes: Buffer): string => bytes.toString('latin1');
export const bytesOfKey = (key: string): Buffer => Buffer.from(key, 'latin1');
/** The key of a path that is text. */
export const keyOfPath = (path: string): string => keyOfBytes(Buffer.from(path));

type NamedPath = { path: string; path_bytes?: string | undefined };

export const keyOf = ({ path, path_bytes }: NamedPath): string =>
  path_bytes === undefined ? keyOfPath(path) : keyOfBytes(Buffer.from(path_bytes, 'base64'));

/** A path as a manifest has it: as text, and its bytes if those are no UTF-8. */
export function pathOfKey(key: string): NamedPath {
  const bytes = bytesOfKey(key);
  return { path: bytes.toString(), ...(!isUtf8(bytes) && { path_bytes: bytes.toString('base64') }) };
}

export const leftOutAt = (key: string, why: LeftOutReason): LeftOut => ({ ...pathOfKey(key), why });

export const joinKeys = (folder: string, name: string): string => (folder === '' ? name : `${folder}/${name}`);

const parentKey = (key: string): string => key.slice(0, Math.max(0, key.lastIndexOf('/')));

/** `key` and the folders around it, innermost first, up to `work/` itself (''). */
export function* keysAround(key: string): Generator<string> {
  for (let at = key; at !== ''; at = parentKey(at)) yield at;
  yield '';
}

/** Answers why nothing is known of a path that is not among the entries; undefined if it did not exist. */
export function findLeftOut({ leftOut }: WorkState): (key: string) => LeftOut | undefined {
  const byKey = new Map(leftOut.map((one) => [keyOf(one), one]));
  return (key) => {
    for (const at of byKey.size > 0 ? keysAround(key) : []) {
      const found = byKey.get(at);
      if (found) return found;
    }
    return undefined;
  };
}

/** Whether two entries are the same to a person: kind, content and permissions, not times. */
export function isSameEntry(one: CheckpointEntry | undefined, other: CheckpointEntry | undefined): boolean {
  if (one === other) return true;
  if (!one || !other) return false;
  if (one.kind === 'file' && other.kind === 'file') return one.sha256 === other.sha256 && one.mode === other.mode;
  if (one.kind === 'link' && other.kind === 'link') return targetOf(one).equals(targetOf(other));
  return one.kind === 'folder' && other.kind === 'folder' && one.mode === other.mode;
}

/** The bytes of a link's target. */
export const targetOf = ({ target, target_bytes }: { target: string; target_bytes?: string | undefined }): Buffer =>
  target_bytes === undefined ? Buffer.from(target) : Buffer.from(target_bytes, 'base64');

/** A difference between two states. */
export type Difference = {
  key: string;
  is: FileChange['is'];
  before: CheckpointEntry | undefined;
  after: CheckpointEntry | undefined;
};

/** How `after` differs from `before`, by path; nothing is said of what one of them leaves out. */
export function compareStates(before: WorkState, after: WorkState): Difference[] {
  const [unknownBefore, unknownAfter] = [findLeftOut(before), findLeftOut(after)];
  const found: Difference[] = [];
  for (const [key, entry] of after.entries) {
    const was = before.entries.get(key);
    if (isSameEntry(was, entry) || (!was && unknownBefore(key))) continue;
    found.push({ key, is: was ? 'changed' : 'added', before: was, after: entry });
  }
  for (const [key, was] of before.entries) {
    if (after.entries.has(key) || unknownAfter(key)) continue;
    found.push({ key, is: 'removed', before: was, after: undefined });
  }
  return found.sort((one, other) => (one.key < other.key ? -1 : 1));
}

/**
 * Whether they are the same to a person, hard links among the files included. `differences`: what `compareStates` found
 * between the two.
 */
export function isSameState(one: WorkState, other: WorkState, differences: readonly Difference[]): boolean {
  if (differences.length > 0 || one.entries.size !== other.entries.size) return false;
  if (JSON.stringify(one.leftOut) !== JSON.stringify(other.leftOut)) return false;
  // An entry that was not read again is the same object: with the same inodes, the links are the same.
  if ([...one.entries].every(([key, entry]) => entry.kind !== 'file' || other.entries.get(key) === entry)) return true;
  return JSON.stringify(linkedGroups(one)) === JSON.stringify(linkedGroups(other));
}

/** The groups of files that are hard links to each other. */
export function linkedGroups({ entries }: WorkState): string[][] {
  const groups = new Map<string, string[]>();
  for (const [key, entry] of entries) {
    if (entry.kind !== 'file') continue;
    const group = groups.get(entry.ino);
    if (group) group.push(key);
    else groups.set(entry.ino, [key]);
  }
  return [...groups.values()].filter((group) => group.length > 1);
}

/** Counted and listed: files and links. A folder is named only if nothing else of it changed. */
export function changesForPeople(differences: readonly Difference[]): FileChange[] {
  const around = new Set(differences.map(({ key }) => parentKey(key)));
  return differences
    .filter(({ key, before, after }) => (after ?? before)?.kind !== 'folder' || !around.has(key))
    .map(({ key, is }) => ({ path: pathOfKey(key).path, is }));
}

export function countChanges(changes: readonly FileChange[]): ChangeCounts {
  const count = (is: FileChange['is']) => changes.filter((change) => change.is === is).length;
  return { added: count('added'), changed: count('changed'), removed: count('removed') };
}
