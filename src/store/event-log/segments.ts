import * as fs from 'node:fs';
import { basename, dirname } from 'node:path';
import { z } from 'zod';
import { propertyOf } from '../../base/collections.ts';
import { quoteForShell } from '../../base/strings.ts';
import { LOG_START, type LogPosition } from '../../protocol/session/log-entry.ts';
import { readableName } from '../../protocol/workspace/session-names.ts';
import { listNames, openRegularFile } from '../fs/file-reads.ts';
import { CorruptLogError, wrapDiskErrors } from '../fs/store-errors.ts';
import type { SessionPaths } from '../layout/layout.ts';
import {
  crcOfLine,
  encodeLineWithCrc,
  parseCheckedLine,
  readBytes,
  readFirstLine,
  readLineBefore,
} from './log-lines.ts';

/** First line of every segment but the first: what it follows, byte for byte. It is not an event and has no `seq`. */
const SegmentHeader = z.object({
  v: z.literal(1),
  segment: z.int().min(2),
  epoch: z.int().min(1),
  at: z.string(),
  /** Who began it, where several processes write one log (docs/decisions/0052-segments.md). */
  owner: z.string().optional(),
  prev: z.string(),
  prev_last_seq: z.int().min(0),
  prev_bytes: z.int().min(0),
  prev_crc: z.string(),
});
export type SegmentHeader = z.infer<typeof SegmentHeader>;

/** Encodes a segment header as a line with its crc and line feed. */
export const encodeSegmentHeader = (header: Omit<SegmentHeader, 'v'>): string => encodeLineWithCrc({ v: 1, ...header });

/** Decodes a header line; undefined for any other line. */
export function decodeSegmentHeader(bytes: Buffer | undefined): SegmentHeader | undefined {
  if (!bytes?.subarray(0, 20).toString('latin1').startsWith('{"v":1,"segment":')) return undefined;
  return SegmentHeader.safeParse(parseCheckedLine(bytes)?.value).data;
}

/**
 * One open file of an event log. Its events lie between `start` and byte `end`. `next`: the header of the next segment.
 */
export type Segment = {
  number: number;
  path: string;
  file: number;
  start: LogPosition;
  end: number;
  header: SegmentHeader | undefined;
  next?: SegmentHeader | undefined;
};

/** The files of an event log; rotated ones are opened on demand. */
export type SegmentFiles = { oldest: number; current: Segment; open(number: number): Segment; close(): void };

/**
 * Opens an event log for reading while its writer may be active: the folder is listed before the current file is
 * opened, and a segment is rotated before the next one takes its place. Undefined if there is no log yet. Throws
 * CorruptLogError if a file is missing. `until`: reads a log as if that rotated segment were its current file.
 */
export function openSegments(paths: SessionPaths, until?: number): SegmentFiles | undefined {
  const rotated = listRotatedSegments(paths).filter((number) => until === undefined || number < until);
  const files = new Map<number, Segment>();
  const read = (path: string): Segment | undefined => {
    const file = openRegularFile(path);
    if (file === undefined) return undefined;
    const first = readFirstLine(file);
    const header = decodeSegmentHeader(first);
    const start = header && first ? positionAfterHeader(header, first) : LOG_START;
    return { number: header?.segment ?? 1, path, file, header, start, end: fs.fstatSync(file).size };
  };
  const close = () => {
    for (const { file } of files.values()) fs.closeSync(file);
    files.clear();
  };
  const openSegment = (number: number, path: string): Segment => {
    const segment = files.get(number) ?? read(path);
    if (!segment) throw corruptLog(path, 'it is missing');
    files.set(number, segment);
    if (segment.number === number) return segment;
    throw corruptLog(path, `it begins as segment ${segment.number}`);
  };
  /** Two open files besides the current one suffice for reading in order. */
  const closeOthers = (number: number) => {
    for (const [other, { file }] of files) {
      if (other === number || other === number + 1 || other === current?.number) continue;
      fs.closeSync(file);
      files.delete(other);
    }
  };
  /** One that has an owner has its number from its beginning, and is moved to `events.jsonl` only then. */
  const readNewest = (): Segment | undefined => {
    const named = read(paths.events);
    const last = rotated.at(-1);
    if (!named || last === undefined || last <= named.number) return named;
    const numbered = read(paths.segment(last));
    const isOwned = numbered?.header?.owner !== undefined && numbered.number === last;
    for (const other of [isOwned ? named : numbered]) if (other) fs.closeSync(other.file);
    return isOwned ? numbered : named;
  };
  const readAsCurrent = (number: number): Segment => {
    try {
      return openSegment(number, paths.segment(number));
    } catch (error) {
      close();
      throw error;
    }
  };
  const current = until === undefined ? readNewest() : readAsCurrent(until);
  try {
    if (!current) {
      if (rotated.length > 0)
        throw corruptLog(paths.events, `it is missing, and segment ${rotated.at(-1)} was before it`);
      return undefined;
    }
    files.set(current.number, current);
    const oldest = findOldestSegment(paths, rotated, current);
    return {
      oldest,
      current,
      open(number) {
        if (number === current.number) return current;
        closeOthers(number);
        const segment = openSegment(number, paths.segment(number));
        const next = openSegment(number + 1, number + 1 === current.number ? current.path : paths.segment(number + 1));
        const end = next.header?.prev_bytes ?? 0;
        const size = fs.fstatSync(segment.file).size;
        if (size >= end) return { ...segment, end, next: next.header };
        throw corruptLog(segment.path, `it has ${size} bytes, expected ${end} (its size when it was closed)`);
      },
      close,
    };
  } catch (error) {
    close();
    throw error;
  }
}

/** Numbers of the rotated segments, in order. */
export function listRotatedSegments(paths: SessionPaths): number[] {
  const numbers = listNames(paths.rotated).flatMap((name) =>
    /^\d{6,}\.jsonl$/.test(name) ? [Number.parseInt(name, 10)] : [],
  );
  return numbers.sort((a, b) => a - b);
}

/** The oldest segment that is kept. Throws if one is missing that retention did not remove. */
function findOldestSegment(paths: SessionPaths, rotated: number[], current: Segment): number {
  const last = rotated.at(-1) ?? 0;
  if (last > current.number || (last === current.number && isLongerThan(paths.segment(last), current.file))) {
    throw corruptLog(paths.events, `it is segment ${current.number}, and ${paths.segment(last)} is newer`);
  }
  let oldest = current.number;
  while (rotated.includes(oldest - 1)) oldest--;
  const isGap = rotated.some((number) => number < oldest);
  if (oldest === 1 || (!isGap && fs.existsSync(paths.base))) return oldest;
  throw corruptLog(paths.segment(oldest - 1), 'it is missing');
}

/** A crash during rotation leaves a second name or a copy of the current file; a longer one belongs to another log. */
function isLongerThan(path: string, file: number): boolean {
  const [rotated, current] = [fs.lstatSync(path), fs.fstatSync(file)];
  return rotated.ino !== current.ino && rotated.size > current.size;
}

const positionAfterHeader = (header: SegmentHeader, line: Buffer): LogPosition => ({
  seq: header.prev_last_seq,
  segment: header.segment,
  offset: line.length + 1,
  crc: crcOfLine(line) ?? '',
});

/** The error for an event log that cannot be trusted, saying what to do. `path`: the damaged file. */
export const corruptLog = (path: string, why: string) => new CorruptLogError(path, `${why}. ${corruptLogAdvice(path)}`);

function corruptLogAdvice(path: string): string {
  const session = basename(dirname(path).replace(/\/events$/, ''));
  return (
    'Nothing was changed. Restore the session from a backup, or go on with what can be read: ' +
    `agentctl repair ${quoteForShell(readableName(session))} says what would be lost. The daemon does not serve this session until then.`
  );
}

/** The error for a line that is complete and not in a format of this version. */
export const otherVersionsLog = (path: string, why: string) =>
  new CorruptLogError(path, `${why}. ${OTHER_VERSION_ADVICE}`, true);

const OTHER_VERSION_ADVICE =
  'Nothing was changed. Start the version of agentd that wrote it, most likely a newer one than this; the daemon does ' +
  'not serve this session until then.';

/** Whether the log ends with the event at that position: then a snapshot taken there is complete. */
export const logEndsAt = (paths: SessionPaths, mark: LogPosition): boolean =>
  readAppended(paths, mark, 0) !== undefined;

/**
 * What the current file has after the event at that position; undefined if it does not have that event, or if more than
 * `most` bytes follow. Reads only that line and what follows, without checking schemas. Damage is treated as a missing
 * event, since the log's reader reports it.
 */
export function readAppended(
  paths: SessionPaths,
  { seq, segment, offset, crc }: LogPosition,
  most: number,
): Buffer | undefined {
  try {
    const segments = openSegments(paths);
    if (!segments) return undefined;
    try {
      const { number, file, end } = segments.current;
      if (number !== segment || end < offset || end > offset + most) return undefined;
      const bytes = readLineBefore(file, offset);
      const isThere =
        bytes !== undefined && crcOfLine(bytes) === crc && propertyOf(parseCheckedLine(bytes)?.value, 'seq') === seq;
      return isThere ? readBytes(file, offset, end) : undefined;
    } finally {
      segments.close();
    }
  } catch {
    return undefined;
  }
}

/** Whether nothing has been written yet. */
export function isLogEmpty(paths: SessionPaths): boolean {
  return [paths.events, paths.rotated].every((path) =>
    wrapDiskErrors('read', path, () => !fs.lstatSync(path, { throwIfNoEntry: false })),
  );
}
