import * as fs from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { errorCode } from '../../base/user-error.ts';
import { currentBootId, isZombie, processLine, startTimeIn } from '../../store/fs/process-identity.ts';

/** Linux counts a process's start time in ticks; this many per second. */
const TICKS_PER_SECOND = 100;

/** The first process of a supervisor, as it identified itself; distinguishes it from a later process with its pid. */
export type SupervisorIdentity = { pid: number; start: string; boot: string };

/** Who runs or ran this call; null if no supervisor has identified itself completely. */
export function readSupervisorIdentity(folder: string): SupervisorIdentity | null {
  const [stat = '', mark = '', end] = readSmallFile(callFiles(folder).pid).split('\n');
  const pid = Number(stat.split(' ')[0]);
  const start = startTimeIn(stat);
  const [boot = '', id] = mark.split(' ');
  if (end !== '' || !(pid > 1) || !start || !boot || id === undefined) return null;
  // Another machine knows the same file system by another device number.
  const isSame = boot === currentBootId() ? id === folderId(folder) : inodeIn(id) === inodeIn(folderId(folder));
  return isSame ? { pid, start, boot } : null;
}

/** What identifies the boot and the folder of a supervisor: a copy of the folder does not match. */
export const bootAndFolderId = (folder: string): string => `${currentBootId()} ${folderId(folder)}`;

/** Whether a folder was prepared since the machine booted, and is not a copy of one that was. */
export function isPreparedThisBoot(folder: string): boolean {
  const [boot, id] = readSmallFile(callFiles(folder).boot).split(' ');
  return boot === currentBootId() && id === folderId(folder);
}

const inodeIn = (id: string): string => id.slice(id.indexOf(':') + 1);

function folderId(folder: string): string {
  const { dev, ino } = fs.statSync(folder, { bigint: true });
  return `${dev}:${ino}`;
}

/** Makes sure that a supervisor that has not identified itself never starts. False if it already has. */
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

/** Whether the machine has not rebooted since: files from before a reboot may be incomplete. */
export const isThisBoot = ({ boot }: SupervisorIdentity): boolean => boot === currentBootId();

/**
 * `lives`: the process exists. `gone`: it does not, but its children may. `replaced`: another process has its pid.
 */
export function processState({ pid, start }: SupervisorIdentity): 'lives' | 'gone' | 'replaced' {
  const line = processLine(pid);
  if (line === undefined) return 'gone';
  if (startTimeIn(line) !== start) return 'replaced';
  return isZombie(line) ? 'gone' : 'lives';
}

/** How long ago it started, in ms; by the kernel's clock if available, which clock changes do not affect. */
export function runningForMs(folder: string, { start }: SupervisorIdentity): number {
  const uptime = readSmallFile('/proc/uptime').split(' ')[0];
  if (uptime) return Math.max(0, Number(uptime) * 1000 - (Number(start) * 1000) / TICKS_PER_SECOND);
  return Math.max(0, Date.now() - fs.statSync(callFiles(folder).pid).mtimeMs);
}

/**
 * Files in the folder of a call. `boot` and `exit` exist from the start; `cut` if part of the output was not kept.
 * `beat` grows each second while a supervisor runs that has lost its daemon; `synced`: what that one stored is on disk.
 */
export const callFiles = (folder: string) => ({
  boot: join(folder, 'boot'),
  pid: join(folder, 'pid'),
  out: join(folder, 'out'),
  tail: join(folder, 'tail'),
  exit: join(folder, 'exit'),
  cut: join(folder, 'cut'),
  beat: join(folder, 'beat'),
  synced: join(folder, 'synced'),
});

/** How the command ended, from `exit`. `whole`: all its output was stored. */
export type CommandExit = {
  code: number | null;
  signal: NodeJS.Signals | null;
  whole: boolean;
  /** Why the command was not started: its sandbox could not be set up. */
  fault?: string;
};

/**
 * Null if the command has not ended. A shell reports a signal only as 128 plus its number, a code any program may exit
 * with; but for a signal it also prints a line. (Not for SIGINT and SIGPIPE: those two stay numbers.)
 */
export function readExit(folder: string): CommandExit | null {
  const lines = readSmallFile(callFiles(folder).exit).split('\n').slice(0, -1);
  const at = lines.findIndex((line) => /^\d+$/.test(line));
  if (at < 0) return readSandboxFault(lines);
  const code = Number(lines[at]);
  const signal = at > 0 ? signalName(code - 128) : null;
  return { code: signal ? null : code, signal, whole: lines[at + 1] === 'whole' };
}

/** For a sandbox that ended without reporting the command's end: its own error, if any, preceded the command. */
function readSandboxFault(lines: string[]): CommandExit | null {
  if (!lines.some((line) => /^sandbox \d+$/.test(line))) return null;
  const fault = lines.find((line) => /^(?:bwrap|fault|env): /.test(line));
  return { code: null, signal: null, whole: lines.at(-1) === 'whole', ...(fault !== undefined && { fault }) };
}

/** The name of a signal; null if it has none on this system. */
export function signalName(number: number): NodeJS.Signals | null {
  const isSignal = (name: string): name is NodeJS.Signals => name in constants.signals;
  return (
    Object.keys(constants.signals)
      .filter(isSignal)
      .find((name) => constants.signals[name] === number) ?? null
  );
}

/** The text of a small file; empty if there is none, or if its process ended while it was read. */
export function readSmallFile(path: string): string {
  try {
    return fs.readFileSync(path, 'utf8');
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ESRCH') return '';
    throw error;
  }
}
