import * as fs from 'node:fs';
import type { Event, EventBody } from '../../protocol/session/event.ts';
import { syncFolder, writeAll } from '../fs/durable-write.ts';
import { type CorruptLogError, ifExists, wrapDiskErrors } from '../fs/store-errors.ts';
import type { SessionPaths } from '../layout/layout.ts';
import { type DecodedLine, decodeEventLine } from './event-codec.ts';
import { readSnapshot } from './snapshot-file.ts';

/** What a segment holds from its first bad line on: it may be cut off, or this throws why it must not. */
export type TornTail = { addLine(bytes: Buffer, line: DecodedLine): void; finish(): void };

/**
 * An end that was never finished is lines that cannot be read and nothing else. Good lines may follow only where all
 * that cannot be read holds zeros, they are numbered as what was lost leaves them, and nothing shows that it had been
 * synced.
 * `damaged` makes the error; `beside` looks for what was made only after a sync.
 */
export function inspectTornTail(
  edge: TornTailStart,
  damaged: (why?: string) => CorruptLogError,
  beside: () => string | undefined,
): TornTail {
  const seen = createSyncDetector(edge);
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
    addLine(bytes, line) {
      const isZeros = !line.ok && hasZeroBytes(bytes);
      if (!line.ok) gap = true;
      if (!line.ok && !isZeros) isHole = false;
      // The line feed before it went with the zeros.
      const end = isZeros ? decodeEventLine(bytes.subarray(bytes.lastIndexOf(0) + 1)) : line;
      if (end.ok) behind(end.event);
      else if (!end.torn) throw damaged();
    },
    finish() {
      const how = goes ? beside() : undefined;
      if (how !== undefined) throw synced(how);
    },
  };
}

/** A line is JSON, in which a NUL is written as an escape: one that is there as a byte was never written. */
const hasZeroBytes = (bytes: Buffer): boolean => bytes.includes(0);

/** Calls that were begun since the model answered last (event `answer`), as far as the record could be read. */
export type OpenCalls = { sinceAnswer: number; started: Set<string> };

/**
 * What is known where the zeros begin: the last event before them and its epoch, the place, and the calls of the turn.
 */
type TornTailStart = { seq: number; epoch: number; segment: number; offset: number; turn: OpenCalls };

export const noOpenCalls = (): OpenCalls => ({ sinceAnswer: Number.POSITIVE_INFINITY, started: new Set() });

export function openCallsAfter(turn: OpenCalls, event: Event): OpenCalls {
  if (event.type === 'model.answered') return { sinceAnswer: event.seq, started: new Set() };
  if (event.type === 'tool.started') turn.started.add(event.call);
  return turn;
}

/**
 * Zeros in a record with good lines behind them. A power cut leaves them where two appends were not synced and the file
 * system kept the later one alone. Every sync takes the whole file, so these lines were not synced either, and since
 * nothing is acted upon before it is synced, all from the zeros on may go: it is what a cut some moments earlier would
 * have left.
 *
 * The same zeros in a part that had been synced are damage, and to cut there would forget what was promised. So each
 * line behind them is asked whether it was written after a sync that was later than theirs. Answers how that is seen,
 * in words; undefined where it is not. Where it cannot be known it counts as seen: a person who looks is better than a
 * command run twice.
 */
function createSyncDetector(edge: TornTailStart): (event: Event) => string | undefined {
  /** Calls that began behind the zeros. Others that end there began in them. */
  const safe = new Set<string>();
  return (event) => {
    // Whoever opens a record syncs what it reads there, before it writes: a new owner, and a worker that recovers.
    if (event.epoch !== edge.epoch || event.fence) return `owner ${event.epoch} had read them`;
    if (event.type === 'tool.started' && event.replay === 'safe') safe.add(event.call);
    const isEnd = event.type === 'tool.finished' || event.type === 'tool.interrupted';
    if (isEnd && (edge.turn.started.has(event.call) || safe.has(event.call))) return undefined;
    return isWrittenAfterSync(event, edge) ? `event ${event.seq} (${event.type}) was written after that` : undefined;
  };
}

/** Whether an event is written only after a sync of what was recorded before it, the zeros included. */
function isWrittenAfterSync(event: EventBody, edge: TornTailStart): boolean {
  switch (event.type) {
    case 'recovery.started':
    case 'reply.published':
    case 'model.failed':
      return true;
    // What was recorded while the model was at work need not have been synced when it answered.
    case 'model.answered':
      return event.seen > edge.seq;
    // A call that must not run twice begins after a sync of its own beginning; whether it was such a one is lost in the
    // zeros.
    case 'tool.finished':
      return true;
    case 'tool.interrupted':
      return event.outcome === 'unknown';
    default:
      return false;
  }
}

/**
 * The same, asked of what is made only after a sync and lies beside the record: a snapshot of it, messages that left
 * the inbox (`done/<seq>-…`), the folders of commands (`tools/<seq of the answer>.…`).
 */
export function findSyncedFileBeside(
  paths: SessionPaths,
  { seq, segment, offset, turn }: TornTailStart,
): string | undefined {
  const mark = readSnapshot(paths.snapshot)?.mark;
  if (mark && (mark.segment > segment || (mark.segment === segment && mark.offset > offset)))
    return `${paths.snapshot} was taken after that`;
  const done = listFolder(paths.done).find((name) => Number(/^(\d+)-/.exec(name)?.[1] ?? 0) > seq);
  if (done !== undefined) return `${paths.done}/${done} was put there after that`;
  const call = listFolder(paths.tools).find((name) => {
    const answer = Number(/^(\d+)\./.exec(name)?.[1] ?? 0);
    return answer > seq || (answer === turn.sinceAnswer && !turn.started.has(name));
  });
  return call === undefined ? undefined : `${paths.tools}/${call} was made after that`;
}

const listFolder = (folder: string): string[] => ifExists(() => fs.readdirSync(folder)) ?? [];

const CHUNK_BYTES = 256 * 1024;

/**
 * Copies what follows `good` bytes of the record to a file beside it, durably: cutting it off then destroys nothing.
 */
export async function saveTornTail(paths: SessionPaths, good: number): Promise<void> {
  const from = fs.openSync(paths.events, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW);
  const path = freePath(paths.torn(good));
  try {
    wrapDiskErrors('write', path, () => {
      const to = fs.openSync(path, 'wx', 0o600);
      try {
        const buffer = Buffer.alloc(CHUNK_BYTES);
        let at = good;
        for (let read = -1; read !== 0; at += read) {
          read = fs.readSync(from, buffer, 0, CHUNK_BYTES, at);
          writeAll(to, buffer.subarray(0, read));
        }
        fs.fdatasyncSync(to);
      } finally {
        fs.closeSync(to);
      }
    });
  } finally {
    fs.closeSync(from);
  }
  await syncFolder(paths.folder);
}

function freePath(path: string): string {
  let free = path;
  for (let n = 2; ifExists(() => fs.lstatSync(free)); n++) free = `${path}-${n}`;
  return free;
}
