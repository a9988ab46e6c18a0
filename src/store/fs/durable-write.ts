import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { errorCode, isDiskFull, UserError } from '../../base/user-error.ts';
import { listNames, openForReading, statIfExists, withOpenFile } from './file-reads.ts';
import { ifExists, notAFolder, toDiskError, wrapDiskErrors } from './store-errors.ts';

const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_RDONLY, O_WRONLY } = fs.constants;
/** How long something half-made may belong to a process that still works on it: Maildir's limit. */
export const STAGING_MAX_AGE_MS = 36 * 3_600_000;
const fdatasync = promisify(fs.fdatasync);
const fsync = promisify(fs.fsync);

/** Writes bytes from `offset` on; returns how many were written. */
export type WriteBytes = (fd: number, bytes: Uint8Array, offset: number) => number;
const defaultWrite: WriteBytes = (fd, bytes, offset) => fs.writeSync(fd, bytes, offset);

/** Writes every byte. A single write may be short, which only its return value shows. */
export function writeAll(fd: number, bytes: Uint8Array, write: WriteBytes = defaultWrite): void {
  for (let done = 0; done < bytes.length; ) done += write(fd, bytes, done);
}

/** When this resolves, names created, moved or removed in this folder before the call survive a power cut. */
export async function syncFolder(path: string): Promise<void> {
  try {
    const fd = fs.openSync(path, O_RDONLY | O_DIRECTORY);
    try {
      await fsync(fd);
    } finally {
      fs.closeSync(fd);
    }
  } catch (error) {
    throw toDiskError(error, 'sync the folder', path);
  }
}

/**
 * When this resolves, a file's content and modification time survive a power cut. For other programs' files: one that
 * cannot be opened is skipped.
 */
export async function syncFile(path: string | Buffer): Promise<void> {
  let fd: number;
  try {
    fd = openForReading(path);
  } catch {
    return;
  }
  try {
    await fsync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

/** A unique, unpredictable name; the `.tmp-` prefix marks it as garbage if we die before finishing. */
export const stagingName = () => `.tmp-${randomBytes(8).toString('hex')}`;

/**
 * Creates a file with these bytes on disk; the folder is not synced. On any failure the file is removed. `meant`: the
 * file that errors name.
 */
export async function createFile(
  path: string,
  bytes: Uint8Array | string,
  { write, meant = path }: { write?: WriteBytes | undefined; meant?: string } = {},
): Promise<fs.BigIntStats> {
  try {
    const fd = fs.openSync(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
    try {
      writeAll(fd, typeof bytes === 'string' ? Buffer.from(bytes) : bytes, write);
      await fdatasync(fd);
      return fs.fstatSync(fd, { bigint: true });
    } catch (error) {
      fs.rmSync(path, { force: true });
      throw error;
    } finally {
      fs.closeSync(fd);
    }
  } catch (error) {
    throw toDiskError(error, 'write', meant);
  }
}

/** Whether an error of link() means that the file system has no hard links (exFAT, some FUSE). */
export const lacksHardLinks = (error: unknown): boolean =>
  ['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'].includes(errorCode(error) ?? '');

/** Gives the file at `from` the additional name `to`. False if that name is taken; its file stays as it is. */
export function linkIfFree(from: string | Buffer, to: string | Buffer): boolean {
  try {
    fs.linkSync(from, to);
    return true;
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return false;
    // Without hard links, check and then rename; that is not atomic.
    if (!lacksHardLinks(error)) throw toDiskError(error, 'link', String(to));
    if (ifExists(() => fs.lstatSync(to))) return false;
    wrapDiskErrors('rename', String(to), () => fs.renameSync(from, to));
    return true;
  }
}

/**
 * Creates a file atomically and durably: written under a staging name, linked, the folder synced. False if the name was
 * taken.
 */
export async function placeNewFile(
  staging: string,
  target: string,
  bytes: Uint8Array | string,
  write?: WriteBytes,
): Promise<boolean> {
  await createFile(staging, bytes, { write });
  try {
    return linkIfFree(staging, target);
  } finally {
    // A reader that found the file between link and unlink may have removed the staging name already.
    fs.rmSync(staging, { force: true });
    await syncFolder(dirname(target));
  }
}

/**
 * Replaces a file that only this daemon writes: a reader sees the old or the new content, never a part. `durable`: the
 * new one survives a power cut when this returns. Not for `plan.json`, which people write too.
 */
export async function replaceFile(path: string, content: string, { durable = false } = {}): Promise<void> {
  const staged = `${dirname(path)}/${stagingName()}`;
  await createFile(staged, content, { meant: path });
  try {
    fs.renameSync(staged, path);
  } catch (error) {
    fs.rmSync(staged, { force: true });
    throw toDiskError(error, 'write', path);
  }
  if (durable) await syncFolder(dirname(path));
}

/**
 * The same for a file that must be written even on a full disk: without space for a new one, the old one is overwritten
 * in place, padded with spaces to its old length so that no further byte is needed. A power cut may then leave a
 * mixture, which readers must treat as missing.
 */
export async function replaceOrOverwriteFile(path: string, content: string): Promise<void> {
  try {
    await replaceFile(path, content, { durable: true });
  } catch (error) {
    if (!isDiskFull(error)) throw error;
    wrapDiskErrors('write', path, () => overwriteFile(path, content));
  }
}

function overwriteFile(path: string, content: string): void {
  const fd = fs.openSync(path, O_WRONLY | O_NOFOLLOW);
  try {
    const bytes = Buffer.from(content.padEnd(fs.fstatSync(fd).size - Buffer.byteLength(content) + content.length));
    writeAll(fd, bytes, (to, all, offset) => fs.writeSync(to, all, offset, all.length - offset, offset));
    fs.fdatasyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

/** A folder of ours: created (0700) if missing. A link or a file in its place is an error, never followed. */
export function ensureFolder(path: string): string {
  if (statIfExists(path)?.isDirectory()) return path;
  wrapDiskErrors('make the folder', path, () => {
    try {
      fs.mkdirSync(path, { mode: 0o700 });
    } catch (error) {
      if (errorCode(error) !== 'EEXIST') throw error;
    }
  });
  if (fs.lstatSync(path).isDirectory()) return path;
  throw new UserError(notAFolder(path));
}

/** Creates a folder (0700) with all missing parents, durably; does nothing if it exists. */
export function ensureFolderDurably(path: string): void {
  const made = fs.mkdirSync(path, { recursive: true, mode: 0o700 });
  if (made === undefined) return;
  for (let folder = path; ; folder = dirname(folder)) {
    withOpenFile(dirname(folder), fs.fsyncSync, 'follow');
    if (folder === made) return;
  }
}

/**
 * Removes abandoned staging files from a folder that others write to. `all`: the folder is for staging alone, so that
 * every file in it is one, whatever its name.
 */
export function removeOldStaging(folder: string, now: Date, which: 'all' | 'named .tmp-'): void {
  for (const name of fs.readdirSync(folder)) {
    if (which !== 'all' && !name.startsWith('.tmp-')) continue;
    const path = join(folder, name);
    const stat = ifExists(() => fs.lstatSync(path));
    if (stat?.isFile() && now.getTime() - stat.mtimeMs > STAGING_MAX_AGE_MS) fs.rmSync(path, { force: true });
  }
}

/**
 * Removes staging files left by an earlier process. Only for folders nobody else writes to; a missing one is ignored.
 */
export function removeStaging(folder: string): void {
  for (const name of listNames(folder)) {
    if (name.startsWith('.tmp-')) fs.rmSync(join(folder, name), { force: true });
  }
}

/** The smallest amount taken from the reserve at a time: space for the few lines that end a call. */
const PIECE_BYTES = 16 * 1024;

/** The folder of empty files beside the reserve: each of them is an inode to give up where all are in use. */
export const spareFilesOf = (reserve: string): string => `${reserve}-files`;
/** A message takes one, and so does the reply to it. */
const SPARE_FILES_AT_ONCE = 4;

/**
 * Frees this many bytes by shortening the reserve of a workspace, and a few inodes. False if nothing is left of it, or
 * if it cannot be shortened, as on a file system that became read-only.
 */
export function takeFromReserve(path: string, bytes: number): boolean {
  const isFileFree = removeSpareFiles(spareFilesOf(path));
  return shorten(path, bytes) || isFileFree;
}

function removeSpareFiles(folder: string): boolean {
  try {
    const some = fs.readdirSync(folder).slice(0, SPARE_FILES_AT_ONCE);
    for (const name of some) fs.rmSync(join(folder, name), { force: true });
    return some.length > 0;
  } catch {
    return false;
  }
}

function shorten(path: string, bytes: number): boolean {
  try {
    const { size } = fs.statSync(path);
    if (size === 0) return false;
    fs.truncateSync(path, Math.max(0, size - Math.max(PIECE_BYTES, bytes)));
    return true;
  } catch {
    return false;
  }
}

/**
 * Shares syncs: calls made while a sync is running are all served by one that begins when it has ended. Each call
 * resolves after a sync that began after the call, so it promises what its own sync would. A failure rejects all calls
 * that waited for that sync.
 */
export function coalesceSyncs(sync: (path: string) => Promise<void>): (path: string) => Promise<void> {
  const flights = new Map<string, { now: Promise<void>; next?: Promise<void> }>();

  function begin(path: string): Promise<void> {
    const flight = { now: sync(path) };
    flights.set(path, flight);
    const ended = () => void (flights.get(path) === flight && flights.delete(path));
    flight.now.then(ended, ended);
    return flight.now;
  }

  return (path) => {
    const flight = flights.get(path);
    if (!flight) return begin(path);
    flight.next ??= flight.now.then(
      () => begin(path),
      () => begin(path),
    );
    return flight.next;
  };
}
