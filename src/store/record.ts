import * as fs from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { errorCode, UserError } from '../protocol/errors.ts';
import type { Event } from '../protocol/event.ts';
import { inWords, RecordCorrupt } from './errors.ts';
import { decodeLine } from './line.ts';

const CHUNK = 256 * 1024;
const LONGEST_TAIL = 64 * 1024 * 1024;
const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;

/** How far a record can be trusted: bytes and last seq of the good part, and the bytes of a torn end behind it. */
export type Extent = { good: number; seq: number; torn: number };

/**
 * Reads a record from its start without changing anything; `torn` is an end that was never finished. Throws RecordCorrupt
 * for anything a crash cannot have done. Memory stays at the longest line. A missing file is an empty record.
 */
export async function readRecord(path: string, each: (event: Event) => void): Promise<Extent> {
  const file = await openRecord(path);
  if (!file) return { good: 0, seq: 0, torn: 0 };
  try {
    return await scan(path, file, each);
  } finally {
    await file.close();
  }
}

async function openRecord(path: string): Promise<FileHandle | undefined> {
  try {
    const file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if ((await file.stat()).isFile()) return file;
    await file.close();
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw inWords(error, 'read', path);
  }
  throw new UserError(`${path} must be a file, but something else is there. Move it away.`);
}

async function scan(path: string, file: FileHandle, each: (event: Event) => void): Promise<Extent> {
  const extent: Extent = { good: 0, seq: 0, torn: 0 };
  let bad: string | undefined;
  for await (const { bytes, whole } of lines(file)) {
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

async function* lines(file: FileHandle): AsyncGenerator<{ bytes: Buffer; whole: boolean }> {
  let parts: Buffer[] = [];
  for (;;) {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(CHUNK), 0, CHUNK);
    if (bytesRead === 0) break;
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

/** The last event of a record, found in its last bytes alone; undefined where there is none to be found there. */
export async function lastEventOf(path: string): Promise<Event | undefined> {
  const file = await openRecord(path);
  if (!file) return undefined;
  try {
    const { size } = await file.stat();
    for (let span = 64 * 1024; ; span *= 8) {
      const from = Math.max(0, size - span);
      const { buffer, bytesRead } = await file.read(Buffer.alloc(size - from), 0, size - from, from);
      const found = lastWhole(buffer.subarray(0, bytesRead));
      if (found || from === 0 || span >= LONGEST_TAIL) return found;
    }
  } finally {
    await file.close();
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
