import * as fs from 'node:fs';
import type { Event } from '../protocol/event.ts';
import { BEGINNING, type Mark } from '../protocol/mark.ts';
import { crcOf } from './checksum.ts';
import type { RecordCorrupt } from './errors.ts';
import type { View } from './fence.ts';
import { noTurn, sawSyncBeside, type Turn, turnAfter } from './hole.ts';
import type { SessionPaths } from './layout.ts';
import { decodeLine, type Line } from './line.ts';
import { lineNumber, linesOf } from './lines.ts';
import { type Rest, restFrom } from './rest.ts';
import { corrupt, type Segment, type Segments } from './segments.ts';

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
export const NOTHING: Extent = {
  mark: BEGINNING,
  segment: 1,
  good: 0,
  torn: 0,
  crc: BEGINNING.crc,
  epoch: 0,
  voids: 0,
};

/** An event as it stands in the record, and the byte of its segment that it ends at. */
export type Told = { event: Event; bytes: Buffer; segment: number; end: number };

/** Tells the events behind a mark whose epoch is known. */
export async function* scan(
  paths: SessionPaths,
  segments: Segments,
  start: Mark,
  epoch: number,
  view: View,
): AsyncGenerator<Told[], Extent> {
  const extent: Extent = { ...NOTHING, mark: start, good: start.offset, crc: start.crc, epoch };
  let turn = noTurn();
  for (let number = start.segment; number <= segments.current.number; number++) {
    const segment = segments.open(number);
    extent.segment = number;
    if (number > start.segment) follow(extent, segment);
    turn = yield* scanSegment(paths, segment, extent, view, turn);
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

async function* scanSegment(
  paths: SessionPaths,
  segment: Segment,
  extent: Extent,
  view: View,
  before: Turn,
): AsyncGenerator<Told[], Turn> {
  const { file, path, number, end } = segment;
  let turn = before;
  let rest: Rest | undefined;
  const fail = (at: number, why: string) => corrupt(path, `line ${lineNumber(file, at)} cannot be trusted: ${why}`);
  for await (const batch of linesOf(file, extent.good, end)) {
    const told: Told[] = [];
    for (const { bytes, at, whole } of batch) {
      const line: Line = whole ? decodeLine(bytes) : { ok: false, torn: true, why: 'it has no end' };
      if (rest || !line.ok) {
        if (!line.ok) rest ??= restOf(paths, segment, extent, turn, (why) => fail(at, why ?? line.why));
        rest?.take(bytes, line);
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
      turn = turnAfter(turn, event);
      told.push({ event, bytes, segment: number, end: extent.good });
    }
    yield told;
  }
  rest?.ended();
  return turn;
}

/** What is left once a line cannot be read. Of a segment that is sealed, nothing may be: all of it was synced. */
function restOf(
  paths: SessionPaths,
  { number, next }: Segment,
  { mark, good, epoch }: Extent,
  turn: Turn,
  damaged: (why?: string) => RecordCorrupt,
): Rest {
  if (next) throw damaged();
  const edge = { seq: mark.seq, epoch, segment: number, offset: good, turn };
  return restFrom(edge, damaged, () => sawSyncBeside(paths, edge));
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
