import * as fs from 'node:fs';
import { join } from 'node:path';
import { stagingName } from '../../store/fs/durable-write.ts';
import type { WorkspacePaths } from '../../store/layout/layout.ts';
import type { Workspace } from '../../store/workspace/workspace.ts';
import { type CheckpointReaders, checkpointReaders } from '../inspect/checkpoint-readers.ts';
import type { SessionFolders } from '../sessions/session-folders.ts';
import type { ImportedSession } from './import-sessions.ts';

/** A tar of sessions. Exactly one of `write` and `close` is called. */
export type SessionExport = {
  sessions: Array<{ name: string; seq: number }>;
  /** What it does not have, in words. */
  leftOut: string[];
  write(out: NodeJS.WritableStream): Promise<void>;
  close(): void;
};

/** Copies of whole sessions. A copy begins with its run paused, and without child sessions. */
export type SessionCopies = {
  /**
   * Makes a new session of what this one was at the end of a step, or at a checkpoint; returns the name of its folder.
   * Throws UserError if there is no such moment, or the name is taken.
   */
  forkSession(key: string, moment: string, name: string): Promise<{ name: string; checkpoint: number; seq: number }>;
  /** Prepares a tar of sessions, which may be running. What waits in their inboxes is left out. */
  exportSessions(keys: readonly string[]): Promise<SessionExport>;
  /**
   * Takes the sessions from such a tar, under their names or `as`. Throws UserError, and what `check` throws for one of
   * the new names; then nothing is imported.
   */
  importSessions(
    bytes: AsyncIterable<Uint8Array>,
    as?: string,
    check?: (name: string) => void,
  ): Promise<ImportedSession[]>;
};

/** What can be done with moments of the past. */
export type SessionHistory = CheckpointReaders & SessionCopies;

export const sessionHistory = (
  paths: WorkspacePaths,
  workspace: () => Promise<Workspace>,
  folders: SessionFolders,
): SessionHistory => ({ ...checkpointReaders(paths, folders), ...sessionCopies(workspace, folders) });

function sessionCopies(workspace: () => Promise<Workspace>, folders: SessionFolders): SessionCopies {
  return {
    async forkSession(key, moment, to) {
      const source = folders.get(key);
      const name = folders.folderName(to);
      const { forkSession } = await import('./fork-session.ts');
      return { name, ...(await forkSession(await workspace(), source, moment, name)) };
    },
    async exportSessions(keys) {
      const sessions = keys.map(folders.get);
      const staging = join((await workspace()).paths.sessions, stagingName());
      const close = () => fs.rmSync(staging, { recursive: true, force: true });
      try {
        const { prepareExport } = await import('./export-sessions.ts');
        const { header, leftOut, write } = await prepareExport(sessions, staging, new Date());
        return { sessions: header.sessions, leftOut, close, write: (out) => write(out).finally(close) };
      } catch (error) {
        close();
        throw error;
      }
    },
    async importSessions(bytes, as, check = () => {}) {
      const { importSessions } = await import('./import-sessions.ts');
      return importSessions(await workspace(), folders, bytes, { as, check });
    },
  };
}
