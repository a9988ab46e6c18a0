import { attempt } from '../../base/user-error.ts';
import type { Snapshots } from '../../engine/ports/store-ports.ts';
import type { LogPosition } from '../../protocol/session/log-entry.ts';
import { hasPosition } from '../event-log/log-reader.ts';
import { encodeSnapshot, readSnapshot, type Snapshot } from '../event-log/snapshot-file.ts';
import { replaceFile } from '../fs/durable-write.ts';
import { watchFolderIdentity } from '../fs/open-folder.ts';
import { DiskError } from '../fs/store-errors.ts';
import type { SessionPaths } from '../layout/layout.ts';

/**
 * Saved session states at a log position, so that the log need not be read from its start. If the newest is unusable,
 * the base snapshot for what retention removed is used. Saving throws DiskError in a folder that was recreated: there,
 * it would show that the log of another session had been longer.
 */
export function openSnapshotStore(paths: SessionPaths): Snapshots {
  const isSameFolder = watchFolderIdentity(paths.folder);
  return {
    load: async () => snapshotsNewestFirst(paths).next().value,
    async save(mark, state) {
      if (!isSameFolder()) throw new DiskError('ENOENT', `${paths.folder} was removed or recreated while in use.`);
      await replaceFile(paths.snapshot, encodeSnapshot({ mark, state }));
    },
  };
}

/** The snapshots that match the event log, newest first, then the base snapshot for what retention removed. */
export const snapshotsNewestFirst = (paths: SessionPaths) => matchingSnapshots(paths, [paths.snapshot, paths.base]);

/** The same in log order: first the base snapshot for what retention removed. */
export const snapshotsOldestFirst = (paths: SessionPaths) => matchingSnapshots(paths, [paths.base, paths.snapshot]);

function* matchingSnapshots(paths: SessionPaths, places: string[]): Generator<Snapshot, undefined> {
  for (const path of places) {
    const snapshot = readSnapshot(path);
    if (snapshot && matchesLog(paths, snapshot.mark)) yield snapshot;
  }
}

/** A damaged event log matches nothing here; its reader reports the damage. */
function matchesLog(paths: SessionPaths, mark: LogPosition): boolean {
  return attempt(() => hasPosition(paths, mark)) ?? false;
}
