import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { hostname } from 'node:os';
import { z } from 'zod';
import { attempt, errorCode, errorText, UserError } from '../../base/user-error.ts';
import { withTrustedPath } from '../../protocol/workspace/session-names.ts';
import { readJsonFile } from '../fs/file-reads.ts';
import { bootId, hasProc, isProcessRunning, processStartTime } from '../fs/process-identity.ts';
import { ifExists, wrapDiskErrors } from '../fs/store-errors.ts';
import type { WorkspacePaths } from '../layout/layout.ts';

/** Identifies a process, so that a later one with the same pid is not mistaken for it. */
export const ProcessIdentity = z.object({
  version: z.literal(1),
  pid: z.int().min(1),
  /** In the kernel's ticks since boot; null if unknown. */
  start_time: z.string().nullable(),
  boot_id: z.string().nullable(),
  host: z.string(),
  /** Its namespace of process numbers: in another one, such as that of a container, `pid` means another process. */
  pid_ns: z.string().optional(),
  /** When it became the owner. */
  at: z.string(),
});
export type ProcessIdentity = z.infer<typeof ProcessIdentity>;

/** The identity of this process. */
export function currentProcess(now: Date): ProcessIdentity {
  return {
    version: 1,
    pid: process.pid,
    start_time: processStartTime(process.pid),
    boot_id: bootId(),
    host: hostname(),
    ...pidNamespace(),
    at: now.toISOString(),
  };
}

function pidNamespace(): { pid_ns?: string } {
  return attempt(() => ({ pid_ns: fs.readlinkSync('/proc/self/ns/pid') })) ?? {};
}

/** The identity in a lock file of this format; undefined if there is none or it is invalid. */
export function readIdentityFile<T extends ProcessIdentity>(path: string, format: z.ZodType<T>): T | undefined {
  return readJsonFile(path, format);
}

/** Whether the process is alive: same pid, same start time, same boot. */
export function isProcessAlive({ pid, start_time, boot_id }: ProcessIdentity): boolean {
  return boot_id === bootId() && isPidAlive(pid) && start_time === processStartTime(pid);
}

function isPidAlive(pid: number): boolean {
  // A zombie answers signals like a living process.
  if (hasProc) return isProcessRunning(pid);
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

/** More starts than a workspace ever has. A larger number is treated as damage. */
export const MAX_EPOCH = 1_000_000_000;

/**
 * `.agentd/owner.json`: the current or last owner of the workspace. The file stays when its owner ends, with
 * `ended_at`: the next epoch continues from it, and one file is easier to keep consistent than two
 * (docs/decisions/0051-owners.md).
 */
const WorkspaceOwner = ProcessIdentity.extend({
  /** The number of owners so far, this one included. Every event it writes carries it. */
  epoch: z.int().min(1).max(MAX_EPOCH),
  /** How a second owner is kept out: a kernel lock, taken by one of two programs, or a folder with a heartbeat. */
  lock: z.enum(['flock', 'perl', 'folder']),
  /** The folder it owns. A copy of that folder, such as a restored backup, contains this file but has no owner. */
  folder: z.object({ dev: z.string(), ino: z.string() }),
  /** When it released the workspace properly. */
  ended_at: z.string().optional(),
});
export type WorkspaceOwner = z.infer<typeof WorkspaceOwner>;

/** What distinguishes the folder of a workspace from a copy of it. */
export function ownedFolderOf({ root }: WorkspacePaths): WorkspaceOwner['folder'] {
  const { dev, ino } = fs.statSync(root, { bigint: true });
  return { dev: String(dev), ino: String(ino) };
}

/** The owner in the file, alive or not; undefined if there is none or the file is invalid. */
export function readOwner(paths: WorkspacePaths): WorkspaceOwner | undefined {
  return readIdentityFile(paths.owner, WorkspaceOwner);
}

/**
 * The owner in the file if its process is running, has not released the workspace, and owns this folder rather than the
 * original of this copy.
 */
export function readLiveOwner(paths: WorkspacePaths): WorkspaceOwner | undefined {
  const owner = readOwner(paths);
  return owner && owner.ended_at === undefined && isProcessAlive(owner) && ownsFolder(owner, paths) ? owner : undefined;
}

/** Looking at the lock starts a program, so what was found holds this long, in ms. */
const ELSEWHERE_MS = 2000;
let seenElsewhere = { of: '', at: Number.NEGATIVE_INFINITY, is: false };

/**
 * The owner that runs where this process cannot see it, on another host or in another container: it is in the file, and
 * its lock is held.
 */
export function readOwnerElsewhere(paths: WorkspacePaths): WorkspaceOwner | undefined {
  const owner = readOwner(paths);
  if (!owner || owner.ended_at !== undefined || isProcessAlive(owner) || !ownsFolder(owner, paths)) return undefined;
  const { pid_ns: here } = pidNamespace();
  if (owner.host === hostname() && (owner.pid_ns ?? here) === here) return undefined;
  const of = `${paths.root}:${owner.epoch}`;
  if (seenElsewhere.of !== of || performance.now() - seenElsewhere.at > ELSEWHERE_MS)
    seenElsewhere = { of, at: performance.now(), is: !isLockFree(paths) };
  return seenElsewhere.is ? owner : undefined;
}

/** The owner that is running, here or where this process cannot see it. */
export const readRunningOwner = (paths: WorkspacePaths): WorkspaceOwner | undefined =>
  readLiveOwner(paths) ?? readOwnerElsewhere(paths);

function ownsFolder({ folder }: WorkspaceOwner, paths: WorkspacePaths): boolean {
  const { dev, ino } = ownedFolderOf(paths);
  return dev === folder.dev && ino === folder.ino;
}

/** Describes what keeps a second daemon out, for a person. */
export function describeLock(lock: WorkspaceOwner['lock']): string {
  if (lock === 'flock') return 'kernel lock (flock)';
  if (lock === 'perl') return 'kernel lock (perl, because flock is not installed)';
  return 'folder with a heartbeat, because neither flock nor perl is installed; a daemon that hangs can lose it. Install util-linux';
}

/**
 * Node has no flock(2), but these programs do. Each locks the open file it inherits as descriptor 3 and exits with 0,
 * or with 1 if another process has the lock. The lock belongs to the open file, so it lasts until our process ends.
 * util-linux and busybox provide `flock`; macOS does not, but has perl (6 is LOCK_EX | LOCK_NB there and on Linux).
 */
const LOCK_PROGRAMS = [
  { by: 'flock', args: ['-n', '3'] },
  { by: 'perl', args: ['-e', 'open(F, "+<&=3") or exit 2; flock(F, 6) and exit 0; exit($!{EAGAIN} ? 1 : 2)'] },
] as const;

/** The result of locking a file; `missing`: the system has neither program. */
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
  // The current directory may be a `work/`, and PATH may have relative entries, so neither is trusted.
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
