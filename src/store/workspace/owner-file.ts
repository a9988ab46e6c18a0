import * as fs from 'node:fs';
import { hostname } from 'node:os';
import { z } from 'zod';
import { bootId, hasProc, isProcessRunning, processStartTime } from '../fs/process-identity.ts';
import type { WorkspacePaths } from '../layout/layout.ts';

/** Identifies a process well enough not to mistake a later one with the same number for it. */
export const ProcessIdentity = z.object({
  version: z.literal(1),
  pid: z.int().min(1),
  /** In the kernel's ticks since boot; null if unknown. */
  start_time: z.string().nullable(),
  boot_id: z.string().nullable(),
  host: z.string(),
  /** Since when it owns it. */
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
    at: now.toISOString(),
  };
}

/** The identity in a lock file of this format; undefined if there is none or it is invalid. */
export function readIdentityFile<T extends ProcessIdentity>(path: string, format: z.ZodType<T>): T | undefined {
  try {
    return format.safeParse(JSON.parse(fs.readFileSync(path, 'utf8'))).data;
  } catch {
    return undefined;
  }
}

/** Whether that very process is alive: same number, same start, same boot. */
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

/** More starts than a workspace sees in its life. A larger number is damage, and is not continued from. */
export const MAX_EPOCH = 1_000_000_000;

/**
 * `.agentd/owner.json`: the current or last owner of the workspace. The file stays when its owner ends, with
 * `ended_at`: the next epoch continues from it, and one file is easier to keep consistent than two
 * (docs/decisions/0003-epochs.md).
 */
const WorkspaceOwner = ProcessIdentity.extend({
  /** The number of owners so far, this one included. Every event it writes carries it. */
  epoch: z.int().min(1).max(MAX_EPOCH),
  /** What keeps a second owner out: the kernel, through one of two programs, or a folder with a heartbeat. */
  lock: z.enum(['flock', 'perl', 'folder']),
  /** The folder it owns. A copy of that folder, such as a restored backup, contains this file but has no owner. */
  folder: z.object({ dev: z.string(), ino: z.string() }).optional(),
  /** When it released the workspace in good order. */
  ended_at: z.string().optional(),
});
export type WorkspaceOwner = z.infer<typeof WorkspaceOwner>;

/** What distinguishes the folder of a workspace from a copy of it. */
export function ownedFolderOf({ root }: WorkspacePaths): NonNullable<WorkspaceOwner['folder']> {
  const { dev, ino } = fs.statSync(root, { bigint: true });
  return { dev: String(dev), ino: String(ino) };
}

/** The owner in the file, alive or not; undefined if there is none or the file is invalid. */
export function readOwner(paths: WorkspacePaths): WorkspaceOwner | undefined {
  return readIdentityFile(paths.owner, WorkspaceOwner);
}

/**
 * The owner in the file if its process lives, has not released the workspace, and owns this folder, not the original of
 * this copy.
 */
export function readLiveOwner(paths: WorkspacePaths): WorkspaceOwner | undefined {
  const owner = readOwner(paths);
  return owner && owner.ended_at === undefined && isProcessAlive(owner) && ownsFolder(owner, paths) ? owner : undefined;
}

/** Daemons of earlier versions did not store which folder they own. */
function ownsFolder({ folder }: WorkspaceOwner, paths: WorkspacePaths): boolean {
  if (folder === undefined) return true;
  const { dev, ino } = ownedFolderOf(paths);
  return dev === folder.dev && ino === folder.ino;
}

/** Describes what keeps a second daemon out, for a person. */
export function describeLock(lock: WorkspaceOwner['lock']): string {
  if (lock === 'flock') return 'kernel lock (flock)';
  if (lock === 'perl') return 'kernel lock (perl, because flock is not installed)';
  return 'folder with a heartbeat, because neither flock nor perl is installed; a daemon that hangs can lose it. Install util-linux';
}
