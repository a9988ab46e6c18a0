import * as fs from 'node:fs';
import { hostname } from 'node:os';
import { createMutex } from '../../base/async.ts';
import { formatLocalTime } from '../../base/strings.ts';
import { errorCode, UserError } from '../../base/user-error.ts';
import type { SessionPorts } from '../../engine/ports/session-ports.ts';
import { replaceOrOverwriteFile } from '../../store/fs/durable-write.ts';
import { cachedRead } from '../../store/fs/file-reads.ts';
import { ifExists } from '../../store/fs/store-errors.ts';
import type { Workspace, WorkspacePaths } from '../../store/index.ts';
import {
  currentProcess,
  LOCK_FOLDER_STALE_MS,
  MAX_EPOCH,
  openLockFile,
  ownedFolderOf,
  readLiveOwner,
  readOwner,
  tryLockFile,
  type WorkspaceOwner,
} from '../../store/workspace/owner-file.ts';
import { realClock } from './clock.ts';

/**
 * How long a lock may be held without an identified owner. A probe holds it for moments; a new owner writes its name
 * within seconds.
 */
const UNNAMED_LOCK_MS = 10_000;
/** How often a daemon checks that the workspace is still its own, apart from its writes and calls. */
const CHECK_MS = 1000;

/** The workspace already has an owner, which the message names. Exit code 3. */
export class AlreadyOwnedError extends UserError {
  constructor(root: string, owner: WorkspaceOwner | undefined) {
    const who = owner
      ? `process ${owner.pid} on ${owner.host}, since ${formatLocalTime(owner.at)}`
      : 'an unknown process';
    const advice = 'Use that one, or stop it with: agentctl stop (if it hangs: agentctl takeover)';
    super(`The workspace ${root} already has a daemon: ${who}. ${advice}`, 3);
  }
}

export type WorkspaceOwnership = SessionPorts['owner'] & {
  readonly lockKind: WorkspaceOwner['lock'];
  readonly epoch: number;
  /** Start of the ownership; identifies this owner. */
  readonly since: string;
  /** The previous owner, if any, and how it ended. */
  readonly previous: { since: string; epoch: number; ended: PreviousEnd } | undefined;
  /**
   * The epoch for a session whose event log ends with epoch `seen`: ours, durably raised first if the log is ahead of
   * it. So a session moved in from elsewhere gets no events that its readers would void.
   */
  epochFor(seen: number): Promise<number>;
  /** Releases the workspace. `owner.json` stays and says so: the next owner continues from its epoch. */
  release(): Promise<void>;
};

/**
 * Makes this process the only owner of a workspace, or throws `AlreadyOwnedError`; `owner.json` with our epoch is
 * durable when this returns. If another owner appears later, `onLost` is called, and then `check` throws.
 */
export async function takeOwnership(workspace: Workspace, onLost: (why: Error) => void): Promise<WorkspaceOwnership> {
  const lock = await acquireLock(workspace.paths, onLost);
  try {
    return await claimWorkspace(workspace, lock, onLost);
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/** Retries for a while if the lock is held but no owner lives: another daemon is starting, or probing the lock. */
async function acquireLock(paths: WorkspacePaths, onLost: (why: Error) => void): Promise<WorkspaceLock> {
  const end = performance.now() + UNNAMED_LOCK_MS;
  for (;;) {
    const lock = await tryWorkspaceLock(paths, onLost);
    if (lock) return lock;
    const owner = await waitForLiveOwner(paths);
    if (owner || performance.now() > end) throw new AlreadyOwnedError(paths.root, owner ?? ownerOnOtherHost(paths));
  }
}

/** The winner of a race may not have written its name yet. */
async function waitForLiveOwner(paths: WorkspacePaths): Promise<WorkspaceOwner | undefined> {
  for (let n = 0; n < 20; n++) {
    const owner = readLiveOwner(paths);
    if (owner) return owner;
    await new Promise((done) => setTimeout(done, 50));
  }
  return undefined;
}

function ownerOnOtherHost(paths: WorkspacePaths): WorkspaceOwner | undefined {
  const owner = readOwner(paths);
  return owner?.ended_at === undefined && owner?.host !== hostname() ? owner : undefined;
}

async function claimWorkspace(
  workspace: Workspace,
  lock: WorkspaceLock,
  onLost: (why: Error) => void,
): Promise<WorkspaceOwnership> {
  const { paths } = workspace;
  const inOrder = createMutex();
  const last = readOwner(paths);
  let ours: WorkspaceOwner = {
    ...currentProcess(new Date()),
    epoch: (await findPreviousEpoch(workspace)) + 1,
    lock: lock.kind,
    folder: ownedFolderOf(paths),
  };
  // A write that failed half-way may have left this in the file; it is not another owner's.
  let lastWrittenEpoch = ours.epoch;
  await writeOwnerFile(paths, ours);

  const readOwnerCached = cachedRead(paths.owner, realClock, () => readOwner(paths));
  const check = () => {
    const why = whyLost(readOwnerCached(), { ...ours, epoch: lastWrittenEpoch }, paths, lock);
    if (why === undefined) return;
    clearInterval(timer);
    const error = new Error(why);
    onLost(error);
    throw error;
  };
  /** While the lock keeps others out, only damage can have removed our name. */
  const restoreName = async () => {
    if (readOwner(paths) === undefined && lock.isNamed()) await writeOwnerFile(paths, ours);
  };
  // A daemon with nothing to do notices as well.
  const timer = setInterval(() => {
    try {
      check();
      if (readOwnerCached() === undefined) inOrder(restoreName).catch(() => undefined);
    } catch {
      // `onLost` has been called, or the file cannot be looked at: as with a name that was not restored, it is tried
      // again a second later.
    }
  }, CHECK_MS);
  timer.unref();

  const raiseEpoch = async (seen: number) => {
    if (seen <= ours.epoch) return ours.epoch;
    if (seen >= MAX_EPOCH) {
      throw new UserError(`Its event log names epoch ${seen}, which no daemon can have. Restore a copy from a backup.`);
    }
    check();
    lastWrittenEpoch = seen + 1;
    await writeOwnerFile(paths, { ...ours, epoch: lastWrittenEpoch });
    ours = { ...ours, epoch: lastWrittenEpoch };
    return ours.epoch;
  };

  return {
    lockKind: lock.kind,
    get epoch() {
      return ours.epoch;
    },
    since: ours.at,
    previous: last && { since: last.at, epoch: last.epoch, ended: previousEndOf(last, ours) },
    check,
    epochFor: (seen) => inOrder(() => raiseEpoch(seen)),
    async release() {
      // Without this line the file names a process that has ended; the lock is what counts.
      clearInterval(timer);
      const end = { ...ours, ended_at: new Date().toISOString() };
      if (isSameOwner(readOwner(paths), ours)) await writeOwnerFile(paths, end).catch(() => undefined);
      await lock.release();
    },
  };
}

/** Why the workspace is no longer `ours`; undefined if it is. `named`: the owner in the file. */
function whyLost(
  named: WorkspaceOwner | undefined,
  ours: WorkspaceOwner,
  paths: WorkspacePaths,
  lock: WorkspaceLock,
): string | undefined {
  if (isReplaced(paths, ours))
    return `the folder ${paths.root} was replaced by another one, such as a backup, while this daemon served it`;
  if (named !== undefined)
    return isSameOwner(named, ours) && named.epoch <= ours.epoch
      ? undefined
      : `${paths.owner} names process ${named.pid} on ${named.host}, epoch ${named.epoch}; this daemon has epoch ${ours.epoch}`;
  // A workspace that was moved away as a whole may come back.
  if (!fs.existsSync(paths.owner) && !lock.isNamed() && fs.existsSync(paths.root))
    return `${paths.own} was removed while this daemon served the workspace, so that nobody could see that it is served`;
  return undefined;
}

const isSameOwner = (one: WorkspaceOwner | undefined, other: WorkspaceOwner): boolean =>
  one?.pid === other.pid && one.at === other.at;

/** Whether another folder is now where the owned one was; one that was moved away may come back. */
function isReplaced(paths: WorkspacePaths, { folder }: WorkspaceOwner): boolean {
  const now = ifExists(() => ownedFolderOf(paths));
  return now !== undefined && folder !== undefined && (now.dev !== folder.dev || now.ino !== folder.ino);
}

/** An owner that did not release the workspace was lost: alone, or with the whole machine. */
function previousEndOf(last: WorkspaceOwner, now: WorkspaceOwner): PreviousEnd {
  if (last.ended_at !== undefined) return 'in order';
  const sameBoot = last.boot_id === null || last.boot_id === now.boot_id;
  // If this workspace is a copy, the owner of the original may still be running.
  const sameFolder = last.folder === undefined || JSON.stringify(last.folder) === JSON.stringify(now.folder);
  return sameBoot && sameFolder && last.host === now.host ? 'lost' : 'with the machine';
}

/** The epoch to continue from: never below that of an event log, even if `owner.json` was deleted or is invalid. */
async function findPreviousEpoch(workspace: Workspace): Promise<number> {
  const owner = readOwner(workspace.paths);
  if (owner) return owner.epoch;
  let newest = 0;
  for (const name of workspace.listSessions()) {
    // An unreadable event log is reported when its session is opened.
    const last = await workspace.lastEvent(name).catch(() => undefined);
    if (last && last.epoch < MAX_EPOCH) newest = Math.max(newest, last.epoch);
  }
  return newest;
}

async function writeOwnerFile(paths: WorkspacePaths, owner: WorkspaceOwner): Promise<void> {
  await replaceOrOverwriteFile(paths.owner, `${JSON.stringify(owner, null, 2)}\n`);
}

type WorkspaceLock = {
  kind: WorkspaceOwner['lock'];
  /** The locked file still has its name; if not, the lock excludes nobody. */
  isNamed(): boolean;
  release(): Promise<void>;
};

/**
 * The lock of a workspace, if it is free: a kernel lock on a descriptor that stays open; without a program to take
 * that, a lock folder with a heartbeat, in which case `onLost` is called when it was taken away. A lock on a file that
 * lost its name excludes nobody, nor does one beside an owner that uses the other kind: both count as not acquired.
 */
async function tryWorkspaceLock(
  paths: WorkspacePaths,
  onLost: (why: Error) => void,
): Promise<WorkspaceLock | undefined> {
  const fd = openLockFile(paths);
  let folder: (() => Promise<void>) | undefined;
  const release = async () => {
    await folder?.();
    fs.closeSync(fd);
  };
  try {
    const kernel = tryLockFile(fd);
    if (kernel.is === 'missing') folder = await tryLockFolder(paths, onLost);
    const isOurs = kernel.is === 'ours' || folder !== undefined;
    const isNamed = () => isFileAt(fd, paths.lock);
    if (isOurs && isNamed() && !isOwnedByAnother(paths)) {
      return { kind: kernel.is === 'ours' ? kernel.by : 'folder', isNamed, release };
    }
    await release();
    return undefined;
  } catch (error) {
    await release();
    throw error;
  }
}

function isFileAt(fd: number, path: string): boolean {
  return fs.fstatSync(fd).ino === fs.lstatSync(path, { throwIfNoEntry: false })?.ino;
}

function isOwnedByAnother(paths: WorkspacePaths): boolean {
  const owner = readLiveOwner(paths);
  return owner !== undefined && owner.pid !== process.pid;
}

async function tryLockFolder(
  paths: WorkspacePaths,
  onLost: (why: Error) => void,
): Promise<(() => Promise<void>) | undefined> {
  try {
    const options = { stale: LOCK_FOLDER_STALE_MS, update: 5_000, realpath: false, onCompromised: onLost };
    // Loaded only if the kernel's lock is not available: it brings ten files along.
    const { default: lockfile } = await import('proper-lockfile');
    return await lockfile.lock(paths.lock, options);
  } catch (error) {
    if (errorCode(error) === 'ELOCKED') return undefined;
    throw error;
  }
}

/** How the last daemon of this workspace ended. `with the machine`: together with the system it ran on. */
export type PreviousEnd = 'in order' | 'lost' | 'with the machine';
