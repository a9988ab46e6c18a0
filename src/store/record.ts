import * as fs from 'node:fs';
import type { Event } from '../protocol/event.ts';
import { BEGINNING, type Mark } from '../protocol/mark.ts';
import { type View, viewFrom } from './fence.ts';
import type { SessionPaths } from './layout.ts';
import { crcOf, decodeLine, epochOf } from './line.ts';
import { lineBefore, lineNumber, linesOf, readAt } from './lines.ts';
import {
  corrupt,
  headerOf,
  openRegular,
  openSegments,
  type Segment,
  type Segments,
  sealedNumbers,
} from './segments.ts';

const TAIL = 8 * 1024;
const LONGEST_TAIL = 64 * 1024 * 1024;

/**
 * How far a record can be trusted. `mark`: the end of its last event. `segment`, `good`, `torn`: the file that is written to, the
 * bytes of its good part, and those of an end that was never finished. `crc`: of its last good line. `epoch`: the newest.
 * `voids`: lines of an earlier owner that a later one did not know of.
 */
export type Extent = {
  mark: Mark;
  segment: number;
  good: number;
  torn: number;
  crc: string;
  epoch: number;
  voids: number;
};
const NOTHING: Extent = { mark: BEGINNING, segment: 1, good: 0, torn: 0, crc: BEGINNING.crc, epoch: 0, voids: 0 };

/** An event as it stands in the record, and the byte of its segment that it ends at. */
export type Told = { event: Event; bytes: Buffer; segment: number; end: number };

/** Where a reading begins: the very beginning, a mark, or the oldest event that retention has left. */
export type From = Mark | 'oldest';

/**
 * Reads a record from a place on without changing anything; `torn` is an end that was never finished. Throws RecordCorrupt for
 * anything a crash cannot have done. Memory stays at the longest line. 'unfit': it does not have that mark.
 */
export async function readRecord(
  paths: SessionPaths,
  each: (event: Event) => void,
  from: From = BEGINNING,
): Promise<Extent | 'unfit'> {
  const told = tellRecord(paths, from);
  for (;;) {
    const { done, value } = await told.next();
    if (done) return value;
    for (const { event } of value) each(event);
  }
}

/** The same, some events at a time, with their lines. */
export async function* tellRecord(paths: SessionPaths, from: From): AsyncGenerator<Told[], Extent | 'unfit'> {
  const segments = openSegments(paths);
  if (!segments) return from === 'oldest' || from.offset === 0 ? NOTHING : 'unfit';
  try {
    const start = from === 'oldest' ? segments.open(segments.oldest).start : from;
    const epoch = epochAt(segments, start);
    const view = epoch === undefined ? undefined : await viewFrom(segments, start, epoch);
    if (epoch !== undefined && view) return yield* scan(segments, start, epoch, view);
    if (start.offset === 0 && start.seq === 0) throw beginningGone(segments);
    return 'unfit';
  } finally {
    segments.close();
  }
}

/** Where to begin to read so that event `seq` is told, with no more before it than its segment has. Makes and checks nothing. */
export function startFor(paths: SessionPaths, seq: number): From {
  const segments = seq > 1 ? openSegments(paths) : undefined;
  if (!segments) return 'oldest';
  try {
    for (let number = segments.current.number; number > segments.oldest; number--) {
      const { start } = segments.open(number);
      if (start.seq < seq) return start;
    }
    return 'oldest';
  } finally {
    segments.close();
  }
}

/** Whether the record has that mark. Reads the one line that ends there. */
export function hasMark(paths: SessionPaths, mark: Mark): boolean {
  const segments = openSegments(paths);
  try {
    return segments ? epochAt(segments, mark) !== undefined : mark.offset === 0 && mark.seq === 0;
  } finally {
    segments?.close();
  }
}

/** The epoch of the line that ends at a mark; undefined where that line does not end there. */
function epochAt(segments: Segments, { seq, segment, offset, crc }: Mark): number | undefined {
  if (segment < segments.oldest || segment > segments.current.number) return undefined;
  if (offset === 0) return segment === 1 && seq === 0 ? 0 : undefined;
  const { file, end } = segments.open(segment);
  const bytes = offset <= end ? lineBefore(file, offset) : undefined;
  if (!bytes || crcOf(bytes) !== crc) return undefined;
  const header = headerOf(bytes);
  if (header) return header.prev_last_seq === seq ? header.epoch : undefined;
  const line = decodeLine(bytes);
  return line.ok && line.event.seq === seq ? line.event.epoch : undefined;
}

const beginningGone = ({ oldest, current, open }: Segments) =>
  corrupt(
    current.path,
    `the snapshot that stands for events 1 to ${open(oldest).start.seq}, which retention removed, cannot be used`,
  );

async function* scan(segments: Segments, start: Mark, epoch: number, view: View): AsyncGenerator<Told[], Extent> {
  const extent: Extent = { ...NOTHING, mark: start, good: start.offset, crc: start.crc, epoch };
  for (let number = start.segment; number <= segments.current.number; number++) {
    const segment = segments.open(number);
    extent.segment = number;
    if (number > start.segment) follow(extent, segment);
    yield* scanSegment(segment, extent, view);
    if (segment.next) await sealedWell(segment, segment.next, extent);
  }
  return extent;
}

/** Goes on in the next segment. The mark goes along where all before it counts. */
function follow(extent: Extent, { start, header }: Segment): void {
  if (extent.mark.offset === extent.good && header?.prev_last_seq === extent.mark.seq) extent.mark = start;
  extent.good = start.offset;
  extent.crc = start.crc;
}

async function* scanSegment(segment: Segment, extent: Extent, view: View): AsyncGenerator<Told[]> {
  const { file, path, number, end } = segment;
  let bad: { at: number; why: string } | undefined;
  const fail = (at: number, why: string) => corrupt(path, `line ${lineNumber(file, at)} cannot be trusted: ${why}`);
  for await (const batch of linesOf(file, extent.good, end)) {
    const told: Told[] = [];
    for (const { bytes, at, whole } of batch) {
      const line = whole ? decodeLine(bytes) : ({ ok: false, torn: true, why: 'it has no end' } as const);
      if (bad && (line.ok || !line.torn)) throw fail(bad.at, bad.why);
      if (!line.ok) {
        if (!line.torn) throw fail(at, line.why);
        bad ??= { at, why: line.why };
        extent.torn += bytes.length + (whole ? 1 : 0);
        continue;
      }
      const { event } = line;
      extent.good = at + bytes.length + 1;
      extent.crc = crcOf(bytes) ?? '';
      extent.epoch = Math.max(extent.epoch, event.epoch);
      if (!view.counts({ segment: number, offset: at }, event.epoch)) {
        extent.voids++;
        continue;
      }
      const seq = extent.mark.seq + 1;
      if (event.seq !== seq) throw fail(at, `it is event ${event.seq}, but event ${seq} belongs there`);
      extent.mark = { seq, segment: number, offset: extent.good, crc: extent.crc };
      told.push({ event, bytes, segment: number, end: extent.good });
    }
    yield told;
  }
  if (bad && segment.next) throw fail(bad.at, bad.why);
}

/** A sealed segment ends as the next one says. What a fenced daemon wrote behind that is void; nobody else may have. */
async function sealedWell({ file, path, end }: Segment, next: NonNullable<Segment['next']>, extent: Extent) {
  if (extent.good !== end || extent.crc !== next.prev_crc) {
    throw corrupt(path, 'it does not end as it did when it was sealed');
  }
  for await (const batch of linesOf(file, end, fs.fstatSync(file).size)) {
    for (const { bytes } of batch) {
      const line = decodeLine(bytes);
      if (line.ok && line.event.epoch >= next.epoch) throw corrupt(path, 'somebody wrote to it after it was sealed');
      extent.voids++;
    }
  }
}

/**
 * The last event of a record, found in its last bytes alone; undefined where there is none to be found there. Read at once:
 * among thousands of sessions the way to another thread and back takes longer than the read.
 */
export function lastEventOf(paths: SessionPaths): Event | undefined {
  const last = lastIn(paths.events);
  if (last !== 'sealed') return last;
  const number = sealedNumbers(paths).at(-1);
  const before = number === undefined ? undefined : lastIn(paths.segment(number));
  return before === 'sealed' ? undefined : before;
}

/** 'sealed': the file holds its header and nothing else, so what was last is in the segment before. */
function lastIn(path: string): Event | 'sealed' | undefined {
  const file = openRegular(path);
  if (file === undefined) return undefined;
  try {
    const { size } = fs.fstatSync(file);
    for (let span = TAIL; ; span *= 8) {
      const from = Math.max(0, size - span);
      const found = lastWhole(readAt(file, from, size));
      if (found || from === 0 || span >= LONGEST_TAIL) return found;
    }
  } finally {
    fs.closeSync(file);
  }
}

/** The last line of the highest epoch: what came behind it from a lower one is void. */
function lastWhole(bytes: Buffer): Event | 'sealed' | undefined {
  let last: Event | undefined;
  for (let end = bytes.lastIndexOf(10); end > 0; ) {
    const start = bytes.lastIndexOf(10, end - 1);
    const text = bytes.subarray(start + 1, end);
    if (!last && headerOf(text)) return 'sealed';
    const line = epochOf(text) > (last?.epoch ?? 0) ? decodeLine(text) : undefined;
    if (line?.ok) last = line.event;
    if (start < 0) return last;
    end = start;
  }
  return last;
}
