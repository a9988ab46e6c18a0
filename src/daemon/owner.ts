import { hostname } from 'node:os';
import type { World } from '../engine/ports.ts';
import { UserError } from '../protocol/errors.ts';
import { ourselves } from '../store/holder.ts';
import { replaceFile, type Workspace, type WorkspacePaths } from '../store/index.ts';
import { folderOwned, LARGEST_EPOCH, liveOwner, type Owner, readOwner } from '../store/owner.ts';
import { inTurn } from '../store/turns.ts';
import { rereading } from '../store/unchanged.ts';
import { realClock } from './clock.ts';
import { type Lock, tryLock } from './lock.ts';
import type { Ended } from './losses.ts';

/** How long a lock may be held by nobody we can name. A probe holds it for moments, a winner writes its name within seconds. */
const NAMELESS_MS = 10_000;

/** A workspace has an owner already. Exit code 3, and it names the first. */
export class OwnedAlready extends UserError {
  constructor(root: string, owner: Owner | undefined) {
    const who = owner
      ? `process ${owner.pid} on ${owner.host}, since ${owner.at}`
      : 'a process that has not said who it is';
    const advice = 'Use that one, or stop it with: agentctl stop (if it hangs: agentctl takeover)';
    super(`The workspace ${root} has a daemon already: ${who}. ${advice}`, 3);
    this.name = 'OwnedAlready';
  }
}

export type Ownership = World['owner'] & {
  readonly how: Owner['lock'];
  readonly epoch: number;
  /** Since when; it tells this owner from every other. */
  readonly since: string;
  /** Who owned it before, if anybody did, and how that ended. */
  readonly before: { since: string; ended: Ended } | undefined;
  /**
   * The epoch for a session whose record ends with the epoch `seen`: ours, which is raised first, durably, where the record is
   * ahead of it. So a session that was moved in from elsewhere gets no lines that its readers would void.
   */
  epochFor(seen: number): Promise<number>;
  /** Gives the workspace back. `owner.json` stays and says so: the next owner counts on from its epoch. */
  release(): Promise<void>;
};

/**
 * Makes this process the one owner of a workspace, or throws `OwnedAlready`; `owner.json` with our epoch is durable when this
 * returns. Where somebody else turns out to own it now, `onLost` is called, and then `check` throws.
 */
export async function own(workspace: Workspace, onLost: (why: Error) => void): Promise<Ownership> {
  const lock = await take(workspace.paths, onLost);
  try {
    return await named(workspace, lock, onLost);
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/** Tries again for a while where the lock is held but no owner lives: somebody starts, or only asks whether it is free. */
async function take(paths: WorkspacePaths, onLost: (why: Error) => void): Promise<Lock> {
  const end = performance.now() + NAMELESS_MS;
  for (;;) {
    const lock = await tryLock(paths, onLost);
    if (lock) return lock;
    const owner = await liveSoon(paths);
    if (owner || performance.now() > end) throw new OwnedAlready(paths.root, owner ?? onAnotherMachine(paths));
  }
}

/** The winner of a race may not have written its name yet. */
async function liveSoon(paths: WorkspacePaths): Promise<Owner | undefined> {
  for (let n = 0; n < 20; n++) {
    const owner = liveOwner(paths);
    if (owner) return owner;
    await new Promise((done) => setTimeout(done, 50));
  }
  return undefined;
}

function onAnotherMachine(paths: WorkspacePaths): Owner | undefined {
  const owner = readOwner(paths);
  return owner?.ended_at === undefined && owner?.host !== hostname() ? owner : undefined;
}

async function named(workspace: Workspace, lock: Lock, onLost: (why: Error) => void): Promise<Ownership> {
  const { paths } = workspace;
  const turn = inTurn();
  const last = readOwner(paths);
  let ours: Owner = {
    ...ourselves(new Date()),
    epoch: (await previousEpoch(workspace)) + 1,
    lock: lock.how,
    folder: folderOwned(paths),
  };
  // A write that failed half-way may have left this on file, and is no other owner's.
  let tried = ours.epoch;
  await write(paths, ours);

  const onFile = rereading(paths.owner, realClock, () => readOwner(paths));
  const check = () => {
    const now = onFile();
    if (now === undefined || now.epoch <= tried) return;
    const why = new Error(
      `${paths.owner} names process ${now.pid} on ${now.host}, epoch ${now.epoch}; ours is ${tried}`,
    );
    onLost(why);
    throw why;
  };

  const raise = async (seen: number) => {
    if (seen <= ours.epoch) return ours.epoch;
    if (seen >= LARGEST_EPOCH) {
      throw new UserError(
        `Its record names epoch ${seen}, which no daemon can have. Put a copy of it from a backup there.`,
      );
    }
    check();
    tried = seen + 1;
    await write(paths, { ...ours, epoch: tried });
    ours = { ...ours, epoch: tried };
    return ours.epoch;
  };

  return {
    how: lock.how,
    get epoch() {
      return ours.epoch;
    },
    since: ours.at,
    before: last && { since: last.at, ended: endOf(last, ours) },
    check,
    epochFor: (seen) => turn(() => raise(seen)),
    async release() {
      // Without this line the file names a process that is gone; the lock is what counts.
      const end = { ...ours, ended_at: new Date().toISOString() };
      if (readOwner(paths)?.epoch === ours.epoch) await write(paths, end).catch(() => undefined);
      await lock.release();
    },
  };
}

/** An owner that did not give the workspace back was lost: by itself, or with the whole machine. */
function endOf(last: Owner, now: Owner): Ended {
  if (last.ended_at !== undefined) return 'in order';
  const sameBoot = last.boot_id === null || last.boot_id === now.boot_id;
  // The owner of the workspace that this one is a copy of may live.
  const sameFolder = last.folder === undefined || JSON.stringify(last.folder) === JSON.stringify(now.folder);
  return sameBoot && sameFolder && last.host === now.host ? 'lost' : 'with the machine';
}

/** The epoch to count on from: never below that of a record, even where `owner.json` was deleted or makes no sense. */
async function previousEpoch(workspace: Workspace): Promise<number> {
  const owner = readOwner(workspace.paths);
  if (owner) return owner.epoch;
  let newest = 0;
  for (const name of workspace.sessions()) {
    // A record that cannot be read is told of when its session is opened.
    const last = await workspace.lastEvent(name).catch(() => undefined);
    if (last && last.epoch < LARGEST_EPOCH) newest = Math.max(newest, last.epoch);
  }
  return newest;
}

async function write(paths: WorkspacePaths, owner: Owner): Promise<void> {
  await replaceFile(paths.owner, `${JSON.stringify(owner, null, 2)}\n`, { durable: true });
}
