import type { Snapshots } from '../../engine/ports/store-ports.ts';
import type { LogPosition } from '../../protocol/session/log-entry.ts';
import { replaceFile } from '../fs/replace-file.ts';
import type { SessionPaths } from '../layout/layout.ts';
import { hasPosition } from './log-reader.ts';
import { encodeSnapshot, readSnapshot, type Snapshot } from './snapshot-file.ts';

/**
 * What the record meant at a mark, so that it need not be read from its start. Where the newest is no good, the one
 * that stands for what retention removed serves.
 */
export function openSnapshotStore(paths: SessionPaths): Snapshots {
  return {
    load: async () => snapshotsNewestFirst(paths).next().value,
    save: (mark, state) => replaceFile(paths.snapshot, encodeSnapshot({ mark, state })),
  };
}

/** The snapshots that fit the record, the newest first, then the one that stands for what retention removed. */
export const snapshotsNewestFirst = (paths: SessionPaths) => matchingSnapshots(paths, [paths.snapshot, paths.base]);

/** The same in the order of the record: first the one that stands for what retention removed. */
export const snapshotsOldestFirst = (paths: SessionPaths) => matchingSnapshots(paths, [paths.base, paths.snapshot]);

function* matchingSnapshots(paths: SessionPaths, places: string[]): Generator<Snapshot, undefined> {
  for (const path of places) {
    const snapshot = readSnapshot(path);
    if (snapshot && matchesLog(paths, snapshot.mark)) yield snapshot;
  }
}

/** A record that cannot be trusted is told by who reads it. */
function matchesLog(paths: SessionPaths, mark: LogPosition): boolean {
  try {
    return hasPosition(paths, mark);
  } catch {
    return false;
  }
}
