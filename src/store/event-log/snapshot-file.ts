import * as fs from 'node:fs';
import { z } from 'zod';
import type { Snapshots } from '../../engine/ports/store-ports.ts';
import { LogPosition } from '../../protocol/session/log-entry.ts';
import { useIfExists } from '../fs/file-reads.ts';
import { watchFolderIdentity } from '../fs/open-folder.ts';
import { replaceFile } from '../fs/replace-file.ts';
import { DiskError } from '../fs/store-errors.ts';
import type { SessionPaths } from '../layout/layout.ts';
import { encodeLineWithCrc, parseCheckedLine } from './log-lines.ts';
import { hasPosition } from './log-reader.ts';

/** `snapshot.json`: one line, with its crc at the end. */
const Snapshot = z.object({ version: z.literal(2), position: LogPosition, state: z.unknown() });
export type Snapshot = { mark: LogPosition; state: unknown };

/** Encodes the content of `snapshot.json`. */
export const encodeSnapshot = ({ mark, state }: Snapshot): string =>
  encodeLineWithCrc({ version: 2, position: mark, state });

/** Undefined if there is no usable snapshot, for any reason: it only saves time. */
export function readSnapshot(path: string): Snapshot | undefined {
  try {
    const bytes = useIfExists(path, (there) => fs.readFileSync(there));
    const whole = bytes?.at(-1) === 10 ? parseCheckedLine(bytes.subarray(0, -1)) : undefined;
    const read = Snapshot.safeParse(whole?.value);
    return read.success ? { mark: read.data.position, state: read.data.state } : undefined;
  } catch {
    return undefined;
  }
}

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
  try {
    return hasPosition(paths, mark);
  } catch {
    return false;
  }
}
