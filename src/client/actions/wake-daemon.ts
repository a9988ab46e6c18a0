import * as fs from 'node:fs';
import type { SessionPaths } from '../../store/layout/layout.ts';

/**
 * Has the daemon look at a session now, after a change of a file that it does not watch (`plan.json` at rest). Nothing
 * depends on it: what is not noticed now is read before anything else happens in the session.
 */
export function wakeDaemon({ wakeFile }: Pick<SessionPaths, 'wakeFile'>): void {
  try {
    fs.closeSync(fs.openSync(wakeFile, 'w', 0o600));
    fs.rmSync(wakeFile, { force: true });
  } catch {
    // What was saved is saved.
  }
}
