import * as fs from 'node:fs';
import { join } from 'node:path';
import { wholeEnd, wholeStart } from '../output.ts';

const PIECE = /^out\.(\d+)$/;

/** A stretch of an output, from byte `at` on. */
type Stretch = { at: number; bytes: Buffer };

/** A part of an output: the bytes from `from` to `to`. */
export type Part = {
  text: string;
  from: number;
  to: number;
  /** How much there is by now, what is not kept any more included. */
  total: number;
};

/** The end of what came from byte `from` on, at most `most` characters. `open`: more may come, also of the last character. */
export function lastOf(folder: string, from: number, most: number, open: boolean): Part {
  const stretch = stretches(folder).at(-1) ?? { at: 0, bytes: Buffer.alloc(0) };
  const end = stretch.bytes.length;
  const begin = Math.min(end, Math.max(0, from - stretch.at));
  const start = Math.max(begin, placeBefore(stretch.bytes, most));
  return part(stretch, wholeStart(stretch.bytes, start), open ? wholeEnd(stretch.bytes) : end, stretch.at + end);
}

/** What is kept from byte `from` on, at most `most` characters; it begins later where that was not kept. */
export function pageOf(folder: string, from: number, most: number, open: boolean): Part {
  const all = stretches(folder);
  const last = all.at(-1);
  const total = last ? last.at + last.bytes.length : 0;
  const stretch = all.find(({ at, bytes }) => from < at + bytes.length) ?? { at: total, bytes: Buffer.alloc(0) };
  const start = wholeStart(stretch.bytes, Math.max(0, from - stretch.at));
  const end = placeAfter(stretch.bytes, start, most);
  const isOpen = open && stretch === last && end === stretch.bytes.length;
  return part(stretch, start, isOpen ? wholeEnd(stretch.bytes) : end, total);
}

function part({ at, bytes }: Stretch, start: number, end: number, total: number): Part {
  const to = Math.max(start, end);
  return { text: bytes.toString('utf8', start, to), from: at + start, to: at + to, total };
}

/** What is kept of an output, without the gaps. A piece may go while it is read: then it is not kept any more. */
function stretches(folder: string): Stretch[] {
  const starts = fs.readdirSync(folder).flatMap((name) => PIECE.exec(name)?.[1] ?? []);
  const pieces = starts
    .map(Number)
    .sort((a, b) => a - b)
    .flatMap((at) => {
      const bytes = readIfThere(join(folder, `out.${at}`));
      return bytes && bytes.length > 0 ? [{ at, bytes }] : [];
    });
  const joined: Stretch[] = [];
  for (const piece of pieces) {
    const before = joined.at(-1);
    if (before && before.at + before.bytes.length === piece.at)
      before.bytes = Buffer.concat([before.bytes, piece.bytes]);
    else joined.push({ ...piece });
  }
  return joined;
}

function readIfThere(path: string): Buffer | undefined {
  try {
    return fs.readFileSync(path);
  } catch {
    return undefined;
  }
}

const beginsOne = (byte: number | undefined): boolean => byte !== undefined && byte >> 6 !== 0b10;

/** No character has more bytes; what is no text ends there. */
const MOST_BYTES = 4;

/** Where so many characters from `start` on end. */
function placeAfter(bytes: Buffer, start: number, characters: number): number {
  const end = Math.min(bytes.length, start + characters * MOST_BYTES);
  let at = start;
  for (let count = 0; at < end; at++) if (beginsOne(bytes[at]) && ++count > characters) return at;
  return at;
}

/** Where the last so many characters begin. */
function placeBefore(bytes: Buffer, characters: number): number {
  const begin = Math.max(0, bytes.length - characters * MOST_BYTES);
  let at = bytes.length;
  for (let count = 0; at > begin && count < characters; ) if (beginsOne(bytes[--at])) count++;
  return at;
}
