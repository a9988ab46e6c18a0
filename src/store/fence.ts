import type { Place } from '../protocol/event.ts';
import type { Mark } from '../protocol/mark.ts';
import { decodeLine, epochOf } from './line.ts';
import { linesOf } from './lines.ts';
import type { Segments } from './segments.ts';

/** The first line of an epoch: where it is, and how far its writer had read when it began. */
type Reign = { epoch: number; at: Place; from: Place };

const isBefore = (a: Place, b: Place) => (a.segment === b.segment ? a.offset < b.offset : a.segment < b.segment);

/** Which lines count, asked in the order of the record. */
export type View = { counts(at: Place, epoch: number): boolean };

/**
 * What a record says, where more than one daemon wrote to it: the view of the highest epoch, which is what its writer had read
 * (found by the same rule) and what it wrote. All else is void. One look at the beginning of each line finds where epochs begin,
 * so that no line is told and taken back later. Undefined where the mark itself is in a void part. `epoch` is that of the mark.
 */
export async function viewFrom(segments: Segments, mark: Mark, epoch: number): Promise<View | undefined> {
  const reigns: Reign[] = [];
  let limit: Place = { segment: Number.POSITIVE_INFINITY, offset: 0 };
  for (const reign of (await reignsFrom(segments, mark, epoch)).reverse()) {
    // A writer's beginning that a later epoch does not know of is void, and so is what it made void.
    if (!isBefore(reign.at, limit)) continue;
    reigns.unshift(reign);
    limit = reign.from;
  }
  if (isBefore(limit, mark)) return undefined;
  let now = { epoch };
  return {
    counts(at, its) {
      for (let next = reigns[0]; next && !isBefore(at, next.at); next = reigns[0]) {
        now = next;
        reigns.shift();
      }
      return its === now.epoch && (!reigns[0] || isBefore(at, reigns[0].from));
    },
  };
}

/** Every line whose epoch is higher than all before it. */
async function reignsFrom(segments: Segments, mark: Mark, since: number): Promise<Reign[]> {
  const reigns: Reign[] = [];
  let newest = since;
  for (let number = mark.segment; number <= segments.current.number; number++) {
    const { file, start, end } = segments.open(number);
    for await (const batch of linesOf(file, number === mark.segment ? mark.offset : start.offset, end)) {
      for (const { bytes, at: offset } of batch) {
        const epoch = epochOf(bytes);
        if (epoch <= newest) continue;
        const line = decodeLine(bytes);
        if (!line.ok) continue;
        const at = { segment: number, offset };
        const { fence } = line.event;
        newest = epoch;
        // One that does not say where it began, began before the mark, whose writer then wrote behind it.
        const from = fence ?? (mark.offset > 0 ? { segment: 0, offset: 0 } : at);
        reigns.push({ epoch, at, from: isBefore(from, at) ? from : at });
      }
    }
  }
  return reigns;
}
