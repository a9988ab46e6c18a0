import { UserError } from '../../base/user-error.ts';
import { CorruptLogError } from '../../store/fs/store-errors.ts';
import { parentSessionOf } from '../../store/layout/file-names.ts';
import type { WorkspacePaths } from '../../store/layout/layout.ts';
import { readLiveOwner } from '../../store/workspace/owner-file.ts';
import type { Workspace } from '../../store/workspace/workspace.ts';
import { DaemonState } from '../sessions/client-errors.ts';
import { readSession } from '../sessions/read-session.ts';
import type { SessionFolders } from '../sessions/session-folders.ts';

/**
 * Moves and removes whole sessions. Each throws `DaemonState` while a run is in progress, and includes the child
 * sessions; `archive` returns the folder's new path, `rename` the new name.
 */
export type SessionMoves = {
  archive(key: string): Promise<string>;
  remove(key: string): Promise<void>;
  rename(key: string, to: string): Promise<string>;
};

type MovePlaces = { paths: WorkspacePaths; folders: SessionFolders; workspace: () => Promise<Workspace> };

export function openSessionMoves({ paths, folders, workspace }: MovePlaces): SessionMoves {
  /** Children before their parent: after an interruption the family can still be named in the next attempt. */
  const familyAtRest = async (key: string, doing: string): Promise<string[]> => {
    const names = folders.family(folders.get(key).name).reverse();
    for (const name of names) await atRest(name, doing);
    return names;
  };
  const atRest = async (name: string, doing: string): Promise<void> => {
    if (!(await isRunning(name))) return;
    const start = readLiveOwner(paths) ? '' : ' once a daemon is running (agentctl start)';
    throw new DaemonState(
      `${name} has an active run, so it is not ${doing}. Stop the run first${start}: agentctl stop-run ${name} --wait`,
    );
  };
  /** The daemon does not serve a session whose event log cannot be trusted: no run is in progress there. */
  const isRunning = async (key: string): Promise<boolean> => {
    try {
      return (await readSession(folders.get(key))).run !== null;
    } catch (error) {
      if (error instanceof CorruptLogError) return false;
      throw error;
    }
  };
  return {
    async archive(key) {
      let target = '';
      for (const name of await familyAtRest(key, 'archived')) target = await (await workspace()).archive(name);
      return target;
    },
    async remove(key) {
      for (const name of await familyAtRest(key, 'removed')) await (await workspace()).remove(name);
    },
    async rename(key, to) {
      const { name } = folders.get(key);
      const target = folders.folderName(to);
      const parent = parentSessionOf(name);
      if (parent !== undefined)
        throw new UserError(`${name} is a child session of ${parent} and named after it. Rename ${parent}.`);
      for (const one of await familyAtRest(key, 'renamed'))
        await (await workspace()).rename(one, target + one.slice(name.length));
      return target;
    },
  };
}
