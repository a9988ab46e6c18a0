import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { rm } from 'node:fs/promises';
import { hostname } from 'node:os';
import lockfile from 'proper-lockfile';
import { errorCode, errorText, UserError } from '../protocol/errors.ts';
import { replaceFile, type WorkspacePaths } from '../store/index.ts';
import { bootId, type Owner, readOwner, startTime } from '../store/owner.ts';

/** A workspace has an owner already. Exit code 3, and it names the first. */
export class OwnedAlready extends UserError {
  constructor(root: string, owner: Owner | undefined) {
    const who = owner
      ? `process ${owner.pid} on ${owner.host}, since ${owner.at}`
      : 'a process that has not said who it is yet';
    super(`The workspace ${root} has a daemon already: ${who}. Use that one, or stop it with: agentctl stop`, 3);
    this.name = 'OwnedAlready';
  }
}

export type Ownership = { how: 'flock' | 'lock folder'; release(): Promise<void> };

/**
 * Makes this process the one owner of a workspace, or throws `OwnedAlready`. The lock is the kernel's (flock on a descriptor we
 * keep open): it cannot be stolen while we stall, and is gone the moment we die. `flock` is util-linux's; where there is none
 * a lock folder with a heartbeat serves, and `onLost` is called when that was taken away.
 */
export async function own(paths: WorkspacePaths, onLost: (why: Error) => void): Promise<Ownership> {
  const fd = openLock(paths);
  try {
    const how = kernelLock(fd);
    if (how === 'held') throw new OwnedAlready(paths.root, await ownerInWords(paths));
    const folder = how === 'missing' ? await lockFolder(paths, onLost) : null;
    await replaceFile(paths.owner, `${JSON.stringify(self(), null, 2)}\n`, { durable: true });
    return {
      how: folder ? 'lock folder' : 'flock',
      async release() {
        // A name left behind names a process that is gone; the lock is what counts.
        await rm(paths.owner, { force: true }).catch(() => undefined);
        await folder?.();
        fs.closeSync(fd);
      },
    };
  } catch (error) {
    fs.closeSync(fd);
    throw error;
  }
}

function openLock(paths: WorkspacePaths): number {
  try {
    return fs.openSync(paths.lock, fs.constants.O_RDWR | fs.constants.O_CREAT | fs.constants.O_NOFOLLOW, 0o600);
  } catch (error) {
    throw new UserError(`Could not take the workspace ${paths.root}: ${errorText(error)}`);
  }
}

/** The helper locks the open file it inherits, so the lock is ours and outlives the helper. */
function kernelLock(fd: number): 'ours' | 'held' | 'missing' {
  const helper = spawnSync('flock', ['-n', '3'], { stdio: ['ignore', 'ignore', 'ignore', fd] });
  if (helper.error) {
    if (errorCode(helper.error) === 'ENOENT') return 'missing';
    throw helper.error;
  }
  return helper.status === 0 ? 'ours' : 'held';
}

async function lockFolder(paths: WorkspacePaths, onLost: (why: Error) => void): Promise<() => Promise<void>> {
  try {
    return await lockfile.lock(paths.lock, { stale: 20_000, update: 5_000, realpath: false, onCompromised: onLost });
  } catch (error) {
    if (errorCode(error) === 'ELOCKED') throw new OwnedAlready(paths.root, readOwner(paths));
    throw error;
  }
}

/** The winner of a race may not have written its name yet. */
async function ownerInWords(paths: WorkspacePaths): Promise<Owner | undefined> {
  for (let n = 0; n < 20; n++) {
    const owner = readOwner(paths);
    if (owner) return owner;
    await new Promise((done) => setTimeout(done, 50));
  }
  return undefined;
}

function self(): Owner {
  return {
    version: 1,
    pid: process.pid,
    start_time: startTime(process.pid),
    boot_id: bootId(),
    host: hostname(),
    at: new Date().toISOString(),
  };
}
