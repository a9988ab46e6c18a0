import * as fs from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { attempt } from '../../base/user-error.ts';
import { MAX_INLINE_CHARS } from '../../protocol/session/log-entry.ts';
import { readSmallFile } from '../process/call-folder.ts';
import { lastCharBoundary, nextCharBoundary } from '../process/command-output.ts';
import { commandLine, type Job, jobFiles, jobStatus } from './job-folder.ts';

/** A view with its headline is never truncated again before the model sees it. */
const MAX_CHARACTERS = MAX_INLINE_CHARS - 1000;

/**
 * `seen.json`: the last view, the call it was for, and the bytes it showed. A call repeated after a crash shows them
 * again.
 */
const LastView = z.object({ call: z.string(), from: z.number(), to: z.number() });

/** Status and output of a job as text for the model. `code`: its exit code; null if it has none. */
export type JobView = { text: string; isEnded: boolean; code: number | null };

/**
 * Status and output of a job: from byte `offset` on, or since the last view. If that is too much, the newest part is
 * shown, with the offset from which the rest can be read.
 */
export function viewJob(job: Job, call: string, offset?: number): JobView {
  const status = jobStatus(job);
  const open = status.state === 'running';
  const seen = readLastView(job);
  const from = offset ?? (seen.call === call ? seen.from : seen.to);
  const part =
    offset === undefined
      ? outputTail(job.folder, from, MAX_CHARACTERS, open)
      : outputPage(job.folder, offset, MAX_CHARACTERS, open);
  if (offset === undefined) writeLastView(job, { call, from, to: Math.max(from, part.to) });
  const text = [
    jobHeadline(job),
    ...notShownNote(part, from),
    part.text || emptyNote(part, from),
    ...moreNote(part),
  ].join('\n');
  return { text, isEnded: !open, code: status.code };
}

/** `job_1: running for 12 s: npm run dev`. */
export function jobHeadline(job: Job): string {
  const { state, how, seconds } = jobStatus(job);
  const since =
    seconds === undefined
      ? ''
      : state === 'running'
        ? ` for ${wholeSeconds(seconds)} s`
        : `, ${wholeSeconds(seconds)} s ago`;
  return `${job.id}: ${how}${since}: ${commandLine(job)}`;
}

const wholeSeconds = (seconds: number): string => String(Math.floor(seconds));

function notShownNote({ from: shown }: OutputPart, from: number): string[] {
  return shown > from
    ? [`[bytes ${from} to ${shown} are not shown; \`offset\` ${from} shows what is kept of them]`]
    : [];
}

function moreNote({ to, total }: OutputPart): string[] {
  return total > to ? [`[it goes on: \`offset\` ${to} shows more; ${total} bytes by now]`] : [];
}

const emptyNote = ({ total }: OutputPart, from: number): string =>
  total > 0 && from > 0 ? '(nothing new)' : '(no output)';

function readLastView(job: Job): z.infer<typeof LastView> {
  // The first view, or a crash while this file was written, in which case everything is shown again.
  return (
    attempt(() => LastView.parse(JSON.parse(readSmallFile(jobFiles(job.folder).seen)))) ?? { call: '', from: 0, to: 0 }
  );
}

function writeLastView(job: Job, seen: z.infer<typeof LastView>): void {
  try {
    fs.writeFileSync(jobFiles(job.folder).seen, JSON.stringify(seen), { mode: 0o600 });
  } catch {
    // Disk full: the same is shown again next time.
  }
}

const PIECE = /^out\.(\d+)$/;

/** A contiguous range of an output, from byte `at` on. */
type Stretch = { at: number; bytes: Buffer };

/** A part of an output: the bytes from `from` to `to`. */
type OutputPart = {
  text: string;
  from: number;
  to: number;
  /** Total size so far, including what is no longer kept. */
  total: number;
};

/**
 * The end of the output from byte `from` on, at most `most` characters. `open`: more may follow, possibly in the middle
 * of the last character.
 */
function outputTail(folder: string, from: number, most: number, open: boolean): OutputPart {
  const stretch = readStretches(folder).at(-1) ?? { at: 0, bytes: Buffer.alloc(0) };
  const end = stretch.bytes.length;
  const begin = Math.min(end, Math.max(0, from - stretch.at));
  const start = Math.max(begin, offsetBeforeChars(stretch.bytes, most));
  return toOutputPart(
    stretch,
    nextCharBoundary(stretch.bytes, start),
    open ? lastCharBoundary(stretch.bytes) : end,
    stretch.at + end,
  );
}

/** What is kept from byte `from` on, at most `most` characters; it begins later if that part is no longer kept. */
export function outputPage(folder: string, from: number, most: number, open: boolean): OutputPart {
  const all = readStretches(folder);
  const last = all.at(-1);
  const total = last ? last.at + last.bytes.length : 0;
  const stretch = all.find(({ at, bytes }) => from < at + bytes.length) ?? { at: total, bytes: Buffer.alloc(0) };
  const start = nextCharBoundary(stretch.bytes, Math.max(0, from - stretch.at));
  const end = offsetAfterChars(stretch.bytes, start, most);
  const isOpen = open && stretch === last && end === stretch.bytes.length;
  return toOutputPart(stretch, start, isOpen ? lastCharBoundary(stretch.bytes) : end, total);
}

function toOutputPart({ at, bytes }: Stretch, start: number, end: number, total: number): OutputPart {
  const to = Math.max(start, end);
  return { text: bytes.toString('utf8', start, to), from: at + start, to: at + to, total };
}

/** The kept ranges of an output. A piece may be deleted while it is read: then it counts as not kept. */
function readStretches(folder: string): Stretch[] {
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
  return attempt(() => fs.readFileSync(path));
}

const startsCharacter = (byte: number | undefined): boolean => byte !== undefined && byte >> 6 !== 0b10;

/** The maximum length of a UTF-8 character; other bytes are not text. */
const MAX_CHAR_BYTES = 4;

/** The offset after `characters` characters from `start` on. */
function offsetAfterChars(bytes: Buffer, start: number, characters: number): number {
  const end = Math.min(bytes.length, start + characters * MAX_CHAR_BYTES);
  let at = start;
  for (let count = 0; at < end; at++) if (startsCharacter(bytes[at]) && ++count > characters) return at;
  return at;
}

/** The offset at which the last `characters` characters begin. */
function offsetBeforeChars(bytes: Buffer, characters: number): number {
  const begin = Math.max(0, bytes.length - characters * MAX_CHAR_BYTES);
  let at = bytes.length;
  for (let count = 0; at > begin && count < characters; ) if (startsCharacter(bytes[--at])) count++;
  return at;
}
