import * as fs from 'node:fs';
import type { Mark } from '../protocol/mark.ts';
import { checked, crcOf } from './checksum.ts';
import { field } from './field.ts';
import type { SessionPaths } from './layout.ts';
import { lineBefore } from './lines.ts';
import { openSegments } from './segments.ts';

/**
 * Whether the record ends with the event at that mark: then whoever knows what it means up to there knows all of it. Reads that one
 * line, and without the events' schemas. What is wrong with a record is told by who reads it; here it just does not end so.
 */
export function endsAt(paths: SessionPaths, { seq, segment, offset, crc }: Mark): boolean {
  try {
    const segments = openSegments(paths);
    if (!segments) return false;
    try {
      const { number, file, end } = segments.current;
      const bytes = number === segment && end === offset ? lineBefore(file, offset) : undefined;
      return bytes !== undefined && crcOf(bytes) === crc && field(checked(bytes)?.value, 'seq') === seq;
    } finally {
      segments.close();
    }
  } catch {
    return false;
  }
}

/** Whether nothing has been recorded yet. */
export function isUnwritten(paths: SessionPaths): boolean {
  return [paths.events, paths.sealed].every((path) => !fs.lstatSync(path, { throwIfNoEntry: false }));
}
