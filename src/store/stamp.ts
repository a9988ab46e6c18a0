import type { ZodType } from 'zod';
import { type Event, EventBody, type Place, type Stamp } from '../protocol/event.ts';
import { encodeLine } from './line.ts';

/**
 * The lines of events that follow event `seq`, the first of them with the fence, and the events as they will be read back. Throws where a line could not be
 * read back, before a byte of it is written: such an event is a bug, and in the record it would stop the session for good.
 */
export function stampLines(
  bodies: EventBody[],
  { seq, epoch, at, fence }: { seq: number; epoch: number; at: string; fence?: Place | undefined },
): { text: string; events: Event[] } {
  const first: Stamp = { v: 1, seq: seq + 1, epoch, at, ...(fence && { fence }) };
  const lines = bodies.map((raw, index) => {
    const stamp = index === 0 ? first : { v: first.v, seq: first.seq + index, epoch, at };
    const body = readBack(EventBody, raw);
    return { text: encodeLine(stamp, body), event: Object.assign({ ...stamp }, body) };
  });
  return { text: lines.map((line) => line.text).join(''), events: lines.map((line) => line.event) };
}

/** What JSON and the schema make of it: reading the line does the same once more. */
function readBack<T>(schema: ZodType<T>, value: unknown): T {
  const text = JSON.stringify(value);
  const read = schema.safeParse(JSON.parse(text));
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  const why = `its content does not fit: ${issue?.path.join('.')}: ${issue?.message}`;
  throw new Error(`Not recorded, since it could not be read back: ${why}: ${text.slice(0, 500)}`);
}
