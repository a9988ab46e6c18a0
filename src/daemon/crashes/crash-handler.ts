import { AsyncLocalStorage } from 'node:async_hooks';
import { writeFileSync } from 'node:fs';
import { errorText } from '../../base/user-error.ts';
import type { CrashNote } from '../../protocol/workspace/daemon-files.ts';

export type CrashHandler = {
  /** Runs work of a session. Timers, promises and listeners started by it are attributed to that session too. */
  runInSession<T>(session: string, run: () => T): T;
  stop(): void;
};

/**
 * Writes a note when an uncaught error ends the daemon, naming the session whose work threw it. It only observes: the
 * process still ends with Node's own message and exit code.
 */
export function startCrashHandler(path: string, ownerSince: string): CrashHandler {
  const current = new AsyncLocalStorage<string>();
  function leaveNote(error: unknown): void {
    const session = current.getStore();
    const why = `uncaught error: ${errorText(error)}`;
    const note: CrashNote = { owner_since: ownerSince, why, ...(session !== undefined && { session }) };
    try {
      writeFileSync(path, `${JSON.stringify(note, null, 2)}\n`, { mode: 0o600 });
    } catch {
      // Without the note nobody is blamed.
    }
  }
  process.on('uncaughtExceptionMonitor', leaveNote);
  return {
    runInSession: (session, run) => current.run(session, run),
    stop: () => void process.off('uncaughtExceptionMonitor', leaveNote),
  };
}
