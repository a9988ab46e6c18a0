import * as fs from 'node:fs';
import type { Event } from '../../protocol/session/event.ts';
import { LOG_START, type LogPosition } from '../../protocol/session/log-entry.ts';
import { openRegularFile } from '../fs/file-reads.ts';
import type { CorruptLogError } from '../fs/store-errors.ts';
import type { SessionPaths } from '../layout/layout.ts';
import { type DecodedLine, decodeEventLine, epochOfLine } from './event-codec.ts';
import { crcOfLine, lineNumberAt, readBytes, readLineBefore, readLines } from './log-lines.ts';
import { type EpochView, findEventEnd, openEpochView } from './log-writers.ts';
import {
  corruptLog,
  decodeSegmentHeader,
  listRotatedSegments,
  openSegments,
  otherVersionsLog,
  type Segment,
  type SegmentFiles,
} from './segments.ts';
import { inspectTornTail, type TornTail } from './torn-tail.ts';

/** Where reading begins: the start of the log, a position, or the oldest event that retention has left. */
export type ReadStart = LogPosition | 'oldest';

/**
 * Reads an event log from a position on without changing it; `torn` is an incomplete end. Throws CorruptLogError for
 * any damage a crash cannot cause. Memory is bounded by the longest line. 'unfit': the log does not have that position.
 */
export async function readEventLog(
  paths: SessionPaths,
  each: (event: Event) => void,
  from: ReadStart = LOG_START,
): Promise<LogExtent | 'unfit'> {
  const batches = streamEventLog(paths, from);
  for (;;) {
    const { done, value } = await batches.next();
    if (done) return value;
    for (const { event } of value) each(event);
  }
}

/** The same in batches, with the lines. `until`: the log as if it ended with that segment. */
export async function* streamEventLog(
  paths: SessionPaths,
  from: ReadStart,
  until?: number,
): AsyncGenerator<StoredEvent[], LogExtent | 'unfit'> {
  const segments = openSegments(paths, until);
  if (!segments) return from === 'oldest' || from.offset === 0 ? EMPTY_EXTENT : 'unfit';
  try {
    const start = from === 'oldest' ? segments.open(segments.oldest).start : from;
    const epoch = epochAt(segments, start);
    const view = epoch === undefined ? undefined : await openEpochView(segments, start, epoch);
    if (epoch !== undefined && view) return yield* scanSegments(segments, start, epoch, view);
    if (start.offset === 0 && start.seq === 0) throw missingBeginning(segments);
    return 'unfit';
  } finally {
    segments.close();
  }
}

/**
 * Where to start reading to get event `seq`: at the end of the event before it, or at the nearest known position before
 * that. Reads the beginnings of the lines of one segment and checks nothing, so a start may turn out to be 'unfit'.
 */
export async function readStartFor(paths: SessionPaths, seq: number): Promise<ReadStart> {
  const segments = seq > 1 ? openSegments(paths) : undefined;
  if (!segments) return 'oldest';
  try {
    for (let number = segments.current.number; number >= segments.oldest; number--) {
      const segment = segments.open(number);
      const start = number === segments.oldest ? 'oldest' : segment.start;
      if (segment.start.seq === seq - 1) return start;
      if (segment.start.seq < seq || start === 'oldest') return (await findEventEnd(segment, seq - 1)) ?? start;
    }
    return 'oldest';
  } finally {
    segments.close();
  }
}

/** Whether the log has that position. Reads the one line that ends there. */
export function hasPosition(paths: SessionPaths, mark: LogPosition): boolean {
  const segments = openSegments(paths);
  try {
    return segments ? epochAt(segments, mark) !== undefined : mark.offset === 0 && mark.seq === 0;
  } finally {
    segments?.close();
  }
}

/** The epoch of the line that ends at a position; undefined if that line does not end there. */
function epochAt(segments: SegmentFiles, { seq, segment, offset, crc }: LogPosition): number | undefined {
  if (segment < segments.oldest || segment > segments.current.number) return undefined;
  if (offset === 0) return segment === 1 && seq === 0 ? 0 : undefined;
  const { file, end } = segments.open(segment);
  const bytes = offset <= end ? readLineBefore(file, offset) : undefined;
  if (!bytes || crcOfLine(bytes) !== crc) return undefined;
  const header = decodeSegmentHeader(bytes);
  if (header) return header.prev_last_seq === seq ? header.epoch : undefined;
  const line = decodeEventLine(bytes);
  return line.ok && line.event.seq === seq ? line.event.epoch : undefined;
}

const missingBeginning = ({ oldest, current, open }: SegmentFiles) =>
  corruptLog(
    current.path,
    `the snapshot that replaces events 1 to ${open(oldest).start.seq}, which retention removed, cannot be used`,
  );

/**
 * How far an event log can be trusted. `mark`: the end of its last event. `segment`, `good`, `torn`: the current file,
 * the length of its valid part, and that of an incomplete end. `crc`: of its last valid line. `epoch`: the newest.
 * `tornEpoch`: the newest that an incomplete end names. `voids`: lines of an earlier owner that a later one did not
 * see. `top`: the highest number of an event in what was read, these lines included.
 */
export type LogExtent = {
  mark: LogPosition;
  segment: number;
  good: number;
  torn: number;
  crc: string;
  epoch: number;
  tornEpoch: number;
  voids: number;
  top: number;
};
const EMPTY_EXTENT: LogExtent = {
  mark: LOG_START,
  segment: 1,
  good: 0,
  torn: 0,
  crc: LOG_START.crc,
  epoch: 0,
  tornEpoch: 0,
  voids: 0,
  top: 0,
};

/** An event as stored, and the offset in its segment at which it ends. */
type StoredEvent = { event: Event; bytes: Buffer; segment: number; end: number };

/** Yields the events after a position whose epoch is known. */
async function* scanSegments(
  segments: SegmentFiles,
  start: LogPosition,
  epoch: number,
  view: EpochView,
): AsyncGenerator<StoredEvent[], LogExtent> {
  const extent: LogExtent = { ...EMPTY_EXTENT, mark: start, good: start.offset, crc: start.crc, epoch };
  extent.top = start.seq;
  for (let number = start.segment; number <= segments.current.number; number++) {
    const segment = segments.open(number);
    extent.segment = number;
    if (number > start.segment) enterSegment(extent, segment);
    yield* scanSegment(segment, extent, view);
    if (segment.next) await verifyRotated(segment, segment.next, extent);
  }
  return extent;
}

/** Continues in the next segment. The position moves along if everything before it is valid. */
function enterSegment(extent: LogExtent, { start, header }: Segment): void {
  if (extent.mark.offset === extent.good && header?.prev_last_seq === extent.mark.seq) extent.mark = start;
  extent.good = start.offset;
  extent.crc = start.crc;
}

/** What precedes an untrusted line is yielded before the error. */
async function* scanSegment(segment: Segment, extent: LogExtent, view: EpochView): AsyncGenerator<StoredEvent[]> {
  const { file, number, end } = segment;
  let tail: TornTail | undefined;
  for await (const batch of readLines(file, extent.good, end)) {
    const events: StoredEvent[] = [];
    try {
      for (const { bytes, offset: at, hasLineFeed } of batch) {
        const line: DecodedLine = hasLineFeed
          ? decodeEventLine(bytes)
          : { ok: false, torn: true, why: 'it has no end' };
        if (tail || !line.ok) {
          if (!line.ok && !line.torn && !tail) throw otherVersionsLine(segment, at, line.why);
          if (!line.ok) tail ??= openTornTail(segment, extent, line.why);
          tail?.addLine(bytes, line);
          extent.torn += bytes.length + (hasLineFeed ? 1 : 0);
          extent.tornEpoch = Math.max(extent.tornEpoch, epochOfLine(bytes));
          continue;
        }
        if (takeLine(segment, extent, view, { bytes, at, event: line.event }))
          events.push({ event: line.event, bytes, segment: number, end: extent.good });
      }
    } catch (error) {
      yield events;
      throw error;
    }
    yield events;
  }
}

/** Moves the extent past a valid line; false if the line is void. */
function takeLine(
  segment: Segment,
  extent: LogExtent,
  view: EpochView,
  { bytes, at, event }: { bytes: Buffer; at: number; event: Event },
): boolean {
  extent.top = Math.max(extent.top, event.seq);
  const counts = view.counts({ segment: segment.number, offset: at }, event.epoch);
  const seq = extent.mark.seq + 1;
  if (counts && event.seq !== seq)
    throw untrustedLine(segment, at, `it is event ${event.seq}, but event ${seq} was expected`);
  extent.good = at + bytes.length + 1;
  extent.crc = crcOfLine(bytes) ?? '';
  extent.epoch = Math.max(extent.epoch, event.epoch);
  if (counts) extent.mark = { seq, segment: segment.number, offset: extent.good, crc: extent.crc };
  else extent.voids++;
  return counts;
}

/** Handles the rest after an unreadable line. In a rotated segment there may be none: all of it was synced. */
function openTornTail(segment: Segment, { mark, good }: LogExtent, why: string): TornTail {
  if (segment.next) throw untrustedLine(segment, good, why);
  return inspectTornTail(mark.seq, (other) => untrustedLine(segment, good, other ?? why));
}

const untrustedLine = ({ file, path }: Segment, at: number, why: string): CorruptLogError =>
  corruptLog(path, `line ${lineNumberAt(file, at)} cannot be trusted: ${why}`);

const otherVersionsLine = ({ file, path }: Segment, at: number, why: string): CorruptLogError =>
  otherVersionsLog(path, `line ${lineNumberAt(file, at)} cannot be read: ${why}`);

/**
 * A rotated segment ends where the next header says. What a fenced daemon wrote after that is void; nobody else may
 * have written there.
 */
async function verifyRotated({ file, path, end }: Segment, next: NonNullable<Segment['next']>, extent: LogExtent) {
  if (extent.good !== end || extent.crc !== next.prev_crc) {
    throw corruptLog(path, 'its end differs from when it was closed');
  }
  for await (const batch of readLines(file, end, fs.fstatSync(file).size)) {
    for (const { bytes } of batch) {
      const line = decodeEventLine(bytes);
      if (line.ok && line.event.epoch >= next.epoch) throw corruptLog(path, 'it was written to after it was closed');
      if (line.ok) extent.top = Math.max(extent.top, line.event.seq);
      extent.voids++;
    }
  }
}

const TAIL_BYTES = 8 * 1024;
const MAX_TAIL_BYTES = 64 * 1024 * 1024;

/**
 * The last event of an event log, read from its last bytes alone; undefined if none is found there. Synchronous: with
 * thousands of sessions the thread pool's round trip takes longer than the read.
 */
export function readLastEvent(paths: SessionPaths): Event | undefined {
  let last = lastEventInFile(paths.events);
  if (last !== 'empty') return last;
  for (const number of listRotatedSegments(paths).reverse()) {
    last = lastEventInFile(paths.segment(number));
    if (last !== 'empty') return last;
  }
  return undefined;
}

/** 'empty': the file contains only its header, so the last event is in the previous segment. */
function lastEventInFile(path: string): Event | 'empty' | undefined {
  const file = openRegularFile(path);
  if (file === undefined) return undefined;
  try {
    const { size } = fs.fstatSync(file);
    for (let span = TAIL_BYTES; ; span *= 8) {
      const from = Math.max(0, size - span);
      const found = lastCountedEvent(readBytes(file, from, size));
      if (found || from === 0 || span >= MAX_TAIL_BYTES) return found;
    }
  } finally {
    fs.closeSync(file);
  }
}

/** The last line of the highest epoch: later lines of a lower one are void. */
function lastCountedEvent(bytes: Buffer): Event | 'empty' | undefined {
  let last: Event | undefined;
  for (let end = bytes.lastIndexOf(10); end > 0; ) {
    const start = bytes.lastIndexOf(10, end - 1);
    const text = bytes.subarray(start + 1, end);
    if (!last && decodeSegmentHeader(text)) return 'empty';
    const line = epochOfLine(text) > (last?.epoch ?? 0) ? decodeEventLine(text) : undefined;
    if (line?.ok) last = line.event;
    if (start < 0) return last;
    end = start;
  }
  return last;
}
