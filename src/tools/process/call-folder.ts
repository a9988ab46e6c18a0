import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { errorCode } from '../../base/user-error.ts';
import { hasProc } from './process-group.ts';

/** Linux counts the start of a process in these a second. */
const TICKS_PER_SECOND = 100;

/** The first process of a supervisor, as it said who it is. Enough to tell it from a later one with the same number. */
export type SupervisorIdentity = { pid: number; start: string; boot: string };

/** Who runs this call, or ran it; null where nobody said so, or not to the end of the line. */
export function readSupervisorIdentity(folder: string): SupervisorIdentity | null {
  const [stat = '', mark = '', end] = readSmallFile(callFiles(folder).pid).split('\n');
  const pid = Number(stat.split(' ')[0]);
  const start = startTimeIn(stat);
  const [boot = '', id] = mark.split(' ');
  return end === '' && pid > 1 && start && boot && isSameFolder(folder, id) ? { pid, start, boot } : null;
}

/**
 * What a supervisor is told to say of this start of the machine and of its folder: a copy of the folder is not where it
 * runs.
 */
export const bootAndFolderId = (folder: string): string => `${currentBootId()} ${folderId(folder)}`;

/** Whether a folder was made ready since the machine was started, and is not the copy of one that was. */
export function isPreparedThisBoot(folder: string): boolean {
  const [boot, id] = readSmallFile(callFiles(folder).boot).split(' ');
  return boot === currentBootId() && isSameFolder(folder, id);
}

function folderId(folder: string): string {
  const { dev, ino } = fs.statSync(folder, { bigint: true });
  return `${dev}:${ino}`;
}

/** Earlier versions did not say which folder it was. */
const isSameFolder = (folder: string, id: string | undefined) => id === undefined || id === folderId(folder);

/** Makes sure that a supervisor that has not said who it is never begins. False where it has. */
export function claimCall(folder: string): boolean {
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
export const isThisBoot = ({ boot }: SupervisorIdentity): boolean => boot === currentBootId();

/** `lives`: the process is there. `gone`: it is not, but what it started may be. `replaced`: another has its number. */
export function processState({ pid, start }: SupervisorIdentity): 'lives' | 'gone' | 'replaced' {
  const line = processLine(pid);
  if (line === null) return 'gone';
  if (startTimeIn(line) !== start) return 'replaced';
  return statFields(line)[0] === 'Z' ? 'gone' : 'lives';
}

/** Whether a process of this system runs; one that only waits to be asked for its exit code does not. */
export function isProcessRunning(pid: number): boolean {
  const line = processLine(pid);
  return line !== null && statFields(line)[0] !== 'Z';
}

/** Names this start of the machine. */
export function currentBootId(): string {
  bootId ??= hasProc
    ? readSmallFile('/proc/sys/kernel/random/boot_id').trim()
    : outputOf('sysctl', ['-n', 'kern.bootsessionuuid']);
  return bootId;
}

/** How long ago it began, in ms; by the kernel's clock where there is one, which no clock change moves. */
export function runningForMs(folder: string, { start }: SupervisorIdentity): number {
  const uptime = readSmallFile('/proc/uptime').split(' ')[0];
  if (uptime) return Math.max(0, Number(uptime) * 1000 - (Number(start) * 1000) / TICKS_PER_SECOND);
  return Math.max(0, Date.now() - fs.statSync(callFiles(folder).pid).mtimeMs);
}

let bootId: string | undefined;

function processLine(pid: number): string | null {
  if (hasProc) return readSmallFile(`/proc/${pid}/stat`) || null;
  const since = outputOf('ps', ['-o', 'lstart=', '-p', String(pid)]);
  return since ? `${pid} ${since}` : null;
}

/** The start in a line of /proc/<pid>/stat, or behind the number where `ps` was asked. */
function startTimeIn(line: string): string | undefined {
  return line.includes(')') ? statFields(line)[19] : /^\d+ +(.+)$/.exec(line)?.[1]?.trim();
}

/** From the state on. The name before it may hold anything, brackets and blanks too. */
const statFields = (line: string): string[] => line.slice(line.lastIndexOf(')') + 2).split(' ');

function outputOf(program: string, args: string[]): string {
  try {
    return execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return '';
  }
}

/**
 * What lies in the folder of a call. `boot` and `exit` are there from the start; `cut` where part of the output was not
 * kept.
 */
export const callFiles = (folder: string) => ({
  boot: join(folder, 'boot'),
  pid: join(folder, 'pid'),
  out: join(folder, 'out'),
  tail: join(folder, 'tail'),
  exit: join(folder, 'exit'),
  cut: join(folder, 'cut'),
});

/** How the command ended, from `exit`. `whole`: all it said was kept as well. */
export type CommandExit = {
  code: number | null;
  signal: NodeJS.Signals | null;
  whole: boolean;
  /** Why the command was not begun: its fence could not be put up. */
  fault?: string;
};

/**
 * Null where the command has not ended. A shell tells a signal only by 128 and its number, which any program may exit
 * with; but of a signal it also prints a line. (None of SIGINT and SIGPIPE: those two stay numbers.)
 */
export function readExit(folder: string): CommandExit | null {
  const lines = readSmallFile(callFiles(folder).exit).split('\n').slice(0, -1);
  const at = lines.findIndex((line) => /^\d+$/.test(line));
  if (at < 0) return readSandboxFault(lines);
  const code = Number(lines[at]);
  const signal = at > 0 ? signalName(code - 128) : null;
  return { code: signal ? null : code, signal, whole: lines[at + 1] === 'whole' };
}

/**
 * A fence that ended and did not tell how its command did; its own complaint, where it has one, came before that began.
 */
function readSandboxFault(lines: string[]): CommandExit | null {
  if (!lines.some((line) => /^fence \d+$/.test(line))) return null;
  const fault = lines.find((line) => /^(?:bwrap|fault|env): /.test(line));
  return { code: null, signal: null, whole: lines.at(-1) === 'whole', ...(fault !== undefined && { fault }) };
}

/** The name of a signal; null where it has none here. */
export function signalName(number: number): NodeJS.Signals | null {
  const isSignal = (name: string): name is NodeJS.Signals => name in constants.signals;
  return (
    Object.keys(constants.signals)
      .filter(isSignal)
      .find((name) => constants.signals[name] === number) ?? null
  );
}

/** The text of a small file; empty where there is none, or where its process went while it was read. */
export function readSmallFile(path: string): string {
  try {
    return fs.readFileSync(path, 'utf8');
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ESRCH') return '';
    throw error;
  }
}
