import * as fs from 'node:fs';
import { basename, dirname } from 'node:path';
import { promisify } from 'node:util';
import { escapeControlChars, formatBytes } from '../../base/strings.ts';
import { attempt, errorCode, UserError } from '../../base/user-error.ts';
import { hasProc } from '../../store/fs/process-identity.ts';
import { realPathOrNone } from '../common/path-lookup.ts';
import { type ResolvedPath, toFileError, type WorkPaths } from './work-paths.ts';

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;
const PIECE_BYTES = 64 * 1024;
const read = promisify(fs.read);

/** A regular file, open for reading. */
export type OpenFile = {
  /** Bytes, as the file system reports them: 0 for files in /proc. */
  size: number;
  /** Its first 64 KiB. */
  readonly start: Buffer;
  /** The whole file, 64 KiB at a time. */
  pieces(): AsyncIterable<Buffer>;
  whole(): Promise<Buffer>;
};

/**
 * Opens a regular file for reading, following no link, and passes it to `use`. Without /proc, a folder could be swapped
 * for a link meanwhile, so the path of the opened file is verified. Never blocks on a pipe. Throws UserError. Opening
 * and reading the start are synchronous: the round trip through the thread pool took longer than the calls themselves.
 * The rest of a long file is read asynchronously.
 */
export async function withOpenFile<T>(
  resolved: ResolvedPath,
  paths: WorkPaths,
  use: (file: OpenFile) => Promise<T>,
): Promise<T> {
  const fd = openForRead(resolved, paths);
  try {
    const lies = realPathOfDescriptor(fd, resolved.real);
    if (lies === undefined || !paths.isReadable(lies))
      throw new UserError(`\`${resolved.displayName}\` changed while it was opened.`);
    const stat = fs.fstatSync(fd);
    if (stat.isDirectory())
      throw new UserError(`\`${resolved.displayName}\` is a folder; list_files shows what is in it.`);
    if (!stat.isFile()) throw new UserError(`\`${resolved.displayName}\` is a device or a pipe, not a file.`);
    return await use(toOpenFile(fd, stat.size));
  } finally {
    fs.closeSync(fd);
  }
}

function openForRead({ real, displayName }: ResolvedPath, paths: WorkPaths): number {
  try {
    return withFolder(paths, dirname(real), (folder) =>
      fs.openSync(folder.at(basename(real)), O_RDONLY | O_NOFOLLOW | O_NONBLOCK),
    );
  } catch (error) {
    const twin = errorCode(error) === 'ENOENT' ? sameNameInOtherForm(real, paths) : undefined;
    if (twin === undefined) throw toFileError(error, displayName);
    throw new UserError(
      `\`${displayName}\` is not there, but a file whose name looks the same is, in another Unicode form: "${twin}".`,
    );
  }
}

/**
 * The name of a file beside this one that differs only in its Unicode form, as names from macOS do. Written in ASCII
 * with \u escapes, since the model would repeat the wrong form otherwise.
 */
function sameNameInOtherForm(real: string, paths: WorkPaths): string | undefined {
  const wanted = basename(real).normalize();
  try {
    const names = withFolder(paths, dirname(real), (folder) => fs.readdirSync(folder.at('.')));
    const twin = names.find((name) => name.normalize() === wanted);
    return twin?.replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
  } catch {
    return undefined;
  }
}

function toOpenFile(fd: number, size: number): OpenFile {
  let first: Buffer | undefined;
  const start = (): Buffer => {
    if (first) return first;
    // No larger than the file needs: 64 KiB for a small one cost more garbage collection than the rest of the call. One
    // byte more shows that it has grown. Files in /proc report no size.
    const buffer = Buffer.allocUnsafe(size === 0 ? PIECE_BYTES : Math.min(size + 1, PIECE_BYTES));
    first = buffer.subarray(0, fs.readSync(fd, buffer, 0, buffer.length, 0));
    return first;
  };
  async function* pieces(): AsyncGenerator<Buffer> {
    let at = start().length;
    yield start();
    // Knowing the size of a small file saves the read at its end.
    if (at < PIECE_BYTES && at === size) return;
    for (let count = at; count > 0; at += count) {
      const { buffer, bytesRead } = await read(fd, Buffer.allocUnsafe(PIECE_BYTES), 0, PIECE_BYTES, at);
      count = bytesRead;
      if (count > 0) yield buffer.subarray(0, count);
    }
  }
  return {
    size,
    get start() {
      return start();
    },
    pieces,
    async whole() {
      const all: Buffer[] = [];
      for await (const piece of pieces()) all.push(piece);
      return Buffer.concat(all);
    },
  };
}

const lstatAt = (real: string, paths: WorkPaths): fs.Stats =>
  withFolder(paths, dirname(real), (folder) => fs.lstatSync(folder.at(basename(real))));

/** The stat of a path, following no link; undefined if nothing exists there. Throws UserError. */
export function statIfExists({ real, displayName }: ResolvedPath, paths: WorkPaths): fs.Stats | undefined {
  try {
    return lstatAt(real, paths);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(errorCode(error) ?? '')) return undefined;
    throw toFileError(error, displayName);
  }
}

/** The same, but throws UserError if nothing exists there. */
export function statOrThrow({ real, displayName }: ResolvedPath, paths: WorkPaths): fs.Stats {
  try {
    return lstatAt(real, paths);
  } catch (error) {
    throw toFileError(error, displayName);
  }
}

/** The size of a file as text for a listing. */
export function formatFileSize(real: string, paths: WorkPaths): string {
  return attempt(() => formatBytes(lstatAt(real, paths).size)) ?? 'gone';
}

/** The real path of an open file: from the kernel if available, else its path if that still names this file. */
export function realPathOfDescriptor(fd: number, path: string): string | undefined {
  try {
    return fs.readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    const real = realPathOrNone(path);
    if (real === undefined) return undefined;
    const [named, opened] = [fs.lstatSync(real, { bigint: true }), fs.fstatSync(fd, { bigint: true })];
    return named.ino === opened.ino && named.dev === opened.dev ? real : undefined;
  }
}

/** Lets Linux open a folder without permission to list it, and without any effect. Node has no constant for it. */
const O_PATH = process.platform === 'linux' ? 0o10000000 : 0;
const OPEN_FOLDER_FLAGS = O_DIRECTORY | O_NOFOLLOW | O_PATH;

/** An open folder: its content is reached through the descriptor, even if the path now leads elsewhere. */
export type FolderHandle = {
  /** The path of a file in it; `.` is the folder itself. */
  at(name: string): string;
};

type OpenFolder = FolderHandle & { close(): void };

/**
 * Opens a folder by its real path, then asks the kernel where the folder that was opened lies: if a part of the path
 * was swapped for a link, that is another place, and nothing was done there. Node has no openat, but on Linux
 * /proc/self/fd/N is the folder of a descriptor. Without /proc, plain paths are used, which a swap between two calls
 * can mislead. Throws UserError or file system errors.
 */
function openFolder(path: string): OpenFolder {
  const fd = openDescriptor(path);
  const close = () => fs.closeSync(fd);
  const lies = realPathOfDescriptor(fd, path);
  if (lies === undefined || !isSamePath(lies, path)) {
    close();
    throw changedWhileOpened(path);
  }
  const prefix = hasProc ? `/proc/self/fd/${fd}` : path;
  return { at: (name) => `${prefix}/${name}`, close };
}

function openDescriptor(path: string): number {
  try {
    return fs.openSync(path, OPEN_FOLDER_FLAGS);
  } catch (error) {
    const code = errorCode(error);
    throw code === 'ELOOP' || (code === 'ENOTDIR' && isLink(path)) ? changedWhileOpened(path) : error;
  }
}

const isLink = (path: string): boolean => fs.lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;

const changedWhileOpened = (path: string) =>
  new UserError(`\`${escapeControlChars(path)}\` changed while it was opened.`);

/** Where a file system ignores case, the kernel may know a folder by another spelling. */
const isSamePath = (one: string, other: string): boolean =>
  one === other || one.normalize().toLowerCase() === other.normalize().toLowerCase();

/** The same, making the folders below `work/` that are missing, one at a time and each in the one before it. */
function openOrMakeFolder(path: string, paths: WorkPaths): OpenFolder {
  try {
    return openFolder(path);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT' || !paths.isWritable(dirname(path))) throw error;
  }
  const parent = openOrMakeFolder(dirname(path), paths);
  try {
    // Not `recursive`: Node retries without end if the folder of the descriptor has been deleted.
    fs.mkdirSync(parent.at(basename(path)));
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error;
  } finally {
    parent.close();
  }
  return openFolder(path);
}

/** Runs `job` while the folder is open. Throws UserError if it is none that a tool may enter. */
export function withFolder<T>(paths: WorkPaths, folder: string, job: (folder: FolderHandle) => T): T {
  paths.requireEnterable(folder);
  const opened = openFolder(folder);
  try {
    return job(opened);
  } finally {
    opened.close();
  }
}

/** The same for an async job. `make`: creates missing folders. */
export async function withFolderAsync<T>(
  paths: WorkPaths,
  folder: string,
  job: (folder: FolderHandle) => Promise<T>,
  make = false,
): Promise<T> {
  paths.requireEnterable(folder);
  const opened = make ? openOrMakeFolder(folder, paths) : openFolder(folder);
  try {
    return await job(opened);
  } finally {
    opened.close();
  }
}
