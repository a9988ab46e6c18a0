import type { Mark } from '../protocol/mark.ts';
import type { SessionPaths } from './layout.ts';
import { hasMark } from './record.ts';
import { readSnapshot, type Snapshot } from './snapshot-file.ts';

/** The snapshots that fit the record, the newest first, then the one that stands for what retention removed. */
export const newestFirst = (paths: SessionPaths) => fitting(paths, [paths.snapshot, paths.base]);

/** The same in the order of the record: first the one that stands for what retention removed. */
export const oldestFirst = (paths: SessionPaths) => fitting(paths, [paths.base, paths.snapshot]);

function* fitting(paths: SessionPaths, places: string[]): Generator<Snapshot, undefined> {
  for (const path of places) {
    const snapshot = readSnapshot(path);
    if (snapshot && fits(paths, snapshot.mark)) yield snapshot;
  }
}

/** A record that cannot be trusted is told by who reads it. */
function fits(paths: SessionPaths, mark: Mark): boolean {
  try {
    return hasMark(paths, mark);
  } catch {
    return false;
  }
}
