import * as fs from 'node:fs';
import type { Event, EventBody } from '../../protocol/session/event.ts';
import { syncFolder, writeAll } from '../fs/durable-write.ts';
import { listNames, statIfExists, withOpenFile } from '../fs/file-reads.ts';
import { type CorruptLogError, wrapDiskErrors } from '../fs/store-errors.ts';
import type { SessionPaths } from '../layout/layout.ts';
import { freeName } from '../layout/layout.ts';
import { type DecodedLine, decodeEventLine } from './event-codec.ts';
import { readSnapshot } from './snapshot-file.ts';

/** Checks the rest of a segment from its first bad line on. Throws if it may not be cut off. */
export type TornTail = { addLine(bytes: Buffer, line: DecodedLine): void; finish(): void };

/**
 * An incomplete end consists of unreadable lines and nothing else. Good lines may follow only if everything unreadable
 * contains zeros, their numbers match what was lost, and nothing shows that it had been synced. `damaged` creates the
 * error; `beside` looks for files that are created only after a sync.
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
  // The first bad line was at least one event.
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
      // The line feed before it was lost with the zeros.
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

/** JSON escapes NUL, so we never write a zero byte. */
const hasZeroBytes = (bytes: Buffer): boolean => bytes.includes(0);

/** Calls started since the model's last answer (event `sinceAnswer`), as far as the log could be read. */
export type OpenCalls = { sinceAnswer: number; started: Set<string> };

/**
 * What is known at the start of the zeros: the last event before them and its epoch, the position, and the turn's
 * calls.
 */
type TornTailStart = { seq: number; epoch: number; segment: number; offset: number; turn: OpenCalls };

/** The open calls before any event has been read: the last answer is unknown. */
export const noOpenCalls = (): OpenCalls => ({ sinceAnswer: Number.POSITIVE_INFINITY, started: new Set() });

/** The open calls after an event. May modify and return `turn`. */
export function openCallsAfter(turn: OpenCalls, event: Event): OpenCalls {
  if (event.type === 'model.answered') return { sinceAnswer: event.seq, started: new Set() };
  if (event.type === 'tool.started') turn.started.add(event.call);
  return turn;
}

/**
 * Zeros in an event log with good lines after them. A power cut leaves them if two appends were not synced and the file
 * system kept only the later one. Every sync covers the whole file, so these lines were not synced either, and since
 * nothing is acted upon before it is synced, everything from the zeros on may be cut: the result is what a power cut
 * some moments earlier would have left.
 *
 * The same zeros in a synced part are damage, and cutting there would forget what was promised. So each line after them
 * is checked for evidence that it was written after a later sync. Returns that evidence as text; undefined if there is
 * none. Doubtful cases count as evidence: asking a person is better than running a command twice.
 */
function createSyncDetector(edge: TornTailStart): (event: Event) => string | undefined {
  /** Calls that began after the zeros. All others that end there began within the zeros. */
  const safe = new Set<string>();
  return (event) => {
    // Each opening of an event log syncs what it read before it writes: a new owner, and a recovering worker.
    if (event.epoch !== edge.epoch || event.fence) return `owner ${event.epoch} had read them`;
    if (event.type === 'tool.started' && event.replay === 'safe') safe.add(event.call);
    const isEnd = event.type === 'tool.finished' || event.type === 'tool.interrupted';
    if (isEnd && (edge.turn.started.has(event.call) || safe.has(event.call))) return undefined;
    return isWrittenAfterSync(event, edge) ? `event ${event.seq} (${event.type}) was written after that` : undefined;
  };
}

/** Whether an event is written only after a sync of everything before it, the zeros included. */
function isWrittenAfterSync(event: EventBody, edge: TornTailStart): boolean {
  switch (event.type) {
    case 'recovery.started':
    case 'reply.published':
    case 'model.failed':
      return true;
    // Events written during the model call need not have been synced when the model answered.
    case 'model.answered':
      return event.seen > edge.seq;
    // A call that must not run twice runs only after its start was synced; whether it was such a call is lost.
    case 'tool.finished':
      return true;
    case 'tool.interrupted':
      return event.outcome === 'unknown';
    default:
      return false;
  }
}

/**
 * The same for files beside the log that are created only after a sync: a snapshot of it, messages that left the inbox
 * (`done/<seq>-…`), the folders of commands (`tools/<seq of the answer>.…`).
 */
export function findSyncedFileBeside(
  paths: SessionPaths,
  { seq, segment, offset, turn }: TornTailStart,
): string | undefined {
  const mark = readSnapshot(paths.snapshot)?.mark;
  if (mark && (mark.segment > segment || (mark.segment === segment && mark.offset > offset)))
    return `${paths.snapshot} was taken after that`;
  const done = listNames(paths.done).find((name) => Number(/^(\d+)-/.exec(name)?.[1] ?? 0) > seq);
  if (done !== undefined) return `${paths.done}/${done} was put there after that`;
  const call = listNames(paths.tools).find((name) => {
    const answer = Number(/^(\d+)\./.exec(name)?.[1] ?? 0);
    return answer > seq || (answer === turn.sinceAnswer && !turn.started.has(name));
  });
  return call === undefined ? undefined : `${paths.tools}/${call} was made after that`;
}

const CHUNK_BYTES = 256 * 1024;

/**
 * Copies everything after the first `good` bytes of the log to a file beside it, durably: cutting it off then destroys
 * nothing.
 */
export async function saveTornTail(paths: SessionPaths, good: number): Promise<void> {
  const path = freeName(paths.torn(good), (one) => statIfExists(one) !== undefined);
  withOpenFile(paths.events, (from) =>
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
    }),
  );
  await syncFolder(paths.folder);
}
