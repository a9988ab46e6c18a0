import type { Event } from '../protocol/event.ts';
import type { RecordCorrupt } from './errors.ts';
import { type Edge, hasHole, sawSync } from './hole.ts';
import { decodeLine, type Line } from './line.ts';

/** What a segment holds from its first bad line on: it may be cut off, or this throws why it must not. */
export type Rest = { take(bytes: Buffer, line: Line): void; ended(): void };

/**
 * An end that was never finished is lines that cannot be read and nothing else. Good lines may follow only where all that cannot
 * be read holds zeros, they are numbered as what was lost leaves them, and nothing shows that it had been synced (see hole.ts).
 * `damaged` makes the error; `beside` looks for what was made only after a sync.
 */
export function restFrom(edge: Edge, damaged: (why?: string) => RecordCorrupt, beside: () => string | undefined): Rest {
  const seen = sawSync(edge);
  const synced = (how: string) => damaged(`it holds zeros where something had been synced: ${how}`);
  let isHole = true;
  let goes = false;
  // The first bad line was an event at least.
  let next = edge.seq + 2;
  let gap = true;

  const behind = (event: Event) => {
    if (!isHole) throw damaged();
    if (gap ? event.seq < next : event.seq !== next)
      throw damaged(`it holds zeros, and event ${event.seq} cannot follow`);
    const how = seen(event);
    if (how !== undefined) throw synced(how);
    next = event.seq + 1;
    gap = false;
    goes = true;
  };

  return {
    take(bytes, line) {
      const isZeros = !line.ok && hasHole(bytes);
      if (!line.ok) gap = true;
      if (!line.ok && !isZeros) isHole = false;
      // The line feed before it went with the zeros.
      const end = isZeros ? decodeLine(bytes.subarray(bytes.lastIndexOf(0) + 1)) : line;
      if (end.ok) behind(end.event);
      else if (!end.torn) throw damaged();
    },
    ended() {
      const how = goes ? beside() : undefined;
      if (how !== undefined) throw synced(how);
    },
  };
}
