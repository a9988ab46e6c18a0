import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { errorCode } from '../protocol/errors.ts';
import { callFiles, textOf } from './supervisor.ts';

/** Linux counts the start of a process in these a second. */
const TICKS = 100;

/** Whether this system tells of its processes in /proc. */
export const hasProc = fs.existsSync('/proc/self/stat');

/** The first process of a supervisor, as it said who it is. Enough to tell it from a later one with the same number. */
export type Life = { pid: number; start: string; boot: string };

/** Who runs this call, or ran it; null where nobody said so, or not to the end of the line. */
export function lifeIn(folder: string): Life | null {
  const [stat = '', mark = '', end] = textOf(callFiles(folder).pid).split('\n');
  const pid = Number(stat.split(' ')[0]);
  const start = startIn(stat);
  const [boot = '', place] = mark.split(' ');
  return end === '' && pid > 1 && start && boot && isPlace(folder, place) ? { pid, start, boot } : null;
}

/** What a supervisor is told to say of this start of the machine and of its folder: a copy of the folder is not where it runs. */
export const markOf = (folder: string): string => `${bootOfNow()} ${placeOf(folder)}`;

/** Whether a folder was made ready since the machine was started, and is not the copy of one that was. */
export function isReady(folder: string): boolean {
  const [boot, place] = textOf(callFiles(folder).boot).split(' ');
  return boot === bootOfNow() && isPlace(folder, place);
}

function placeOf(folder: string): string {
  const { dev, ino } = fs.statSync(folder, { bigint: true });
  return `${dev}:${ino}`;
}

/** Earlier versions did not say which folder it was. */
const isPlace = (folder: string, place: string | undefined) => place === undefined || place === placeOf(folder);

/** Makes sure that a supervisor that has not said who it is never begins. False where it has. */
export function claim(folder: string): boolean {
  try {
    fs.writeFileSync(callFiles(folder).pid, '', { flag: 'wx', mode: 0o600 });
    return true;
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return false;
    if (errorCode(error) === 'ENOENT') return true;
    throw error;
  }
}

/** Whether this is still the system in which it began: what another left behind may be in pieces. */
export const isThisBoot = ({ boot }: Life): boolean => boot === bootOfNow();

/** `lives`: the process is there. `gone`: it is not, but what it started may be. `replaced`: another has its number. */
export function stateOf({ pid, start }: Life): 'lives' | 'gone' | 'replaced' {
  const line = existing(pid);
  if (line === null) return 'gone';
  if (startIn(line) !== start) return 'replaced';
  return fieldsOf(line)[0] === 'Z' ? 'gone' : 'lives';
}

/** Whether a process of this system runs; one that only waits to be asked for its exit code does not. */
export function runsNow(pid: number): boolean {
  const line = existing(pid);
  return line !== null && fieldsOf(line)[0] !== 'Z';
}

/** Names this start of the machine. */
export function bootOfNow(): string {
  boot ??= hasProc ? textOf('/proc/sys/kernel/random/boot_id').trim() : said('sysctl', ['-n', 'kern.bootsessionuuid']);
  return boot;
}

/** How long ago it began, in ms; by the kernel's clock where there is one, which no clock change moves. */
export function ageOf(folder: string, { start }: Life): number {
  const uptime = textOf('/proc/uptime').split(' ')[0];
  if (uptime) return Math.max(0, Number(uptime) * 1000 - (Number(start) * 1000) / TICKS);
  return Math.max(0, Date.now() - fs.statSync(callFiles(folder).pid).mtimeMs);
}

let boot: string | undefined;

function existing(pid: number): string | null {
  if (hasProc) return textOf(`/proc/${pid}/stat`) || null;
  const since = said('ps', ['-o', 'lstart=', '-p', String(pid)]);
  return since ? `${pid} ${since}` : null;
}

/** The start in a line of /proc/<pid>/stat, or behind the number where `ps` was asked. */
function startIn(line: string): string | undefined {
  return line.includes(')') ? fieldsOf(line)[19] : /^\d+ +(.+)$/.exec(line)?.[1]?.trim();
}

/** From the state on. The name before it may hold anything, brackets and blanks too. */
const fieldsOf = (line: string): string[] => line.slice(line.lastIndexOf(')') + 2).split(' ');

function said(program: string, args: string[]): string {
  try {
    return execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return '';
  }
}
