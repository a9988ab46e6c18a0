import type { Snapshots } from '../engine/ports.ts';
import type { Mark } from '../protocol/mark.ts';
import type { SessionPaths } from './layout.ts';
import { hasMark } from './record.ts';
import { replaceFile } from './replace-file.ts';
import { readSnapshot, type Snapshot, snapshotText } from './snapshot-file.ts';

/**
 * What the record meant at a mark, so that it need not be read from its start. Where the newest is no good, the one that stands
 * for what retention removed serves.
 */
export function openSnapshots(paths: SessionPaths): Snapshots {
  return {
    load: async () => fitting(paths, [paths.snapshot, paths.base]).next().value,
    save: (mark, state) => replaceFile(paths.snapshot, snapshotText({ mark, state })),
  };
}

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
