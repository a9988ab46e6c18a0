import * as fs from 'node:fs';
import { basename, dirname } from 'node:path';
import { errorCode, UserError } from '../../base/user-error.ts';
import { DiskError, ifExists, notAFolder, toDiskError } from './store-errors.ts';

const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = fs.constants;

/** An open folder: its files are reached through the descriptor, even if the path now leads elsewhere. */
export type OpenFolder = {
  /** Path of a file in it, by the raw bytes of its name. */
  bytePath(name: Buffer | string): Buffer;
  /** The same for names that are text. */
  path(name: string): string;
  /** The path people know it by; for messages only. */
  displayPath: string;
};

type FolderHandle = OpenFolder & { fd: number; close(): void };

/** A folder on a path, and whether it is created if missing. */
export type FolderOnPath = { path: string; make?: boolean };

/**
 * Opens the folders of a path one after another, each through the one before it and none through a link, so that
 * swapping one of them for a link causes an error and does not expose our files. Node has no openat, but on Linux
 * /proc/self/fd/N is the folder of a descriptor. Without /proc, plain paths are used, which such a swap can mislead.
 */
function openAlongPath(top: string, way: readonly FolderOnPath[]): FolderHandle {
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

function openFolder(door: string | Buffer, shown: string, make = false): FolderHandle {
  const fd = openFolderDescriptor(door, shown, make);
  const through = `/proc/self/fd/${fd}`;
  const prefix = `${fs.existsSync(through) ? through : shown}/`;
  const bytes = Buffer.from(prefix);
  return {
    fd,
    displayPath: shown,
    path: (name) => prefix + name,
    bytePath: (name) => Buffer.concat([bytes, typeof name === 'string' ? Buffer.from(name) : name]),
    close: () => fs.closeSync(fd),
  };
}

function openFolderDescriptor(door: string | Buffer, shown: string, make: boolean): number {
  try {
    return fs.openSync(door, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  } catch (error) {
    const code = errorCode(error) ?? '';
    if (['ENOTDIR', 'ELOOP'].includes(code)) throw new UserError(notAFolder(shown));
    if (code !== 'ENOENT' || !make) throw toDiskError(error, 'open the folder', shown);
  }
  try {
    fs.mkdirSync(door, { mode: 0o700 });
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw toDiskError(error, 'make the folder', shown);
  }
  return openFolderDescriptor(door, shown, false);
}

/** Runs `job` while the last folder of a path is open. */
export function withFolder<T>(top: string, way: readonly FolderOnPath[], job: (folder: OpenFolder) => T): T {
  const folder = openAlongPath(top, way);
  try {
    return job(folder);
  } catch (error) {
    throw withDisplayPath(error, folder);
  } finally {
    folder.close();
  }
}

/** The same for an async job. */
export async function withFolderAsync<T>(
  top: string,
  way: readonly FolderOnPath[],
  job: (folder: OpenFolder) => Promise<T>,
): Promise<T> {
  const folder = openAlongPath(top, way);
  try {
    return await job(folder);
  } catch (error) {
    throw withDisplayPath(error, folder);
  } finally {
    folder.close();
  }
}

/** The same for a folder in an open one, by the raw bytes of its name. */
export async function withSubfolder<T>(
  parent: OpenFolder,
  name: Buffer,
  job: (folder: OpenFolder) => Promise<T>,
): Promise<T> {
  const folder = openFolder(parent.bytePath(name), `${parent.displayPath}/${name}`);
  try {
    return await job(folder);
  } finally {
    folder.close();
  }
}

/** A file system error with the path people know. */
function withDisplayPath(error: unknown, folder: OpenFolder): unknown {
  if (!(error instanceof DiskError)) return error;
  return new DiskError(error.code, error.message.replaceAll(folder.path(''), `${folder.displayPath}/`));
}

/** Keeps the last folder of a path open between calls, and reopens it if a person removed and recreated it. */
export function keepFolderOpen(top: string, way: readonly FolderOnPath[]): { now(): OpenFolder; close(): void } {
  let opened: FolderHandle | undefined;
  const close = () => {
    opened?.close();
    opened = undefined;
  };
  return {
    now() {
      const there = openAlongPath(top, way);
      if (opened && isSameInode(opened, there)) {
        there.close();
        return opened;
      }
      close();
      opened = there;
      return opened;
    },
    close,
  };
}

function isSameInode(one: FolderHandle, other: FolderHandle): boolean {
  const [a, b] = [one, other].map(({ fd }) => fs.fstatSync(fd, { bigint: true }));
  return a?.ino === b?.ino && a?.dev === b?.dev;
}

/** The lstat of a file in a folder; undefined if it does not exist. */
export function statInFolder(folder: OpenFolder, name: Buffer | string): fs.BigIntStats | undefined {
  return ifExists(() => fs.lstatSync(folder.bytePath(name), { bigint: true }));
}

/** The fields of a folder's stat that identify it. */
export type FolderStat = Pick<fs.BigIntStats, 'dev' | 'ino' | 'birthtimeNs' | 'ctimeNs'>;

/**
 * Gives a folder an id that is stable for its lifetime and differs from that of any later folder with its name: the
 * inode number alone is reused, by tmpfs and ext4 at once, so the birth time is included if available. `used`: paths on
 * the same file system that were changed after they were created. Only they show whether birth times are available:
 * otherwise the system reports 0 or the last change, and an id with the last change would not be stable.
 */
export function createFolderId(...used: string[]): (facts: FolderStat) => string {
  const hasBirthTimes = reportsBirthTime(...used);
  return ({ dev, ino, birthtimeNs }) => `${dev}:${ino}${hasBirthTimes ? `:${birthtimeNs}` : ''}`;
}

/** Whether the file system of these paths, which were changed after they were created, reports birth times. */
export const reportsBirthTime = (...used: string[]): boolean =>
  used.some((path) => {
    const facts = folderStatAt(path);
    return facts !== undefined && facts.birthtimeNs !== 0n && facts.birthtimeNs !== facts.ctimeNs;
  });

/** Detects whether the folder at a path is still the same one. Recreating a folder changes its parent. */
export function watchFolderIdentity(path: string): () => boolean {
  const first = folderStatAt(path);
  return () => {
    const now = folderStatAt(path);
    if (!first || !now) return first === now;
    const idOf = createFolderId(path, dirname(path));
    return idOf(first) === idOf(now);
  };
}

const folderStatAt = (path: string): FolderStat | undefined => ifExists(() => fs.lstatSync(path, { bigint: true }));
