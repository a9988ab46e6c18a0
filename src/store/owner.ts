import * as fs from 'node:fs';
import { z } from 'zod';
import type { WorkspacePaths } from './layout.ts';

/** `.agentd/owner.json`: who owns the workspace. Enough to tell a process from a later one with the same number. */
const Owner = z.object({
  version: z.literal(1),
  pid: z.int().min(1),
  start_time: z.string().nullable(),
  boot_id: z.string().nullable(),
  host: z.string(),
  at: z.string(),
});
export type Owner = z.infer<typeof Owner>;

/** The owner on file, alive or not; undefined where there is none or the file makes no sense. */
export function readOwner(paths: WorkspacePaths): Owner | undefined {
  try {
    return Owner.safeParse(JSON.parse(fs.readFileSync(paths.owner, 'utf8'))).data;
  } catch {
    return undefined;
  }
}

/** The owner on file if its process lives: same number, same start, same boot. */
export function liveOwner(paths: WorkspacePaths): Owner | undefined {
  const owner = readOwner(paths);
  if (!owner || owner.boot_id !== bootId() || !isAlive(owner.pid)) return undefined;
  return owner.start_time === startTime(owner.pid) ? owner : undefined;
}

function isAlive(pid: number): boolean {
  // A process that was killed and not yet waited for answers signals like a living one.
  if (statOf(pid)?.[0] === 'Z') return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}

/** The fields of /proc/<pid>/stat from the state on; undefined where /proc does not tell. */
function statOf(pid: number): string[] | undefined {
  const stat = proc(`${pid}/stat`);
  // The name in brackets may hold anything, spaces and brackets included; the fields count from behind it.
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ');
}

/** When a process started, in the kernel's ticks since boot; null where /proc does not tell. */
export function startTime(pid: number): string | null {
  return statOf(pid)?.[19] ?? null;
}

export function bootId(): string | null {
  return proc('sys/kernel/random/boot_id')?.trim() ?? null;
}

function proc(path: string): string | undefined {
  try {
    return fs.readFileSync(`/proc/${path}`, 'utf8');
  } catch {
    return undefined;
  }
}
