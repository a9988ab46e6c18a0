import * as fs from 'node:fs';
import { promisify } from 'node:util';

const CHUNK = 256 * 1024;
const TAIL = 8 * 1024;
const LONGEST_TAIL = 64 * 1024 * 1024;
/** Read without another thread: going there and back takes longer than so short a read. */
const AT_ONCE = 64 * 1024;
const readAsync = promisify(fs.read);
const readPart = async (file: number, chunk: Buffer, at: number): Promise<number> =>
  (await readAsync(file, chunk, 0, chunk.length, at)).bytesRead;

/** A line without its line feed, and the byte of its file it begins at. `whole`: there is a line feed. */
export type RawLine = { bytes: Buffer; at: number; whole: boolean };

/** The lines of a file between two bytes, some at a time. Memory stays at a chunk and the longest line. */
export async function* linesOf(file: number, from: number, to: number): AsyncGenerator<RawLine[]> {
  let parts: Buffer[] = [];
  let at = from;
  for (let read = from; read < to; ) {
    const chunk = Buffer.allocUnsafe(Math.min(CHUNK, to - read));
    const bytesRead =
      chunk.length > AT_ONCE ? await readPart(file, chunk, read) : fs.readSync(file, chunk, 0, chunk.length, read);
    if (bytesRead === 0) break;
    read += bytesRead;
    const batch: RawLine[] = [];
    let start = 0;
    for (let end = chunk.indexOf(10); end >= 0 && end < bytesRead; end = chunk.indexOf(10, start)) {
      const rest = chunk.subarray(start, end);
      const bytes = parts.length > 0 ? Buffer.concat([...parts, rest]) : rest;
      parts = [];
      batch.push({ bytes, at, whole: true });
      at += bytes.length + 1;
      start = end + 1;
    }
    if (start < bytesRead) parts.push(chunk.subarray(start, bytesRead));
    yield batch;
  }
  if (parts.length > 0) yield [{ bytes: Buffer.concat(parts), at, whole: false }];
}

/** The line that ends before byte `end`, without its line feed; undefined where none ends there. */
export function lineBefore(file: number, end: number): Buffer | undefined {
  for (let span = TAIL; ; span *= 8) {
    const from = Math.max(0, end - span);
    const bytes = readAt(file, from, end);
    if (bytes.at(-1) !== 10) return undefined;
    const start = bytes.lastIndexOf(10, bytes.length - 2);
    if (start >= 0 || from === 0) return bytes.subarray(start + 1, -1);
    if (span >= LONGEST_TAIL) return undefined;
  }
}

/** The first line of a file, without its line feed; undefined where it has none within 4 KiB. */
export function firstLine(file: number): Buffer | undefined {
  const bytes = readAt(file, 0, 4096);
  const end = bytes.indexOf(10);
  return end < 0 ? undefined : bytes.subarray(0, end);
}

/** Which line of its file begins at a byte, as an editor counts: for words to people. */
export function lineNumber(file: number, at: number): number {
  let number = 1;
  for (let from = 0; from < at; from += CHUNK) {
    for (const byte of readAt(file, from, Math.min(at, from + CHUNK))) if (byte === 10) number++;
  }
  return number;
}

export function readAt(file: number, from: number, to: number): Buffer {
  const bytes = Buffer.allocUnsafe(to - from);
  return bytes.subarray(0, fs.readSync(file, bytes, 0, bytes.length, from));
}
