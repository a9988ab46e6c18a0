import * as fs from 'node:fs';
import { hostname } from 'node:os';
import { z } from 'zod';

/** A process that holds something, told well enough not to be taken for a later one with the same number. */
export const Holder = z.object({
  version: z.literal(1),
  pid: z.int().min(1),
  /** In the kernel's ticks since boot; null where the system does not tell. */
  start_time: z.string().nullable(),
  boot_id: z.string().nullable(),
  host: z.string(),
  /** Since when it holds it. */
  at: z.string(),
});
export type Holder = z.infer<typeof Holder>;

export function ourselves(now: Date): Holder {
  return {
    version: 1,
    pid: process.pid,
    start_time: startTime(process.pid),
    boot_id: bootId(),
    host: hostname(),
    at: now.toISOString(),
  };
}

/** What a lock file says of its holder, in this format; undefined where there is none or it makes no sense. */
export function readHolder<T extends Holder>(path: string, format: z.ZodType<T>): T | undefined {
  try {
    return format.safeParse(JSON.parse(fs.readFileSync(path, 'utf8'))).data;
  } catch {
    return undefined;
  }
}

/** Whether that very process lives: same number, same start, same boot. */
export function lives({ pid, start_time, boot_id }: Holder): boolean {
  return boot_id === bootId() && isAlive(pid) && start_time === startTime(pid);
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
