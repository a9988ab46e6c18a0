import * as fs from 'node:fs';
import { StringDecoder } from 'node:string_decoder';
import type { Event } from '../protocol/event.ts';
import { ifThere, saying } from '../store/errors.ts';
import { decodeLine } from '../store/line.ts';
import { readRecord } from '../store/record.ts';

const CHUNK = 256 * 1024;
const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;

export type RecordTail = {
  /** Events not told before, read from where the last call ended. An unfinished last line is left for the next call. */
  fresh(): AsyncGenerator<Line>;
};

/** An event, and its line as it stands in the record. */
export type Line = { event: Event; line: string };

/** The growing end of a record, for readers beside its writer. Throws RecordCorrupt where the record cannot be trusted. */
export function recordTail(path: string): RecordTail {
  let offset = 0;
  let seq = 0;

  async function* fresh(): AsyncGenerator<Line> {
    const fd = openToRead(path);
    if (fd === undefined) return;
    try {
      // A failed append is taken back. What was told of it stands; what comes in its place is told from there on.
      if (fs.fstatSync(fd).size < offset) offset = 0;
      for (const { bytes, end } of wholeLines(fd, offset)) {
        const read = decodeLine(bytes);
        if (!read.ok) {
          // Torn by a crash, which its next writer mends; the record's own reader throws where it is anything worse.
          await readRecord(path, () => {});
          return;
        }
        offset = end;
        if (read.event.seq <= seq) continue;
        seq = read.event.seq;
        yield { event: read.event, line: bytes.toString() };
      }
    } finally {
      fs.closeSync(fd);
    }
  }

  return { fresh };
}

function* wholeLines(fd: number, from: number): Generator<{ bytes: Buffer; end: number }> {
  let parts: Buffer[] = [];
  let read = from;
  let end = from;
  for (;;) {
    const chunk = Buffer.alloc(CHUNK);
    const count = fs.readSync(fd, chunk, 0, CHUNK, read);
    if (count === 0) return;
    read += count;
    let start = 0;
    for (let to = chunk.indexOf(10); to >= 0 && to < count; to = chunk.indexOf(10, start)) {
      const bytes = Buffer.concat([...parts, chunk.subarray(start, to)]);
      parts = [];
      start = to + 1;
      end += bytes.length + 1;
      yield { bytes, end };
    }
    if (start < count) parts.push(chunk.subarray(start, count));
  }
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
