import * as fs from 'node:fs';
import { promisify } from 'node:util';
import { crc32 } from 'node:zlib';

/** Bytes of `,"crc":"xxxxxxxx"}`, the end of every line. */
const CRC_SUFFIX_BYTES = 18;

/** A value as one line of JSON ending with the crc32 of the bytes before `,"crc"`, and a line feed. */
export function encodeLineWithCrc(value: object): string {
  const head = JSON.stringify(value).slice(0, -1);
  return `${head},"crc":"${crc32Hex(head)}"}\n`;
}

/**
 * The value passed to `encodeLineWithCrc`, without its crc; undefined if a byte changed. `bytes` excludes the line
 * feed.
 */
export function parseCheckedLine(bytes: Buffer): { value: unknown } | undefined {
  const head = checksummedPart(bytes);
  if (crcOfLine(bytes) !== crc32Hex(head)) return undefined;
  return { value: JSON.parse(`${head.toString()}}`) };
}

/** The crc at the end of a line; undefined if there is none. */
export function crcOfLine(bytes: Buffer): string | undefined {
  return /^,"crc":"([0-9a-f]{8})"\}$/.exec(bytes.toString('latin1', Math.max(0, bytes.length - CRC_SUFFIX_BYTES)))?.[1];
}

/** The part of a line that its crc covers. */
export const checksummedPart = (bytes: Buffer): Buffer =>
  bytes.subarray(0, Math.max(0, bytes.length - CRC_SUFFIX_BYTES));

/** For a string: of its UTF-8 bytes. */
export const crc32Hex = (bytes: Buffer | string): string => crc32(bytes).toString(16).padStart(8, '0');

const CHUNK_BYTES = 256 * 1024;
const TAIL_BYTES = 8 * 1024;
const MAX_TAIL_BYTES = 64 * 1024 * 1024;
/** Up to this size reads are synchronous: the thread pool's round trip takes longer than such a read. */
const MAX_SYNC_READ_BYTES = 64 * 1024;
const readAsync = promisify(fs.read);
const readPart = async (file: number, chunk: Buffer, at: number): Promise<number> =>
  (await readAsync(file, chunk, 0, chunk.length, at)).bytesRead;

/** A line without its line feed, and its byte offset in the file. `hasLineFeed`: the line is complete. */
export type RawLine = { bytes: Buffer; offset: number; hasLineFeed: boolean };

/** The lines of a file between two offsets, in batches. Memory is bounded by a chunk and the longest line. */
export async function* readLines(file: number, from: number, to: number): AsyncGenerator<RawLine[]> {
  let parts: Buffer[] = [];
  let at = from;
  for (let read = from; read < to; ) {
    const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, to - read));
    const bytesRead =
      chunk.length > MAX_SYNC_READ_BYTES
        ? await readPart(file, chunk, read)
        : fs.readSync(file, chunk, 0, chunk.length, read);
    if (bytesRead === 0) break;
    read += bytesRead;
    const batch: RawLine[] = [];
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0 && end < bytesRead; end = chunk.indexOf(10, start)) {
      const rest = chunk.subarray(start, end);
      const bytes = parts.length > 0 ? Buffer.concat([...parts, rest]) : rest;
      parts = [];
      batch.push({ bytes, offset: at, hasLineFeed: true });
      at += bytes.length + 1;
      start = end + 1;
    }
    if (start < bytesRead) parts.push(chunk.subarray(start, bytesRead));
    yield batch;
  }
  if (parts.length > 0) yield [{ bytes: Buffer.concat(parts), offset: at, hasLineFeed: false }];
}

/** The line that ends before byte `end`, without its line feed; undefined if none ends there. */
export function readLineBefore(file: number, end: number): Buffer | undefined {
  for (let span = TAIL_BYTES; ; span *= 8) {
    const from = Math.max(0, end - span);
    const bytes = readBytes(file, from, end);
    if (bytes.at(-1) !== 10) return undefined;
    const start = bytes.lastIndexOf(10, bytes.length - 2);
    if (start >= 0 || from === 0) return bytes.subarray(start + 1, -1);
    if (span >= MAX_TAIL_BYTES) return undefined;
  }
}

/** The first line of a file, without its line feed; undefined if it has none within 4 KiB. */
export function readFirstLine(file: number): Buffer | undefined {
  const bytes = readBytes(file, 0, 4096);
  const end = bytes.indexOf(10);
  return end < 0 ? undefined : bytes.subarray(0, end);
}

/** The 1-based number of the line that begins at an offset, for messages. */
export function lineNumberAt(file: number, at: number): number {
  let number = 1;
  for (let from = 0; from < at; from += CHUNK_BYTES) {
    for (const byte of readBytes(file, from, Math.min(at, from + CHUNK_BYTES))) if (byte === 10) number++;
  }
  return number;
}

/** The bytes of a file between two offsets; fewer if the file ends before `to`. */
export function readBytes(file: number, from: number, to: number): Buffer {
  const bytes = Buffer.allocUnsafe(to - from);
  return bytes.subarray(0, fs.readSync(file, bytes, 0, bytes.length, from));
}
