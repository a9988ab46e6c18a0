import * as fs from 'node:fs';
import { errorCode } from '../protocol/errors.ts';
import type { WorkspacePaths } from '../store/index.ts';
import { LOCK_FOLDER_STALE_MS, lockOpenFile, openLock } from '../store/kernel-lock.ts';
import { liveOwner, type Owner } from '../store/owner.ts';

export type Lock = { how: Owner['lock']; release(): Promise<void> };

/**
 * The lock of a workspace, if nobody has it. It is the kernel's, on a descriptor that is kept open; where no program can take
 * that, a lock folder with a heartbeat, and `onLost` hears when that was taken away. A lock on a file that has lost its name
 * keeps nobody out, and one taken beside an owner that holds the other kind neither: both count as not had.
 */
export async function tryLock(paths: WorkspacePaths, onLost: (why: Error) => void): Promise<Lock | undefined> {
  const fd = openLock(paths);
  let folder: (() => Promise<void>) | undefined;
  const release = async () => {
    await folder?.();
    fs.closeSync(fd);
  };
  try {
    const kernel = lockOpenFile(fd);
    if (kernel.is === 'missing') folder = await lockFolder(paths, onLost);
    const isOurs = kernel.is === 'ours' || folder !== undefined;
    if (isOurs && hasName(fd, paths.lock) && !isOwnedByAnother(paths)) {
      return { how: kernel.is === 'ours' ? kernel.by : 'folder', release };
    }
    await release();
    return undefined;
  } catch (error) {
    await release();
    throw error;
  }
}

function hasName(fd: number, path: string): boolean {
  return fs.fstatSync(fd).ino === fs.lstatSync(path, { throwIfNoEntry: false })?.ino;
}

function isOwnedByAnother(paths: WorkspacePaths): boolean {
  const owner = liveOwner(paths);
  return owner !== undefined && owner.pid !== process.pid;
}

async function lockFolder(
  paths: WorkspacePaths,
  onLost: (why: Error) => void,
): Promise<(() => Promise<void>) | undefined> {
  try {
    const options = { stale: LOCK_FOLDER_STALE_MS, update: 5_000, realpath: false, onCompromised: onLost };
    // Loaded where the kernel's lock is not to be had: it brings ten files along.
    const { default: lockfile } = await import('proper-lockfile');
    return await lockfile.lock(paths.lock, options);
  } catch (error) {
    if (errorCode(error) === 'ELOCKED') return undefined;
    throw error;
  }
}
