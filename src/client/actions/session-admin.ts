import { existsSync } from 'node:fs';
import { UserError } from '../../base/user-error.ts';
import { CorruptLogError } from '../../store/fs/store-errors.ts';
import type { WorkspacePaths } from '../../store/layout/layout.ts';
import { parentSessionOf } from '../../store/layout/layout.ts';
import { readLiveOwner } from '../../store/workspace/owner-file.ts';
import type { Workspace } from '../../store/workspace/workspace.ts';
import { countWaitingMessages } from '../inspect/session-overview.ts';
import { DaemonState } from '../sessions/client-errors.ts';
import { readSession } from '../sessions/read-session.ts';
import type { SessionFolders } from '../sessions/session-folders.ts';
import { type RebuiltFile, rebuildFiles } from './rebuild-files.ts';

type KnownSession = ReturnType<SessionFolders['get']>;

/** Another sender may create the same session at the same moment: then it exists, which is all that is needed. */
export async function createSession(workspace: Workspace, session: string): Promise<void> {
  try {
    await workspace.create(session);
  } catch (error) {
    if (!existsSync(workspace.paths.session(session))) throw error;
  }
}

/**
 * What moves or deletes whole sessions, with their child sessions. Each throws `DaemonState` while a run is in progress
 * in one of them.
 */
export function openSessionAdmin(workspace: Workspace, folders: SessionFolders) {
  /** Children before their parent: after an interruption the next attempt still finds all of them by its name. */
  async function idleSessionTree(key: string, doing: string): Promise<string[]> {
    const names = folders.withChildren(folders.get(key).name).reverse();
    for (const name of names) await assertIdle(name, doing);
    return names;
  }

  async function assertIdle(name: string, doing: string): Promise<void> {
    if (!(await isRunning(folders.get(name)))) return;
    const start = readLiveOwner(workspace.paths) ? '' : ' once a daemon is running (agentctl start)';
    throw new DaemonState(
      `${name} has an active run, so it is not ${doing}. Stop the run first${start}: agentctl stop-run ${name} --wait`,
    );
  }

  return {
    /** Returns the folder's new path. */
    async archive(key: string): Promise<string> {
      let target = '';
      for (const name of await idleSessionTree(key, 'archived')) target = await workspace.archive(name);
      return target;
    },
    async remove(key: string): Promise<void> {
      for (const name of await idleSessionTree(key, 'removed')) await workspace.remove(name);
    },
    /** Returns the new name of the folder. */
    async rename(key: string, to: string): Promise<string> {
      const { name } = folders.get(key);
      const target = folders.folderName(to);
      const parent = parentSessionOf(name);
      if (parent !== undefined)
        throw new UserError(`${name} is a child session of ${parent} and named after it. Rename ${parent}.`);
      for (const one of await idleSessionTree(key, 'renamed'))
        await workspace.rename(one, target + one.slice(name.length));
      return target;
    },
  };
}

/** The daemon does not serve a session whose event log cannot be trusted: no run is in progress there. */
async function isRunning(session: KnownSession): Promise<boolean> {
  try {
    return (await readSession(session)).run !== null;
  } catch (error) {
    if (error instanceof CorruptLogError) return false;
    throw error;
  }
}

/** Rebuilds a session's files from its event log. Throws `DaemonState` while the daemon is working in it. */
export async function rebuildSession(paths: WorkspacePaths, session: KnownSession): Promise<RebuiltFile[]> {
  const isServed = readLiveOwner(paths) !== undefined;
  if (isServed) {
    const { run, unanswered } = await readSession(session);
    if (run || unanswered.length > 0 || countWaitingMessages(session) > 0) {
      throw new DaemonState(
        `The daemon is working in ${session.name} and keeps its files up to date. Try again when the session is idle.`,
      );
    }
  }
  return rebuildFiles(session, { alone: !isServed });
}
