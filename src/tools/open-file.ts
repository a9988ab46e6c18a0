import * as fs from 'node:fs';
import { basename, dirname } from 'node:path';
import { promisify } from 'node:util';
import { errorCode, UserError } from '../protocol/errors.ts';
import { bytesInWords, inWords } from './file-errors.ts';
import { inFolder } from './held-folder.ts';
import { type Fence, type Place, realAt } from './paths.ts';

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;
const PIECE_BYTES = 64 * 1024;
const read = promisify(fs.read);

/** A regular file, open for reading. */
export type OpenFile = {
  /** Bytes, as the file system tells them: 0 for the files of /proc. */
  size: number;
  /** Its first 64 KiB. */
  readonly start: Buffer;
  /** All of it, 64 KiB at a time. */
  pieces(): AsyncIterable<Buffer>;
  whole(): Promise<Buffer>;
};

/**
 * Opens a regular file for reading, through no link, and hands it to `use`. Where there is no /proc a folder can be swapped for a
 * link meanwhile, so what was opened is asked where it lies. Never hangs on a pipe. Throws UserError. Opening and the start
 * of a file take no thread of the pool: going there and back took longer than they do. The rest of a long one does.
 */
export async function withFile<T>(place: Place, fence: Fence, use: (file: OpenFile) => Promise<T>): Promise<T> {
  const fd = opened(place, fence);
  try {
    const lies = whereIs(fd, place.real);
    if (lies === undefined || !fence.mayRead(lies))
      throw new UserError(`\`${place.shown}\` changed while it was opened.`);
    const stat = fs.fstatSync(fd);
    if (stat.isDirectory()) throw new UserError(`\`${place.shown}\` is a folder; list_files shows what is in it.`);
    if (!stat.isFile()) throw new UserError(`\`${place.shown}\` is a device or a pipe, not a file.`);
    return await use(fileOf(fd, stat.size));
  } finally {
    fs.closeSync(fd);
  }
}

function opened({ real, shown }: Place, fence: Fence): number {
  try {
    return inFolder(fence.way(dirname(real)), (folder) =>
      fs.openSync(folder.at(basename(real)), O_RDONLY | O_NOFOLLOW | O_NONBLOCK),
    );
  } catch (error) {
    throw inWords(error, shown);
  }
}

function fileOf(fd: number, size: number): OpenFile {
  let first: Buffer | undefined;
  const start = (): Buffer => {
    const buffer = Buffer.allocUnsafe(PIECE_BYTES);
    first ??= buffer.subarray(0, fs.readSync(fd, buffer, 0, PIECE_BYTES, 0));
    return first;
  };
  async function* pieces(): AsyncGenerator<Buffer> {
    let at = start().length;
    yield start();
    // The size of a small file spares a question behind its end.
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

const lstatAt = (real: string, fence: Fence): fs.Stats =>
  inFolder(fence.way(dirname(real)), (folder) => fs.lstatSync(folder.at(basename(real))));

/** What there is at a place, through no link; undefined where there is nothing. Throws UserError. */
export function statOf({ real, shown }: Place, fence: Fence): fs.Stats | undefined {
  try {
    return lstatAt(real, fence);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(errorCode(error) ?? '')) return undefined;
    throw inWords(error, shown);
  }
}

/** The same, where something must be there. */
export function lookAt({ real, shown }: Place, fence: Fence): fs.Stats {
  try {
    return lstatAt(real, fence);
  } catch (error) {
    throw inWords(error, shown);
  }
}

/** The size of a file in words for a list. */
export function sizeOf(real: string, fence: Fence): string {
  try {
    return bytesInWords(lstatAt(real, fence).size);
  } catch {
    return 'gone';
  }
}

/** The real path of an open file: the kernel's word where it gives one; else its path, if that still names this file. */
export function whereIs(fd: number, path: string): string | undefined {
  try {
    return fs.readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    const real = realAt(path);
    if (real === undefined) return undefined;
    const [named, opened] = [fs.lstatSync(real, { bigint: true }), fs.fstatSync(fd, { bigint: true })];
    return named.ino === opened.ino && named.dev === opened.dev ? real : undefined;
  }
}
