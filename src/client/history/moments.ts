import * as fs from 'node:fs';
import { join } from 'node:path';
import type { ManifestHeader } from '../../store/checkpoints/manifest-file.ts';
import { stagingName } from '../../store/fs/durable-write.ts';
import type { WorkspacePaths } from '../../store/layout/layout.ts';
import type { Workspace } from '../../store/workspace/workspace.ts';
import type { ConversationOptions, SessionUpdate, StreamOptions, StreamUpdate } from '../inspect/stream-session.ts';
import type { FollowOptions, LogLine } from '../sessions/follow-log.ts';
import { type KnownSession, readSession, type SessionFolders } from '../sessions/session-folders.ts';
import type { ImportedSession } from './import-sessions.ts';
import type { CheckpointFiles, RestorePreview, WorkDiff } from './work-history.ts';

/** What is known of `work/` at moments of the past. A moment is a step (its end), or the number of a checkpoint. */
export type CheckpointReaders = {
  /** The checkpoints that are kept, oldest first. */
  checkpoints(key: string): Promise<ManifestHeader[]>;
  /** What `work/` held at a moment; without one, now. Throws UserError if it cannot be read. */
  filesAt(key: string, moment?: string): Promise<CheckpointFiles>;
  /**
   * How `work/` differs between two moments; with one step, what that step changed; with one checkpoint, what has
   * changed since; with neither, since the last checkpoint. `withPatch`: as a unified diff as well.
   */
  diffWork(key: string, moments: readonly (string | undefined)[], withPatch?: boolean): Promise<WorkDiff>;
  /** What a restore would change. Throws UserError if it would be refused. */
  previewRestore(key: string, moment: string, paths: readonly string[]): Promise<RestorePreview>;
  /** What undoing the last step would change, if its files are known. Throws UserError if it would be refused. */
  previewUndo(key: string): Promise<(RestorePreview & { step: string }) | undefined>;
};

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

function checkpointReaders(workspace: WorkspacePaths, folders: SessionFolders): CheckpointReaders {
  const place = async (key: string) => {
    const paths = folders.get(key);
    return { paths, root: folders.rootOf(key), workspace, session: await readSession(paths) };
  };
  const module = () => import('./work-history.ts');
  return {
    checkpoints: async (key) => (await module()).listSavedWork(await place(key)),
    filesAt: async (key, moment) => (await module()).readFilesAt(await place(key), moment),
    diffWork: async (key, moments, full = false) => (await module()).diffWork(await place(key), moments, full),
    previewUndo: async (key) => (await module()).previewUndo(await place(key)),
    previewRestore: async (key, moment, paths) => (await module()).previewRestore(await place(key), moment, paths),
  };
}

export async function* streamEvents(session: KnownSession, options: FollowOptions): AsyncGenerator<LogLine> {
  yield* (await import('../sessions/follow-log.ts')).followEvents(session, options);
}

export async function* streamUpdates(
  session: KnownSession,
  options: ConversationOptions,
): AsyncGenerator<SessionUpdate> {
  yield* (await import('../inspect/stream-session.ts')).watchSession(session, options);
}

export async function* streamFrom(session: KnownSession, options: StreamOptions): AsyncGenerator<StreamUpdate> {
  yield* (await import('../inspect/stream-session.ts')).streamSession(session, options);
}
