import type { Snapshots } from '../engine/ports.ts';
import { newestFirst } from './kept-snapshots.ts';
import type { SessionPaths } from './layout.ts';
import { replaceFile } from './replace-file.ts';
import { snapshotText } from './snapshot-file.ts';

/**
 * What the record meant at a mark, so that it need not be read from its start. Where the newest is no good, the one that stands
 * for what retention removed serves.
 */
export function openSnapshots(paths: SessionPaths): Snapshots {
  return {
    load: async () => newestFirst(paths).next().value,
    save: (mark, state) => replaceFile(paths.snapshot, snapshotText({ mark, state })),
  };
}
