import type { ManifestHeader } from '../../store/checkpoints/manifest-file.ts';
import type { WorkspacePaths } from '../../store/layout/layout.ts';
import { readSession, type SessionFolders } from '../sessions/session-folders.ts';
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

export function checkpointReaders(workspace: WorkspacePaths, folders: SessionFolders): CheckpointReaders {
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
