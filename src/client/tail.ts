import * as fs from 'node:fs';
import { StringDecoder } from 'node:string_decoder';
import type { Event } from '../protocol/event.ts';
import type { Mark } from '../protocol/mark.ts';
import { crcOf } from '../store/checksum.ts';
import { ifThere, saying } from '../store/errors.ts';
import type { SessionPaths } from '../store/layout.ts';
import { hasMark, startFor, tellRecord } from '../store/record.ts';

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;

export type RecordTail = {
  /** Events not told before, read from where the last call ended. An unfinished last line is left for the next call. */
  fresh(): AsyncGenerator<Line>;
};

/**
 * An event, and its line as it stands in the record. `again`: a later owner of the workspace did not know of what was told from
 * this seq on; that is void, and this takes its place.
 */
export type Line = { event: Event; line: string; again: boolean };

/** The growing end of a record, for readers beside its writer. Throws RecordCorrupt where the record cannot be trusted. */
export function recordTail(paths: SessionPaths, first = 1): RecordTail {
  let mark: Mark | undefined;
  let told = { seq: 0, epoch: 0 };

  async function* fresh(): AsyncGenerator<Line> {
    // A failed append is taken back. What was told of it stands; what comes in its place is told from there on.
    const from = mark && hasMark(paths, mark) ? mark : startFor(paths, first);
    const source = tellRecord(paths, from);
    for (;;) {
      const { done, value } = await source.next();
      if (done && value !== 'unfit') return;
      if (done) {
        mark = undefined;
        if (from !== 'oldest') yield* fresh();
        return;
      }
      for (const { event, bytes, segment, end } of value) {
        mark = { seq: event.seq, segment, offset: end, crc: crcOf(bytes) ?? '' };
        const again = event.seq <= told.seq;
        if (again && event.epoch <= told.epoch) continue;
        told = { seq: event.seq, epoch: event.epoch };
        yield { event, line: bytes.toString(), again };
      }
    }
  }

  return { fresh };
}

export type LiveTail = {
  /** Text that came since the last call. `began`: it belongs to another call of the model than the text before. */
  fresh(): { text: string; began: boolean };
  /** What is there now is not told. */
  skip(): void;
};

/** The text of the call in flight. The file is emptied when a call begins, so one that shrank is another call's. */
export function liveTail(path: string): LiveTail {
  let offset = 0;
  let decoder = new StringDecoder();
  return {
    fresh() {
      const fd = openToRead(path);
      if (fd === undefined) return { text: '', began: false };
      try {
        const { size } = fs.fstatSync(fd);
        const began = size < offset;
        if (began) {
          offset = 0;
          decoder = new StringDecoder();
        }
        const bytes = Buffer.alloc(size - offset);
        const count = fs.readSync(fd, bytes, 0, bytes.length, offset);
        offset += count;
        return { text: decoder.write(bytes.subarray(0, count)), began };
      } finally {
        fs.closeSync(fd);
      }
    },
    skip() {
      offset = ifThere(() => fs.statSync(path).size) ?? 0;
      decoder = new StringDecoder();
    },
  };
}

function openToRead(path: string): number | undefined {
  return saying('read', path, () => ifThere(() => fs.openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)));
}
