import * as fs from 'node:fs';
import { basename } from 'node:path';
import { errorCode, UserError } from '../protocol/errors.ts';
import { DiskError, ifThere, inWords } from './errors.ts';

const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = fs.constants;

/** A folder held open, so that its files are reached through it even where its path comes to mean something else. */
export type Folder = {
  /** Path of a file in it, by the raw bytes of its name. */
  at(name: Buffer | string): Buffer;
  /** The same for names that are text. */
  path(name: string): string;
  /** The path people know it by; for words only. */
  shown: string;
};

type Open = Folder & { fd: number; close(): void };

/** A folder to go through: its path, and whether it is made where it is missing. */
export type Way = { path: string; make?: boolean };

/**
 * Opens the folders of a way one after the other, each through the one before it and none through a link: who swaps one of
 * them for a link gets an error, not our files. Node has no openat, but Linux reaches the folder of a descriptor as
 * /proc/self/fd/N; where there is no /proc, plain paths serve, and a swap between two calls can lead astray.
 */
function openWay(top: string, way: readonly Way[]): Open {
  return way.reduce(
    (parent, { path, make }) => {
      try {
        return openFolder(parent.path(basename(path)), path, make);
      } finally {
        parent.close();
      }
    },
    openFolder(top, top),
  );
}

function openFolder(door: string, shown: string, make = false): Open {
  const fd = descriptor(door, shown, make);
  const through = `/proc/self/fd/${fd}`;
  const prefix = `${fs.existsSync(through) ? through : shown}/`;
  const bytes = Buffer.from(prefix);
  return {
    fd,
    shown,
    path: (name) => prefix + name,
    at: (name) => Buffer.concat([bytes, typeof name === 'string' ? Buffer.from(name) : name]),
    close: () => fs.closeSync(fd),
  };
}

function descriptor(door: string, shown: string, make: boolean): number {
  try {
    return fs.openSync(door, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  } catch (error) {
    const code = errorCode(error) ?? '';
    if (['ENOTDIR', 'ELOOP'].includes(code)) {
      throw new UserError(
        `${shown} must be a folder, but something else is there. Move it away; links are not followed.`,
      );
    }
    if (code !== 'ENOENT' || !make) throw inWords(error, 'open the folder', shown);
  }
  try {
    fs.mkdirSync(door, { mode: 0o700 });
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw inWords(error, 'make the folder', shown);
  }
  return descriptor(door, shown, false);
}

/** Runs `job` with the last folder of a way held open. */
export function inFolder<T>(top: string, way: readonly Way[], job: (folder: Folder) => T): T {
  const folder = openWay(top, way);
  try {
    return job(folder);
  } catch (error) {
    throw byItsPath(error, folder);
  } finally {
    folder.close();
  }
}

/** The same for a job that takes its time. */
export async function inFolderLong<T>(
  top: string,
  way: readonly Way[],
  job: (folder: Folder) => Promise<T>,
): Promise<T> {
  const folder = openWay(top, way);
  try {
    return await job(folder);
  } catch (error) {
    throw byItsPath(error, folder);
  } finally {
    folder.close();
  }
}

/** What the disk refused, told with the path people know. */
function byItsPath(error: unknown, folder: Folder): unknown {
  if (!(error instanceof DiskError)) return error;
  return new DiskError(error.code, error.message.replaceAll(folder.path(''), `${folder.shown}/`));
}

/** The last folder of a way, held open between calls and opened anew where a person removed it and made it again. */
export function heldFolder(top: string, way: readonly Way[]): { now(): Folder; close(): void } {
  let held: Open | undefined;
  const close = () => {
    held?.close();
    held = undefined;
  };
  return {
    now() {
      const there = openWay(top, way);
      if (held && isSameFolder(held, there)) {
        there.close();
        return held;
      }
      close();
      held = there;
      return held;
    },
    close,
  };
}

function isSameFolder(one: Open, other: Open): boolean {
  const [a, b] = [one, other].map(({ fd }) => fs.fstatSync(fd, { bigint: true }));
  return a?.ino === b?.ino && a?.dev === b?.dev;
}

/** What lstat says of a file in a folder; undefined where it is not there. */
export function statIn(folder: Folder, name: Buffer | string): fs.BigIntStats | undefined {
  return ifThere(() => fs.lstatSync(folder.at(name), { bigint: true }));
}
