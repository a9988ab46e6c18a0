import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { errorCode, errorText, UserError } from '../../base/user-error.ts';
import { withTrustedPath } from '../../protocol/workspace/session-names.ts';
import { ifExists, wrapDiskErrors } from '../fs/store-errors.ts';
import type { WorkspacePaths } from '../layout/layout.ts';

/**
 * Node has no flock(2), and these programs have. Each locks the open file it inherits as descriptor 3 and exits with 0,
 * or with 1 if somebody else has the lock. It belongs to the open file, so it outlives the program and dies with us.
 * util-linux and busybox provide `flock`; macOS does not, but has perl (6 is LOCK_EX | LOCK_NB there and on Linux).
 */
const LOCK_PROGRAMS = [
  { by: 'flock', args: ['-n', '3'] },
  { by: 'perl', args: ['-e', 'open(F, "+<&=3") or exit 2; flock(F, 6) and exit 0; exit($!{EAGAIN} ? 1 : 2)'] },
] as const;

/** The result of locking a file; `missing`: this system has none of the programs. */
export type KernelLock = { is: 'ours' | 'held'; by: 'flock' | 'perl' } | { is: 'missing' };

/** A lock folder whose heartbeat is older than this, in ms, is abandoned. */
export const LOCK_FOLDER_STALE_MS = 20_000;

/** Opens the lock file, created if missing and never unlinked: a lock on a file without a name excludes nobody. */
export function openLockFile(paths: WorkspacePaths): number {
  try {
    return fs.openSync(paths.lock, fs.constants.O_RDWR | fs.constants.O_CREAT | fs.constants.O_NOFOLLOW, 0o600);
  } catch (error) {
    throw new UserError(`Could not take the workspace ${paths.root}: ${errorText(error)}`);
  }
}

/**
 * Tries to lock an open file, without waiting. Node opens files close-on-exec, so no tool inherits the lock. Throws
 * UserError if the file system has no locks.
 */
export function tryLockFile(fd: number): KernelLock {
  // The current directory may be a `work/`, and PATH may begin there.
  const where = { cwd: '/', env: withTrustedPath(process.env) };
  for (const { by, args } of LOCK_PROGRAMS) {
    const { error, status, stderr } = spawnSync(by, args, { ...where, stdio: ['ignore', 'ignore', 'pipe', fd] });
    if (error && errorCode(error) === 'ENOENT') continue;
    if (error) throw error;
    if (status === 0) return { is: 'ours', by };
    if (status === 1) return { is: 'held', by };
    throw new UserError(`The workspace could not be locked: ${by} ended with ${status}. ${stderr.toString().trim()}`);
  }
  return { is: 'missing' };
}

/** Whether nobody holds the lock of a workspace right now. Takes it briefly to find out. */
export function isLockFree(paths: WorkspacePaths): boolean {
  if (!wrapDiskErrors('look at', paths.lock, () => ifExists(() => fs.lstatSync(paths.lock)))) return true;
  const fd = openLockFile(paths);
  try {
    const lock = tryLockFile(fd);
    if (lock.is !== 'missing') return lock.is === 'ours';
    const folder = ifExists(() => fs.lstatSync(`${paths.lock}.lock`));
    return !folder || Date.now() - folder.mtimeMs > LOCK_FOLDER_STALE_MS;
  } finally {
    fs.closeSync(fd);
  }
}
