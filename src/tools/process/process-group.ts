import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { closeSync, openSync, readdirSync, readSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/**
 * How long processes may take to end after SIGTERM, before SIGKILL. After an abort the whole end takes under a second.
 */
const GRACE_MS = 2000;
const ABORT_GRACE_MS = 500;
/** How long what the first process left behind may take to end by itself. */
export const LINGER_MS = 200;
const POLL_MS = 10;

/** What outlived the first process. One that left the group (setsid) can hold the output open but not be ended. */
export type LeftBehind = 'nothing' | 'ended' | 'out of reach';

export type CommandEnd =
  | { how: 'timeout' }
  | { how: 'exit'; code: number | null; signal: NodeJS.Signals | null; leftBehind: LeftBehind };

/**
 * Ends what the first process left behind. `closed` comes once nobody holds the output open; one that does not
 * (`isClosedGroup`) gets a moment to end by itself.
 */
export async function endLeftBehind(group: number, closed: Promise<unknown>, isClosed: boolean): Promise<LeftBehind> {
  const runs = isClosed ? !(await waitUntil(() => !isGroupRunning(group), LINGER_MS)) : isGroupRunning(group);
  if (runs) await endGroup(group, AbortSignal.abort());
  const isClosedNow = await settlesWithinLinger(closed);
  if (runs) return 'ended';
  return isClosedNow ? 'nothing' : 'out of reach';
}

/** SIGTERM, a time to end well, SIGKILL; the time is short once `hurry` is aborted. */
export async function endGroup(group: number, hurry: AbortSignal): Promise<void> {
  signalGroup(group, 'SIGTERM');
  const gone = () => !isGroupRunning(group);
  if (!hurry.aborted) await waitUntil(() => hurry.aborted || gone(), GRACE_MS);
  if (hurry.aborted) await waitUntil(gone, ABORT_GRACE_MS);
  signalGroup(group, 'SIGKILL');
  await waitUntil(gone, LINGER_MS);
}

/** Ends a group at once, without a chance to put anything in order. */
export const killGroup = (group: number): void => signalGroup(group, 'SIGKILL');

function signalGroup(group: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-group, signal);
  } catch {
    // Nothing is left in the group, or nothing that this user may end.
  }
}

/**
 * Whether a process of the group still runs. A zombie does not: it only waits for a parent that may never ask, as pid 1
 * of many containers. Where there is no /proc, signalling a group of zombies fails by itself (macOS).
 */
export function isGroupRunning(group: number): boolean {
  try {
    process.kill(-group, 0);
  } catch {
    return false;
  }
  if (!hasProc) return true;
  return readdirSync('/proc').some((name) => /^\d+$/.test(name) && isRunningMember(name, group));
}

/**
 * Longer than a line of `stat` is; kept, as there may be hundreds to read at once (in half the time that `readFileSync`
 * takes).
 */
const statBuffer = Buffer.alloc(2048);

function readProcStat(pid: string): string {
  const fd = openSync(`/proc/${pid}/stat`, 'r');
  try {
    return statBuffer.toString('latin1', 0, readSync(fd, statBuffer));
  } finally {
    closeSync(fd);
  }
}

function isRunningMember(pid: string, group: number): boolean {
  try {
    const stat = readProcStat(pid);
    // The fields after the program's name, which may itself hold spaces and brackets: state, parent, group.
    const [state, , itsGroup] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return Number(itsGroup) === group && state !== 'Z';
  } catch {
    return false;
  }
}

/** Whether it comes before `LINGER_MS` have passed. */
export function settlesWithinLinger(closed: Promise<unknown>): Promise<boolean> {
  return Promise.race([closed.then(() => true), sleep(LINGER_MS, false, { ref: false })]);
}

/** Waits until something holds, at most `ms`; answers whether it does. */
export async function waitUntil(holds: () => boolean, ms: number): Promise<boolean> {
  for (let waited = 0; waited < ms; waited += POLL_MS) {
    if (holds()) return true;
    await sleep(POLL_MS);
  }
  return holds();
}

/** Ends a group once its own input closes, which the end of the daemon does, however it ended. */
const GUARD_SCRIPT =
  'read -r _; sleep 1; kill -TERM "-$1" 2>/dev/null || exit 0; sleep 2; kill -KILL "-$1" 2>/dev/null';

/**
 * Has a process group ended should this process be killed. Chromium ends by itself when its pipe closes; this is for
 * one that hangs. The answer sends the guard away, to be called once the group has ended.
 */
export function guardGroup(group: number): () => void {
  const guard = spawn('/bin/sh', ['-c', GUARD_SCRIPT, 'guard', String(group)], {
    env: { PATH: '/usr/bin:/bin' },
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  guard.on('error', () => undefined);
  guard.stdin.on('error', () => undefined);
  guard.unref();
  return () => {
    guard.kill('SIGKILL');
    guard.stdin.destroy();
  };
}

/** Whether this system tells of its processes in /proc. */
export const hasProc = fs.existsSync('/proc/self/stat');
