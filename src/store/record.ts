import * as fs from 'node:fs';
import { promisify } from 'node:util';
import { errorCode, UserError } from '../protocol/errors.ts';
import type { Event } from '../protocol/event.ts';
import { BEGINNING, type Mark } from '../protocol/mark.ts';
import { inWords, RecordCorrupt } from './errors.ts';
import type { SessionPaths } from './layout.ts';
import { crcOf, decodeLine } from './line.ts';

const CHUNK = 256 * 1024;
const TAIL = 8 * 1024;
const LONGEST_TAIL = 64 * 1024 * 1024;
const readPart = promisify(fs.read);
const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;

/** How far a record can be trusted: bytes and last seq of the good part, and the bytes of a torn end behind it. */
export type Extent = { good: number; seq: number; torn: number; crc: string };

/**
 * Reads a record from its start without changing anything; `torn` is an end that was never finished. Throws RecordCorrupt
 * for anything a crash cannot have done. Memory stays at the longest line. A missing file is an empty record.
 */
export async function readRecord(path: string, each: (event: Event) => void, from: Mark = BEGINNING): Promise<Extent> {
  const file = openRecord(path);
  if (file === undefined) return { good: 0, seq: 0, torn: 0, crc: BEGINNING.crc };
  try {
    return await scan(path, file, each, from);
  } finally {
    fs.closeSync(file);
  }
}

function openRecord(path: string): number | undefined {
  try {
    const file = fs.openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (fs.fstatSync(file).isFile()) return file;
    fs.closeSync(file);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw inWords(error, 'read', path);
  }
  throw new UserError(`${path} must be a file, but something else is there. Move it away.`);
}

async function scan(path: string, file: number, each: (event: Event) => void, from: Mark): Promise<Extent> {
  const extent: Extent = { good: from.offset, seq: from.seq, torn: 0, crc: from.crc };
  let bad: string | undefined;
  for await (const { bytes, whole } of lines(file, from.offset)) {
    const line = whole ? decodeLine(bytes) : ({ ok: false, torn: true, why: 'it has no end' } as const);
    const number = extent.seq + 1;
    if (bad !== undefined && (line.ok || !line.torn)) throw corrupt(path, number, bad);
    if (!line.ok && !line.torn) throw corrupt(path, number, line.why);
    if (line.ok && line.event.seq !== number) {
      throw corrupt(path, number, `it is event ${line.event.seq}, but event ${number} belongs there`);
    }
    if (line.ok) {
      each(line.event);
      extent.good += bytes.length + 1;
      extent.seq = number;
      extent.crc = crcOf(bytes) ?? '';
    } else {
      bad ??= line.why;
      extent.torn += bytes.length + (whole ? 1 : 0);
    }
  }
  return extent;
}

// The number of a line is the seq that belongs there: seq has no gaps, so before the first bad line both are the same.
const corrupt = (path: string, line: number, why: string) =>
  new RecordCorrupt(
    path,
    `line ${line} cannot be trusted: ${why}. Nothing was changed. Put back a copy of the file from a backup, or move the ` +
      'session folder away; the daemon leaves this session alone until then.',
  );

async function* lines(file: number, start: number): AsyncGenerator<{ bytes: Buffer; whole: boolean }> {
  let parts: Buffer[] = [];
  for (let at = start; ; ) {
    const { buffer, bytesRead } = await readPart(file, Buffer.alloc(CHUNK), 0, CHUNK, at);
    if (bytesRead === 0) break;
    at += bytesRead;
    let from = 0;
    for (let to = buffer.indexOf(10); to >= 0 && to < bytesRead; to = buffer.indexOf(10, from)) {
      yield { bytes: Buffer.concat([...parts, buffer.subarray(from, to)]), whole: true };
      parts = [];
      from = to + 1;
    }
    if (from < bytesRead) parts.push(buffer.subarray(from, bytesRead));
  }
  if (parts.length > 0) yield { bytes: Buffer.concat(parts), whole: false };
}

/** Whether event `seq` of the record ends at the mark with that crc. */
export function hasMark(paths: SessionPaths, { seq, segment, offset, crc }: Mark): boolean {
  if (segment !== 1) return false;
  if (offset === 0) return seq === 0;
  const file = openRecord(paths.events);
  if (file === undefined) return false;
  try {
    if (fs.fstatSync(file).size < offset) return false;
    for (let span = TAIL; ; span *= 8) {
      const from = Math.max(0, offset - span);
      const bytes = Buffer.alloc(offset - from);
      fs.readSync(file, bytes, 0, bytes.length, from);
      if (bytes.at(-1) !== 10) return false;
      const start = bytes.lastIndexOf(10, bytes.length - 2);
      if (start < 0 && from > 0 && span < LONGEST_TAIL) continue;
      const text = bytes.subarray(start + 1, -1);
      const line = decodeLine(text);
      return line.ok && line.event.seq === seq && crcOf(text) === crc;
    }
  } finally {
    fs.closeSync(file);
  }
}

/**
 * The last event of a record, found in its last bytes alone; undefined where there is none to be found there. Read at once:
 * among thousands of sessions the way to another thread and back takes longer than the read.
 */
export function lastEventOf(path: string): Event | undefined {
  const file = openRecord(path);
  if (file === undefined) return undefined;
  try {
    const { size } = fs.fstatSync(file);
    for (let span = TAIL; ; span *= 8) {
      const from = Math.max(0, size - span);
      const bytes = Buffer.allocUnsafe(size - from);
      const found = lastWhole(bytes.subarray(0, fs.readSync(file, bytes, 0, bytes.length, from)));
      if (found || from === 0 || span >= LONGEST_TAIL) return found;
    }
  } finally {
    fs.closeSync(file);
  }
}

function lastWhole(bytes: Buffer): Event | undefined {
  for (let end = bytes.lastIndexOf(10); end > 0; ) {
    const start = bytes.lastIndexOf(10, end - 1);
    const line = decodeLine(bytes.subarray(start + 1, end));
    if (line.ok) return line.event;
    if (start < 0) return undefined;
    end = start;
  }
  return undefined;
}
