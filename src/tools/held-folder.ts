import * as fs from 'node:fs';
import { join, relative } from 'node:path';
import { errorCode, UserError } from '../protocol/errors.ts';
import { printable } from './file-errors.ts';
import { hasProc } from './supervisor-life.ts';

const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = fs.constants;
/** Linux opens a folder by this without the right to list it. Node has no name for it. */
const O_PATH = 0o10000000;
const FOLDER = O_DIRECTORY | O_NOFOLLOW | (process.platform === 'linux' ? O_PATH : O_RDONLY);

/** A folder held open: what is in it is reached through it, even where its path comes to mean something else. */
export type HeldFolder = {
  /** The path of a file in it; `.` is the folder itself. */
  at(name: string): string;
};

/** Which folder is wanted: below `trusted`, on the way to which nothing can be replaced by a command. Both are real paths. */
export type Wanted = { trusted: string; folder: string; make?: boolean | undefined };

type Open = HeldFolder & { close(): void };

/**
 * Opens a folder and those on its way one after the other, each through the one before it and none through a link: who swaps one of
 * them for a link gets an error, not a way out. Node has no openat, but Linux reaches what is in a folder as /proc/self/fd/N/name. Where
 * there is no /proc, paths serve, and a swap between two calls can lead astray. Throws UserError, or what the disk says.
 */
function open({ trusted, folder, make = false }: Wanted): Open {
  const parts = relative(trusted, folder).split('/').filter(Boolean);
  let at = held(fs.openSync(trusted, FOLDER), trusted);
  let path = trusted;
  for (const part of parts) {
    const parent = at;
    path = join(path, part);
    try {
      at = held(opened(parent.at(part), path, make), path);
    } finally {
      parent.close();
    }
  }
  return at;
}

function held(fd: number, path: string): Open {
  const prefix = hasProc ? `/proc/self/fd/${fd}` : path;
  return { at: (name) => `${prefix}/${name}`, close: () => fs.closeSync(fd) };
}

function opened(door: string, path: string, make: boolean): number {
  try {
    return fs.openSync(door, FOLDER);
  } catch (error) {
    const code = errorCode(error);
    if (code === 'ELOOP' || (code === 'ENOTDIR' && isLink(door))) {
      throw new UserError(`\`${printable(path)}\` changed while it was opened.`);
    }
    if (code !== 'ENOENT' || !make) throw error;
  }
  try {
    fs.mkdirSync(door);
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error;
  }
  return opened(door, path, false);
}

function isLink(path: string): boolean {
  return fs.lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
}

/** Runs `job` with a folder held open. */
export function inFolder<T>(wanted: Wanted, job: (folder: HeldFolder) => T): T {
  const folder = open(wanted);
  try {
    return job(folder);
  } finally {
    folder.close();
  }
}

/** The same for a job that takes its time. */
export async function inFolderLong<T>(wanted: Wanted, job: (folder: HeldFolder) => Promise<T>): Promise<T> {
  const folder = open(wanted);
  try {
    return await job(folder);
  } finally {
    folder.close();
  }
}
