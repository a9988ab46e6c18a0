import type { Event } from '../protocol/event.ts';
import { BEGINNING, type Mark } from '../protocol/mark.ts';
import { crcOf } from './checksum.ts';
import { viewFrom } from './fence.ts';
import type { SessionPaths } from './layout.ts';
import { decodeLine } from './line.ts';
import { lineBefore } from './lines.ts';
import { type Extent, NOTHING, scan, type Told } from './scan.ts';
import { corrupt, headerOf, openSegments, type Segments } from './segments.ts';

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
    if (epoch !== undefined && view) return yield* scan(paths, segments, start, epoch, view);
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
