import * as fs from 'node:fs';
import { hostname } from 'node:os';
import { z } from 'zod';
import type { WorkspacePaths } from '../layout/layout.ts';

/** A process that holds something, told well enough not to be taken for a later one with the same number. */
export const ProcessIdentity = z.object({
  version: z.literal(1),
  pid: z.int().min(1),
  /** In the kernel's ticks since boot; null where the system does not tell. */
  start_time: z.string().nullable(),
  boot_id: z.string().nullable(),
  host: z.string(),
  /** Since when it holds it. */
  at: z.string(),
});
export type ProcessIdentity = z.infer<typeof ProcessIdentity>;

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

/** What a lock file says of its holder, in this format; undefined where there is none or it makes no sense. */
export function readIdentityFile<T extends ProcessIdentity>(path: string, format: z.ZodType<T>): T | undefined {
  try {
    return format.safeParse(JSON.parse(fs.readFileSync(path, 'utf8'))).data;
  } catch {
    return undefined;
  }
}

/** Whether that very process lives: same number, same start, same boot. */
export function isProcessAlive({ pid, start_time, boot_id }: ProcessIdentity): boolean {
  return boot_id === bootId() && isPidAlive(pid) && start_time === processStartTime(pid);
}

function isPidAlive(pid: number): boolean {
  // A process that was killed and not yet waited for answers signals like a living one.
  if (readProcStat(pid)?.[0] === 'Z') return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

/** The fields of /proc/<pid>/stat from the state on; undefined where /proc does not tell. */
function readProcStat(pid: number): string[] | undefined {
  const stat = readProc(`${pid}/stat`);
  // The name in brackets may hold anything, spaces and brackets included; the fields count from behind it.
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ');
}

/** When a process started, in the kernel's ticks since boot; null where /proc does not tell. */
export function processStartTime(pid: number): string | null {
  return readProcStat(pid)?.[19] ?? null;
}

export function bootId(): string | null {
  return readProc('sys/kernel/random/boot_id')?.trim() ?? null;
}

function readProc(path: string): string | undefined {
  try {
    return fs.readFileSync(`/proc/${path}`, 'utf8');
  } catch {
    return undefined;
  }
}

/** More starts than a workspace sees in its life. A number beyond it is damage, and is not counted on from. */
export const MAX_EPOCH = 1_000_000_000;

/**
 * `.agentd/owner.json`: who owns the workspace, or owned it last. The file stays when its owner goes, with `ended_at`:
 * the next epoch counts on from it, and one file is more easily kept true than two (docs/decisions/0003-epochs.md).
 */
const WorkspaceOwner = ProcessIdentity.extend({
  /** How many owners there were, this one included. Every event it writes carries it. */
  epoch: z.int().min(1).max(MAX_EPOCH),
  /** What keeps a second owner out: the kernel, asked through one of two programs, or a folder with a heartbeat. */
  lock: z.enum(['flock', 'perl', 'folder']),
  /**
   * The folder it owns. A copy of that folder, such as a backup put back elsewhere, brings this file along and has no
   * owner.
   */
  folder: z.object({ dev: z.string(), ino: z.string() }).optional(),
  /** When it gave the workspace back in good order. */
  ended_at: z.string().optional(),
});
export type WorkspaceOwner = z.infer<typeof WorkspaceOwner>;

/** What tells the folder of a workspace from a copy of it. */
export function ownedFolderOf({ root }: WorkspacePaths): NonNullable<WorkspaceOwner['folder']> {
  const { dev, ino } = fs.statSync(root, { bigint: true });
  return { dev: String(dev), ino: String(ino) };
}

/** The owner on file, alive or not; undefined where there is none or the file makes no sense. */
export function readOwner(paths: WorkspacePaths): WorkspaceOwner | undefined {
  return readIdentityFile(paths.owner, WorkspaceOwner);
}

/**
 * The owner on file if its process lives, has not given the workspace back, and owns this folder, not the one this is a
 * copy of.
 */
export function readLiveOwner(paths: WorkspacePaths): WorkspaceOwner | undefined {
  const owner = readOwner(paths);
  return owner && owner.ended_at === undefined && isProcessAlive(owner) && ownsFolder(owner, paths) ? owner : undefined;
}

/** Daemons of earlier versions did not say which folder they own. */
function ownsFolder({ folder }: WorkspaceOwner, paths: WorkspacePaths): boolean {
  if (folder === undefined) return true;
  const { dev, ino } = ownedFolderOf(paths);
  return dev === folder.dev && ino === folder.ino;
}

/** What keeps a second daemon out, for a person. */
export function describeLock(lock: WorkspaceOwner['lock']): string {
  if (lock === 'flock') return 'kernel lock (flock)';
  if (lock === 'perl') return 'kernel lock (perl, because flock is not installed)';
  return 'folder with a heartbeat, because neither flock nor perl is installed; a daemon that hangs can lose it. Install util-linux';
}
