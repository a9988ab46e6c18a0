import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { attempt, errorCode } from '../../base/user-error.ts';

/** Whether this system describes its processes in /proc. */
export const hasProc = fs.existsSync('/proc/self/stat');

/**
 * One line about a process that includes its start time: from /proc/<pid>/stat, else the pid and what `ps` prints.
 * Undefined if there is no such process.
 */
export function processLine(pid: number): string | undefined {
  if (hasProc) return readProc(`${pid}/stat`);
  const since = outputOf('ps', ['-o', 'lstart=', '-p', String(pid)]);
  return since ? `${pid} ${since}` : undefined;
}

/** The start time in such a line: in the kernel's ticks since boot, if it is from /proc. */
export function startTimeIn(line: string): string | undefined {
  return line.includes(')') ? statFields(line)[19] : /^\d+ +(.+)$/.exec(line)?.[1]?.trim();
}

/** Whether such a line describes a process that has ended but was not waited for. */
export const isZombie = (line: string): boolean => statFields(line)[0] === 'Z';

/** Whether a process of this system runs; a zombie does not. */
export function isProcessRunning(pid: number): boolean {
  const line = processLine(pid);
  return line !== undefined && !isZombie(line);
}

/** When a process started, in the kernel's ticks since boot; null if /proc does not have it. */
export const processStartTime = (pid: number): string | null =>
  (hasProc && startTimeIn(processLine(pid) ?? '')) || null;

/** Identifies this boot of the machine; null if /proc does not have it. */
export const bootId = (): string | null => readProc('sys/kernel/random/boot_id')?.trim() ?? null;

let knownBoot: string | undefined;

/** The same, by `sysctl` on systems without /proc; '' if unknown. */
export function currentBootId(): string {
  knownBoot ??= bootId() ?? outputOf('sysctl', ['-n', 'kern.bootsessionuuid']);
  return knownBoot;
}

/** A file in /proc; undefined if there is none, or if its process ended while it was read. */
function readProc(path: string): string | undefined {
  try {
    return fs.readFileSync(`/proc/${path}`, 'utf8');
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ESRCH') return undefined;
    throw error;
  }
}

/** The fields from the state on. The name before it may contain anything, brackets and spaces too. */
const statFields = (line: string): string[] => line.slice(line.lastIndexOf(')') + 2).split(' ');

function outputOf(program: string, args: string[]): string {
  return (
    attempt(() => execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()) ?? ''
  );
}
