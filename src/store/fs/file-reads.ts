import { isUtf8 } from 'node:buffer';
import * as fs from 'node:fs';
import { parseJson } from '../../base/json.ts';
import { errorCode, UserError } from '../../base/user-error.ts';
import { ifExists, toDiskError, wrapDiskErrors } from './store-errors.ts';

/**
 * The lstat of a path; undefined if nothing is there. Use it where a file is often missing: an error and its stack took
 * twice as long (16 and 8.5 µs, measured at a load of about 4).
 */
export const statIfExists = (path: string): fs.Stats | undefined => fs.lstatSync(path, { throwIfNoEntry: false });

/** The result of `job` for the file at a path; undefined if the file is missing or disappears meanwhile. */
export const useIfExists = <T>(path: string, job: (path: string) => T): T | undefined =>
  statIfExists(path) && ifExists(() => job(path));

/** The names in a folder; empty if it does not exist. Throws DiskError. */
export const listNames = (folder: string): string[] =>
  useIfExists(folder, (there) => wrapDiskErrors('read', there, () => fs.readdirSync(there))) ?? [];

/** File times have a resolution of up to 10 ms (a tick at 100 Hz): two changes within one tick may look like one. */
export const TIMESTAMP_TICK_MS = 100;
/** File systems that do not report every change (some network ones) are read in full this often. */
const RECHECK_MS = 5000;

export type Clocks = { now: () => Date; elapsed: () => number };

/** Remembers the last read of a file or folder, and detects changes since. */
export type ChangeDetector = {
  /** Nothing changed since the last committed read: a file's content, or the names in a folder. One system call. */
  isUnchanged(): boolean;
  /** Call before a read; call the returned function after it if the read is worth keeping. */
  beginRead(): () => void;
};

/**
 * Detects by inode, size and change time whether a path has changed, and whether that can be known: not within a tick
 * after a change, and never for longer than five seconds. A missing path is unchanged as long as it is missing.
 */
export function openChangeDetector(path: string, { now, elapsed }: Clocks): ChangeDetector {
  let kept: { key: string; at: number } | undefined;
  return {
    isUnchanged: () => kept !== undefined && elapsed() - kept.at < RECHECK_MS && changeKeyOf(path).key === kept.key,
    beginRead() {
      kept = undefined;
      const at = elapsed();
      const { key, changed } = changeKeyOf(path);
      const isSure = now().getTime() - changed >= TIMESTAMP_TICK_MS;
      return () => {
        kept = isSure ? { key, at } : undefined;
      };
    },
  };
}

/** Returns the cached result as long as the file did not change. Throws what `read` throws. */
export function cachedRead<T>(path: string, clocks: Clocks, read: () => T): () => T {
  const unchanged = openChangeDetector(path, clocks);
  let last: { value: T } | undefined;
  return () => {
    if (last && unchanged.isUnchanged()) return last.value;
    const keep = unchanged.beginRead();
    last = { value: read() };
    keep();
    return last.value;
  };
}

/**
 * Caches the result of `ask` for the current turn of the event loop: an iteration reads its settings about ten times,
 * and each check of their files takes several system calls. A change within a turn cannot be distinguished from one
 * right after it. A result for which `keeps` is false is not cached.
 */
export function oncePerTurn<T>(ask: () => T, keeps: (answer: T) => boolean = () => true): () => T {
  let kept: { answer: T } | undefined;
  return () => {
    if (kept) return kept.answer;
    const answer = ask();
    if (keeps(answer)) {
      kept = { answer };
      setImmediate(() => {
        kept = undefined;
      });
    }
    return answer;
  };
}

function changeKeyOf(path: string): { key: string; changed: number } {
  const stat = fs.statSync(path, { throwIfNoEntry: false });
  if (!stat) return { key: '', changed: Number.NEGATIVE_INFINITY };
  return { key: `${stat.dev}:${stat.ino}:${stat.size}:${stat.ctimeMs}`, changed: stat.ctimeMs };
}

/** Changes with each change of a file's content, also by a replacement. */
export const contentKeyOf = (stat: Pick<fs.BigIntStats, 'ino' | 'size' | 'mtimeNs'>): string =>
  `${stat.ino}:${stat.size}:${stat.mtimeNs}`;

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;

/** Whether a link in place of a file is followed, or an error. */
type LinkPolicy = 'follow' | 'refuse';

/** A descriptor for reading, without waiting for a pipe. Throws file system errors. */
export const openForReading = (path: string | Buffer, links: LinkPolicy = 'refuse'): number =>
  fs.openSync(path, O_RDONLY | O_NONBLOCK | (links === 'refuse' ? O_NOFOLLOW : 0));

/** Runs `use` while the file is open for reading in that way. */
export function withOpenFile<T>(path: string | Buffer, use: (fd: number) => T, links?: LinkPolicy): T {
  const fd = openForReading(path, links);
  try {
    return use(fd);
  } finally {
    fs.closeSync(fd);
  }
}

/** The bytes of a file; links are refused. */
export const readFileBytes = (path: string | Buffer): Buffer => withOpenFile(path, (fd) => fs.readFileSync(fd));

/** The same; undefined if it is not a regular file of at most `maxBytes`. */
export function readRegularFile(path: string | Buffer, maxBytes: number, links?: LinkPolicy): Buffer | undefined {
  const read = (fd: number) => {
    const stat = fs.fstatSync(fd);
    return stat.isFile() && stat.size <= maxBytes ? fs.readFileSync(fd) : undefined;
  };
  return withOpenFile(path, read, links);
}

/** Opens a file of ours for reading, never through a link and never blocking; undefined if it does not exist. */
export function openRegularFile(path: string): number | undefined {
  try {
    const file = openForReading(path);
    if (fs.fstatSync(file).isFile()) return file;
    fs.closeSync(file);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw toDiskError(error, 'read', path);
  }
  throw new UserError(`${path} must be a file, but something else is there. Move it away.`);
}

const MAX_TEXT_BYTES = 4 * 1024 * 1024;

/** The text of a file; '' if it is not a regular file, undefined if nothing is there. */
export function readTextFile(path: string): string | undefined {
  try {
    return readRegularFile(path, MAX_TEXT_BYTES)?.toString() ?? '';
  } catch (error) {
    return errorCode(error) === 'ENOENT' ? undefined : '';
  }
}

/** The content of a JSON file of this form; undefined if it is missing, damaged or of another form. */
export function readJsonFile<T>(
  path: string,
  schema: { safeParse(value: unknown): { data?: T | undefined } },
): T | undefined {
  return schema.safeParse(parseJson(readTextFile(path) ?? '')).data;
}

const MAX_SETTINGS_BYTES = 1024 * 1024;

/**
 * The text of a file that people write, of at most 1 MiB; undefined if there is none. Throws UserError for anything
 * else in its place, which should hold `content`.
 */
export function readTextOrThrow(path: string, content: string, links: LinkPolicy): string | undefined {
  const read = () => {
    const bytes = readRegularFile(path, MAX_SETTINGS_BYTES, links);
    if (bytes) return bytes.toString();
    throw new UserError(`${path} must be a file of at most 1 MiB with ${content}. Put one there, or remove it.`);
  };
  return wrapDiskErrors('read', path, () => useIfExists(path, read));
}

/** Offset of the first byte that is not valid UTF-8; undefined if all of it is. */
export function firstBadUtf8Byte(bytes: Buffer): number | undefined {
  if (isUtf8(bytes)) return undefined;
  let at = 0;
  // Skips large valid chunks first: character by character, 10 MiB take a second.
  for (let end = chunkEnd(bytes, at); end > at && isUtf8(bytes.subarray(at, end)); end = chunkEnd(bytes, at)) at = end;
  for (;;) {
    const first = bytes[at] ?? 0;
    const length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (at + length > bytes.length || !isUtf8(bytes.subarray(at, at + length))) return at;
    at += length;
  }
}

/** The end of a chunk of about 4 KiB that does not split a character. */
function chunkEnd(bytes: Buffer, from: number): number {
  let end = Math.min(from + 4096, bytes.length);
  for (let back = 0; back < 3 && ((bytes[end] ?? 0) & 0xc0) === 0x80; back++) end--;
  return end;
}

/** A byte that is not UTF-8 in a text: a lone surrogate, U+DC00 plus the byte, which no UTF-8 text holds. */
const escapeByte = (char: string): string => String.fromCharCode(0xdc00 + char.charCodeAt(0));

/**
 * Bytes as text without losing any: from the first byte on that is not UTF-8, each one above ASCII becomes a lone
 * surrogate, which readers recognize.
 */
export function decodeLossless(bytes: Buffer): string {
  const bad = firstBadUtf8Byte(bytes);
  if (bad === undefined) return bytes.toString();
  const rest = bytes
    .subarray(bad)
    .toString('latin1')
    .replace(/[\x80-\xff]/g, escapeByte);
  return bytes.subarray(0, bad).toString() + rest;
}
