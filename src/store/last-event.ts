import * as fs from 'node:fs';
import type { Event } from '../protocol/event.ts';
import type { SessionPaths } from './layout.ts';
import { decodeLine, epochOf } from './line.ts';
import { readAt } from './lines.ts';
import { headerOf, openRegular, sealedNumbers } from './segments.ts';

const TAIL = 8 * 1024;
const LONGEST_TAIL = 64 * 1024 * 1024;

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
