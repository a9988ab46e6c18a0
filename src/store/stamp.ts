import type { Event, EventBody } from '../protocol/event.ts';
import { decodeLine, encodeLine } from './line.ts';

/**
 * The lines of events that follow event `seq`, and the events as they will be read back. Throws where a line could not be
 * read back, before a byte of it is written: such an event is a bug, and in the record it would stop the session for good.
 */
export function stampLines(
  bodies: EventBody[],
  { seq, epoch, at }: { seq: number; epoch: number; at: string },
): { text: string; events: Event[] } {
  const lines = bodies.map((body, index) => encodeLine({ v: 1, seq: seq + index + 1, epoch, at }, body));
  const events = lines.map((text) => {
    const line = decodeLine(Buffer.from(text.slice(0, -1)));
    if (!line.ok) throw new Error(`Not recorded, since it could not be read back: ${line.why}: ${text.slice(0, 500)}`);
    return line.event;
  });
  return { text: lines.join(''), events };
}
