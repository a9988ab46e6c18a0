import { type ChildProcess, spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { hostname } from 'node:os';
import { formatLocalTime } from '../../base/strings.ts';
import { errorCode, UserError } from '../../base/user-error.ts';
import { StartedWith } from '../../protocol/workspace/daemon-files.ts';
import { replaceFile } from '../../store/fs/durable-write.ts';
import { readJsonFile } from '../../store/fs/file-reads.ts';
import { wrapDiskErrors } from '../../store/fs/store-errors.ts';
import type { WorkspacePaths } from '../../store/layout/layout.ts';
import {
  isLockFree,
  isProcessAlive,
  readLiveOwner,
  readOwner,
  readOwnerElsewhere,
  type WorkspaceOwner,
} from '../../store/workspace/owner-file.ts';
import { commandLine, DaemonState, WaitedTooLong } from '../sessions/client-errors.ts';

/** Time limits for a daemon to check every inbox, and to end its calls and exit. */
const START_MS = 60_000;
const STOP_MS = 20_000;
const POLL_MS = 50;

/**
 * The daemon's program and the flags it is started with, besides `--workspace`. `variables`: names of those set that it
 * may read, to be compared at the next start.
 */
export type DaemonLaunch = { program: string; args: string[]; variables?: string[] };

/** What the daemon was last started with; undefined where that is not known, or its file cannot be read. */
export function readLastStart({ started }: WorkspacePaths): StartedWith | undefined {
  return readJsonFile(started, StartedWith);
}

/**
 * Starts a daemon that outlives this process, its log in `.agentd/daemon.log`, and returns once it serves every
 * session. Throws `DaemonState` if one is running already, with its output if it exited at once.
 */
export async function launchDaemon(
  paths: WorkspacePaths,
  { program, args, variables = [] }: DaemonLaunch,
): Promise<WorkspaceOwner> {
  refuseElsewhere(paths, 'stop it there first');
  const there = readLiveOwner(paths);
  if (there)
    throw new DaemonState(`A daemon is already running: process ${there.pid}, since ${formatLocalTime(there.at)}.`);
  const log = wrapDiskErrors('open', paths.log, () => fs.openSync(paths.log, 'a', 0o600));
  const before = fs.fstatSync(log).size;
  const child = spawn(process.execPath, [program, '--workspace', paths.root, ...args], {
    detached: true,
    cwd: paths.root,
    // Four threads, Node's default, are all busy with four writes to a slow disk (Node reads this before any of our
    // code runs).
    env: { UV_THREADPOOL_SIZE: '16', ...process.env },
    stdio: ['ignore', 'pipe', log],
  });
  fs.closeSync(log);
  const ready = await waitUntilReady(child);
  child.stdout?.destroy();
  child.unref();
  if (ready === 'ready') {
    // On a full disk, the daemon that runs matters more.
    await replaceFile(paths.started, `${JSON.stringify({ args, variables })}\n`).catch(() => {});
    return requireOwner(paths);
  }
  if (ready === 'late') {
    child.kill('SIGTERM');
    throw new WaitedTooLong(`The daemon was not ready within ${START_MS / 1000} s and was stopped. Log: ${paths.log}`);
  }
  const failure = `The daemon exited at once (exit ${ready.exit}):\n${logSince(paths.log, before)}`;
  throw ready.exit === 3 ? new DaemonState(failure) : new UserError(failure);
}

/** Throws `DaemonState` if the daemon runs on another host or in another container. */
export function refuseElsewhere(paths: WorkspacePaths, todo: string): void {
  const owner = readOwnerElsewhere(paths);
  if (owner)
    throw new DaemonState(
      `A daemon on ${owner.host} (process ${owner.pid} there) has ${paths.root}, since ${formatLocalTime(owner.at)}: ${todo}.`,
    );
}

function requireOwner(paths: WorkspacePaths): WorkspaceOwner {
  const owner = readLiveOwner(paths);
  if (owner) return owner;
  throw new DaemonState(`The daemon was ready but has exited since. Log: ${paths.log}`);
}

/** Waits for the daemon's ready line, or its end. */
function waitUntilReady(child: ChildProcess): Promise<'ready' | 'late' | { exit: number | string }> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve('late'), START_MS);
    const done = (how: 'ready' | { exit: number | string }) => {
      clearTimeout(timer);
      resolve(how);
    };
    let output = '';
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      if (/^READY .*\n/m.test(output)) done('ready');
    });
    child.once('error', (error) => done({ exit: error.message }));
    child.once('exit', (code, signal) => done({ exit: code ?? signal ?? 'unknown' }));
  });
}

/** What was written to the log since: messages for people first, if there are any. */
function logSince(log: string, before: number): string {
  const all = fs.readFileSync(log);
  // The daemon may have begun a new file.
  const lines = all
    .subarray(all.length < before ? 0 : before)
    .toString()
    .trim()
    .split('\n');
  const words = lines.filter((line) => !line.startsWith('{'));
  return (words.length > 0 ? words : lines).slice(-20).join('\n') || `It logged nothing. Log: ${log}`;
}

/** Asks the daemon to stop and waits until it has. Throws `DaemonState` if none is running. */
export async function stopDaemon(paths: WorkspacePaths): Promise<WorkspaceOwner> {
  refuseElsewhere(paths, 'stop it there');
  const owner = readLiveOwner(paths);
  if (!owner) throw new DaemonState(`No daemon is running for ${paths.root}.`);
  process.kill(owner.pid, 'SIGTERM');
  const deadline = performance.now() + STOP_MS;
  while (isProcessAlive(owner)) {
    if (performance.now() > deadline) {
      throw new WaitedTooLong(
        `Process ${owner.pid} did not stop within ${STOP_MS / 1000} s. If it hangs: ${commandLine(paths.root, ['takeover'])}. Nothing is lost.`,
      );
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  return owner;
}

/** How long the kernel may take to end a killed process and free the lock; a disk may delay it. */
const KILL_TIMEOUT_MS = 10_000;

export type TakeoverResult = {
  owner: WorkspaceOwner;
  /** Which signal ended it. */
  by: 'SIGTERM' | 'SIGKILL';
  /** Who owns the workspace now, such as a daemon restarted by its supervisor. */
  next: WorkspaceOwner | undefined;
};

/**
 * Ends an unresponsive owner: SIGTERM, `graceMs`, SIGKILL, and waits until the workspace is free. Starts nothing.
 * Signals only the very process `owner.json` names (number, start, boot), checked again before each signal; a short gap
 * between check and signal remains, since Node has no pidfd. Throws `DaemonState` if there is no owner that can be
 * ended here.
 */
export async function takeOverWorkspace(
  paths: WorkspacePaths,
  { graceMs }: { graceMs: number },
): Promise<TakeoverResult> {
  const owner = ownerToEnd(paths);
  let by: TakeoverResult['by'] = 'SIGTERM';
  sendSignal(owner, by);
  if (!(await waitUntil(graceMs, () => !isProcessAlive(owner)))) {
    by = 'SIGKILL';
    sendSignal(owner, by);
  }
  if (!(await waitUntil(KILL_TIMEOUT_MS, () => !isProcessAlive(owner)))) {
    throw new WaitedTooLong(
      `Process ${owner.pid} was killed but still exists after ${KILL_TIMEOUT_MS / 1000} s: it is blocked in the kernel, most likely on a disk that does not respond.`,
    );
  }
  const isFree = await waitUntil(KILL_TIMEOUT_MS, () => readLiveOwner(paths) !== undefined || isLockFree(paths));
  if (!isFree) throw new WaitedTooLong(`Process ${owner.pid} has ended, but ${unknownHolderText(paths)}`);
  return { owner, by, next: readLiveOwner(paths) };
}

function ownerToEnd(paths: WorkspacePaths): WorkspaceOwner {
  const owner = readOwner(paths);
  const live = readLiveOwner(paths);
  if (live && live.start_time !== null) return live;
  if (live) {
    throw new UserError(
      `This system does not report when process ${live.pid} started, so it may be another program by now. If it is agentd: kill -9 ${live.pid}. Nothing is lost.`,
    );
  }
  if (isLockFree(paths)) {
    throw new DaemonState(
      `No daemon owns ${paths.root}: there is nothing to take over. Start one with: ${commandLine(paths.root, ['start'])}`,
    );
  }
  if (owner && owner.ended_at === undefined && owner.host !== hostname()) {
    throw new DaemonState(
      `${paths.root} is owned by process ${owner.pid} on ${owner.host}, since ${formatLocalTime(owner.at)}. Run agentctl takeover there.`,
    );
  }
  throw new DaemonState(capitalize(unknownHolderText(paths)));
}

const unknownHolderText = ({ lock, owner }: WorkspacePaths) =>
  `a process that is not named in ${owner} holds the lock. If a daemon is starting, try again in a moment; otherwise find the process: fuser -v ${lock}`;

const capitalize = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

function sendSignal(owner: WorkspaceOwner, name: 'SIGTERM' | 'SIGKILL'): void {
  if (!isProcessAlive(owner)) return;
  try {
    process.kill(owner.pid, name);
  } catch (error) {
    if (errorCode(error) === 'ESRCH') return;
    if (errorCode(error) !== 'EPERM') throw error;
    throw new UserError(`Process ${owner.pid} belongs to another user. Run this as that user, or as root.`);
  }
}

/** Whether a condition becomes true within `ms`; checked at least once. */
async function waitUntil(ms: number, isTrue: () => boolean): Promise<boolean> {
  const end = performance.now() + ms;
  while (!isTrue()) {
    if (performance.now() > end) return false;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  return true;
}
