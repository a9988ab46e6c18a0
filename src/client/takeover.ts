import { hostname } from 'node:os';
import { errorCode, UserError } from '../protocol/errors.ts';
import { lives } from '../store/holder.ts';
import { isLockFree } from '../store/kernel-lock.ts';
import type { WorkspacePaths } from '../store/layout.ts';
import { liveOwner, type Owner, readOwner } from '../store/owner.ts';
import { DaemonState, WaitedTooLong } from './errors.ts';

/** How long the kernel may take to end a process that was killed, and the lock to be free; a disk may hold it up. */
const KERNEL_MS = 10_000;
const POLL_MS = 50;

export type TakenOver = {
  owner: Owner;
  /** What ended it. */
  by: 'SIGTERM' | 'SIGKILL';
  /** Who owns the workspace by now, such as a daemon that is started again by itself. */
  next: Owner | undefined;
};

/**
 * Ends an owner that hangs: SIGTERM, `graceMs`, SIGKILL, and waits until the workspace is free. Starts nothing. Signals only the
 * very process `owner.json` names (number, start, boot), looked at again before each signal; what is left is the moment between
 * that look and the signal, since Node has no pidfd. Throws `DaemonState` where there is no owner that can be ended here.
 */
export async function takeOver(paths: WorkspacePaths, { graceMs }: { graceMs: number }): Promise<TakenOver> {
  const owner = ownerToEnd(paths);
  let by: TakenOver['by'] = 'SIGTERM';
  signal(owner, by);
  if (!(await within(graceMs, () => !lives(owner)))) {
    by = 'SIGKILL';
    signal(owner, by);
  }
  if (!(await within(KERNEL_MS, () => !lives(owner)))) {
    throw new WaitedTooLong(
      `Process ${owner.pid} was killed and is still there after ${KERNEL_MS / 1000} s: it waits for the kernel, most likely for a disk that does not answer.`,
    );
  }
  const isFree = await within(KERNEL_MS, () => liveOwner(paths) !== undefined || isLockFree(paths));
  if (!isFree) throw new WaitedTooLong(`Process ${owner.pid} has ended, but ${heldByNobody(paths)}`);
  return { owner, by, next: liveOwner(paths) };
}

function ownerToEnd(paths: WorkspacePaths): Owner {
  const owner = readOwner(paths);
  const live = liveOwner(paths);
  if (live && live.start_time !== null) return live;
  if (live) {
    throw new UserError(
      `This system does not tell when process ${live.pid} began, so it may be another program by now. If it is agentd: kill -9 ${live.pid}. Nothing is lost by that.`,
    );
  }
  if (isLockFree(paths)) {
    throw new DaemonState(
      `No daemon owns ${paths.root}: there is nothing to take over. Start one with: agentctl start`,
    );
  }
  if (owner && owner.ended_at === undefined && owner.host !== hostname()) {
    throw new DaemonState(
      `${paths.root} is owned by process ${owner.pid} on ${owner.host}, since ${owner.at}. Run agentctl takeover there.`,
    );
  }
  throw new DaemonState(upper(heldByNobody(paths)));
}

const heldByNobody = ({ lock, owner }: WorkspacePaths) =>
  `a process that ${owner} does not name holds the lock. If a daemon is starting, try again in a moment; otherwise see who it is with: fuser -v ${lock}`;

const upper = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

function signal(owner: Owner, name: 'SIGTERM' | 'SIGKILL'): void {
  if (!lives(owner)) return;
  try {
    process.kill(owner.pid, name);
  } catch (error) {
    if (errorCode(error) === 'ESRCH') return;
    if (errorCode(error) !== 'EPERM') throw error;
    throw new UserError(`Process ${owner.pid} belongs to another user. Run this as that user, or as root.`);
  }
}

/** Whether something comes to hold within `ms`; looked at once at least. */
async function within(ms: number, holds: () => boolean): Promise<boolean> {
  const end = performance.now() + ms;
  while (!holds()) {
    if (performance.now() > end) return false;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  return true;
}
