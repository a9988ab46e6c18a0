import { type ChildProcess, spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { attempt, errorCode, UserError } from '../../base/user-error.ts';
import { hasProc } from '../../store/fs/process-identity.ts';

/** How long processes may take to end between SIGTERM and SIGKILL; shorter after an abort. */
const GRACE_MS = 2000;
const ABORT_GRACE_MS = 500;
/** How long processes that outlive the first may take to end by themselves. */
export const LINGER_MS = 200;
const POLL_MS = 10;

/**
 * What outlived the first process. A process that left the group (setsid) can keep the output open and cannot be ended.
 */
export type LeftBehind = 'nothing' | 'ended' | 'out of reach';

/** How a command ended: by its time limit, or by itself with an exit code or a signal. */
export type CommandEnd =
  | { how: 'timeout' }
  | { how: 'exit'; code: number | null; signal: NodeJS.Signals | null; leftBehind: LeftBehind };

/**
 * Ends what the first process left behind. `closed` resolves once nobody has the output open. If that is so already
 * (`isClosed`), the group gets a moment to end by itself.
 */
export async function endLeftBehind(group: number, closed: Promise<unknown>, isClosed: boolean): Promise<LeftBehind> {
  const runs = isClosed ? !(await waitUntil(() => !isGroupRunning(group), LINGER_MS)) : isGroupRunning(group);
  if (runs) await endGroup(group, AbortSignal.abort());
  const isClosedNow = await settlesWithinLinger(closed);
  if (runs) return 'ended';
  return isClosedNow ? 'nothing' : 'out of reach';
}

/** SIGTERM, a grace period, SIGKILL; the period is short once `hurry` is aborted. */
export async function endGroup(group: number, hurry: AbortSignal): Promise<void> {
  signalGroup(group, 'SIGTERM');
  const gone = () => !isGroupRunning(group);
  if (!hurry.aborted) await waitUntil(() => hurry.aborted || gone(), GRACE_MS);
  if (hurry.aborted) await waitUntil(gone, ABORT_GRACE_MS);
  signalGroup(group, 'SIGKILL');
  await waitUntil(gone, LINGER_MS);
}

/** Kills a group at once, without a chance to clean up. */
export const killGroup = (group: number): void => signalGroup(group, 'SIGKILL');

function signalGroup(group: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-group, signal);
  } catch {
    // The group is empty, or this user may not signal it.
  }
}

/**
 * Whether a process of the group still runs. A zombie does not: its parent may never reap it, as pid 1 of many
 * containers. Without /proc, signalling a group of zombies fails by itself (macOS). One whose processes cannot be
 * listed counts as running.
 */
export function isGroupRunning(group: number): boolean {
  try {
    process.kill(-group, 0);
  } catch {
    return false;
  }
  return !hasProc || listProcesses()?.some((pid) => isRunningMember(pid, group)) !== false;
}

/** Undefined if they cannot be listed, as while too many files are open. */
function listProcesses(): string[] | undefined {
  return attempt(() => fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name)));
}

/** Longer than any `stat` line; reused, as there may be hundreds to read at once (twice as fast as `readFileSync`). */
const statBuffer = Buffer.alloc(2048);

function readProcStat(pid: string): string {
  const fd = fs.openSync(`/proc/${pid}/stat`, 'r');
  try {
    return statBuffer.toString('latin1', 0, fs.readSync(fd, statBuffer));
  } finally {
    fs.closeSync(fd);
  }
}

function isRunningMember(pid: string, group: number): boolean {
  try {
    const stat = readProcStat(pid);
    // The fields after the program's name, which may itself contain spaces and brackets: state, parent, group.
    const [state, , itsGroup] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return Number(itsGroup) === group && state !== 'Z';
  } catch {
    return false;
  }
}

/** Whether it resolves within `LINGER_MS`. */
export function settlesWithinLinger(closed: Promise<unknown>): Promise<boolean> {
  return Promise.race([closed.then(() => true), sleep(LINGER_MS, false, { ref: false })]);
}

/** Waits until a condition is true, at most `ms`; returns whether it is. */
export async function waitUntil(isTrue: () => boolean, ms: number): Promise<boolean> {
  for (let waited = 0; waited < ms; waited += POLL_MS) {
    if (isTrue()) return true;
    await sleep(POLL_MS);
  }
  return isTrue();
}

/** A descriptor in use above the limit on open files shows as EINVAL. */
function spawnedChild<Child>(start: () => Child): Child {
  try {
    return start();
  } catch (error) {
    if (errorCode(error) !== 'EINVAL') throw error;
    throw new UserError(
      'No program can be started: the limit on open files is too low. Raise it (ulimit -n) and restart the daemon.',
    );
  }
}

/**
 * A child as it was spawned. Throws if no file descriptor was left: Node then returns one without streams, and emits
 * its 'error' later, which would end the daemon, because whoever spawned it has failed before listening.
 */
export function startedChild<Child extends ChildProcess>(start: () => Child): Child {
  const child = spawnedChild(start);
  if (child.stdio !== undefined) return child;
  child.on('error', () => undefined);
  throw Object.assign(new Error('No program can be started: too many files are open.'), { code: 'EMFILE' });
}

/** Ends a group once its own input closes, which happens however the daemon ends. */
const GUARD_SCRIPT =
  'read -r _; sleep 1; kill -TERM "-$1" 2>/dev/null || exit 0; sleep 2; kill -KILL "-$1" 2>/dev/null';

/**
 * Makes sure that a process group ends if this process is killed: a browser or MCP server that hangs does not notice
 * that its pipe has closed. The returned function dismisses the guard; call it once the group has ended.
 */
export function guardGroup(group: number): () => void {
  const guard = spawn('/bin/sh', ['-c', GUARD_SCRIPT, 'agentd-guard', String(group)], {
    env: { PATH: '/usr/bin:/bin' },
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  // Without a guard, the closed pipe must suffice.
  guard.on('error', () => undefined);
  // One that was not started has no streams if no file descriptor was left, and `kill` would signal this process group.
  if (guard.pid === undefined) return () => undefined;
  guard.stdin.on('error', () => undefined);
  guard.unref();
  return () => {
    guard.kill('SIGKILL');
    guard.stdin.destroy();
  };
}

const CGROUP_ROOT = '/sys/fs/cgroup';
const GROUP_NAME = /^agentd-(\d+)-\d+$/;

/** A control group that limits the processes of one command. */
export type ControlGroup = { folder: string; release(): void };

let groupCount = 0;

/**
 * A folder where control groups that count processes can be created; undefined if there is none. Removes groups left by
 * earlier daemons.
 */
export function findControlGroupParent(): string | undefined {
  const parent = candidateParents().find((folder) => {
    const group = createControlGroup(folder, 16);
    group?.release();
    return group;
  });
  if (parent !== undefined) {
    for (const name of fs.readdirSync(parent).filter(isStale)) removeFolder(join(parent, name));
  }
  return parent;
}

/** A new control group with a process limit; null if none can be created. */
export function createControlGroup(parent: string, most: number): ControlGroup | null {
  const folder = join(parent, `agentd-${process.pid}-${++groupCount}`);
  try {
    fs.mkdirSync(folder);
  } catch {
    return null;
  }
  try {
    fs.writeFileSync(join(folder, 'pids.max'), String(most), { flag: 'r+' });
  } catch {
    removeFolder(folder);
    return null;
  }
  return { folder, release: () => removeFolder(folder) };
}

/** Removes the control group of a command that has ended; `folder` is empty if it had none. */
export function removeControlGroup(folder: string): void {
  if (folder !== '') removeFolder(folder);
}

/**
 * The daemon's own group, or one beside it: in version 2 a group that has processes cannot have counting groups below
 * it.
 */
function candidateParents(): string[] {
  const lines = readOrEmpty('/proc/self/cgroup').split('\n');
  const [own] = lines.flatMap((line) => /^\d+:(?:[\w,]+,)?pids(?:,[\w,]+)?:(.*)$/.exec(line)?.[1] ?? []);
  if (own !== undefined) return [join(CGROUP_ROOT, 'pids', own)];
  const [unified] = lines.flatMap((line) => /^0::(.*)$/.exec(line)?.[1] ?? []);
  return unified === undefined ? [] : [join(CGROUP_ROOT, unified), join(CGROUP_ROOT, dirname(unified))];
}

function isStale(name: string): boolean {
  const pid = GROUP_NAME.exec(name)?.[1];
  return pid !== undefined && !fs.existsSync(`/proc/${pid}`);
}

/** A group that still has processes stays, and is removed at a later start. */
function removeFolder(folder: string): void {
  try {
    fs.rmdirSync(folder);
  } catch {
    // It is busy, or gone.
  }
}

function readOrEmpty(path: string): string {
  return attempt(() => fs.readFileSync(path, 'utf8')) ?? '';
}
