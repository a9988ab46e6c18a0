import * as fs from 'node:fs';
import { z } from 'zod';
import { errorCode, UserError } from '../protocol/errors.ts';
import { BEGINNING, type Mark } from '../protocol/mark.ts';
import { checked, crcOf, withCrc } from './checksum.ts';
import { inWords, RecordCorrupt } from './errors.ts';
import type { SessionPaths } from './layout.ts';
import { firstLine } from './lines.ts';
import { namesIn } from './there.ts';

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;

/** First line of every segment but the first: what it follows, byte for byte. It is no event and has no `seq`. */
const Header = z.object({
  v: z.literal(1),
  segment: z.int().min(2),
  epoch: z.int().min(1),
  at: z.string(),
  prev: z.string(),
  prev_last_seq: z.int().min(0),
  prev_bytes: z.int().min(1),
  prev_crc: z.string(),
});
export type Header = z.infer<typeof Header>;

export const headerText = (header: Omit<Header, 'v'>): string => withCrc({ v: 1, ...header });

/** The header a line is; undefined where it is none. */
export function headerOf(bytes: Buffer | undefined): Header | undefined {
  if (!bytes?.subarray(0, 20).toString('latin1').startsWith('{"v":1,"segment":')) return undefined;
  return Header.safeParse(checked(bytes)?.value).data;
}

/** One file of a record, open. Its events lie between `start` and byte `end`. `next`: the header of the segment after it. */
export type Segment = {
  number: number;
  path: string;
  file: number;
  start: Mark;
  end: number;
  header: Header | undefined;
  next?: Header | undefined;
};

/** The files of a record: of the sealed ones only those are opened that are asked for. */
export type Segments = {
  oldest: number;
  current: Segment;
  open(number: number): Segment;
  close(): void;
};

/**
 * Opens a record for reading, whatever its writer does meanwhile: the folder is listed before the current file is opened, and a
 * segment is sealed before the next one takes its place. Undefined where there is none yet. Throws RecordCorrupt where a file is missing.
 */
export function openSegments(paths: SessionPaths): Segments | undefined {
  const sealed = sealedNumbers(paths);
  const files = new Map<number, Segment>();
  const read = (path: string): Segment | undefined => {
    const file = openRegular(path);
    if (file === undefined) return undefined;
    const first = firstLine(file);
    const header = headerOf(first);
    const start = header && first ? headMark(header, first) : BEGINNING;
    return { number: header?.segment ?? 1, path, file, header, start, end: fs.fstatSync(file).size };
  };
  const close = () => {
    for (const { file } of files.values()) fs.closeSync(file);
    files.clear();
  };
  const held = (number: number, path: string): Segment => {
    const segment = files.get(number) ?? read(path);
    if (!segment) throw corrupt(path, 'it is missing');
    files.set(number, segment);
    if (segment.number === number) return segment;
    throw corrupt(path, `it begins as segment ${segment.number}`);
  };
  /** Two files beside the current one are enough for who reads in order. */
  const letGo = (number: number) => {
    for (const [other, { file }] of files) {
      if (other === number || other === number + 1 || other === current?.number) continue;
      fs.closeSync(file);
      files.delete(other);
    }
  };
  const current = read(paths.events);
  try {
    if (!current) {
      if (sealed.length > 0) throw corrupt(paths.events, `it is missing, and segment ${sealed.at(-1)} was before it`);
      return undefined;
    }
    files.set(current.number, current);
    const oldest = checkedOldest(paths, sealed, current);
    return {
      oldest,
      current,
      open(number) {
        if (number === current.number) return current;
        letGo(number);
        const segment = held(number, paths.segment(number));
        const next = held(number + 1, number + 1 === current.number ? paths.events : paths.segment(number + 1));
        const end = next.header?.prev_bytes ?? 0;
        const size = fs.fstatSync(segment.file).size;
        if (size >= end) return { ...segment, end, next: next.header };
        throw corrupt(segment.path, `it has ${size} bytes, and had ${end} when it was sealed`);
      },
      close,
    };
  } catch (error) {
    close();
    throw error;
  }
}

/** Numbers of the sealed segments that are there, in order. */
export function sealedNumbers(paths: SessionPaths): number[] {
  const numbers = namesIn(paths.sealed).flatMap((name) =>
    /^\d{6,}\.jsonl$/.test(name) ? [Number.parseInt(name, 10)] : [],
  );
  return numbers.sort((a, b) => a - b);
}

/** The oldest segment that is kept. Throws where one is missing that retention did not remove. */
function checkedOldest(paths: SessionPaths, sealed: number[], current: Segment): number {
  const last = sealed.at(-1) ?? 0;
  if (last > current.number || (last === current.number && isLonger(paths.segment(last), current.file))) {
    throw corrupt(paths.events, `it is segment ${current.number}, and ${paths.segment(last)} is newer`);
  }
  let oldest = current.number;
  while (sealed.includes(oldest - 1)) oldest--;
  const isGap = sealed.some((number) => number < oldest);
  if (oldest === 1 || (!isGap && fs.existsSync(paths.base))) return oldest;
  throw corrupt(paths.segment(oldest - 1), 'it is missing');
}

/** A crash while sealing leaves two names of one file, or a copy of it; a longer one is another record's. */
function isLonger(path: string, file: number): boolean {
  const [sealed, current] = [fs.lstatSync(path), fs.fstatSync(file)];
  return sealed.ino !== current.ino && sealed.size > current.size;
}

const headMark = (header: Header, line: Buffer): Mark => ({
  seq: header.prev_last_seq,
  segment: header.segment,
  offset: line.length + 1,
  crc: crcOf(line) ?? '',
});

/** A record that cannot be trusted, in words that say what to do. */
export const corrupt = (path: string, why: string) => new RecordCorrupt(path, `${why}. ${WHAT_TO_DO}`);

const WHAT_TO_DO =
  'Nothing was changed. Put back a copy of the file from a backup, or move the session folder away; the daemon leaves this ' +
  'session alone until then.';

/** Opens a file of ours to read, never through a link and never waiting; undefined where it is not there. */
export function openRegular(path: string): number | undefined {
  try {
    const file = fs.openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (fs.fstatSync(file).isFile()) return file;
    fs.closeSync(file);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw inWords(error, 'read', path);
  }
  throw new UserError(`${path} must be a file, but something else is there. Move it away.`);
}
