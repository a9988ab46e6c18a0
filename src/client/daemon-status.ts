import * as fs from 'node:fs';
import { DaemonStatus } from '../protocol/status.ts';
import type { WorkspacePaths } from '../store/layout.ts';
import { liveOwner } from '../store/owner.ts';

export { lockInWords } from '../store/owner.ts';

/** What the daemon that runs now says of itself; undefined where none runs, or where it has not said anything yet. */
export function daemonStatus(paths: WorkspacePaths): DaemonStatus | undefined {
  const owner = liveOwner(paths);
  if (!owner) return undefined;
  try {
    const told = DaemonStatus.parse(JSON.parse(fs.readFileSync(paths.status, 'utf8')));
    return told.pid === owner.pid ? told : undefined;
  } catch {
    // It is written while the daemon works; on a full disk even half of it may be seen.
    return undefined;
  }
}
