import * as fs from 'node:fs';
import type { Event, EventBody } from '../protocol/event.ts';
import { ifThere } from './errors.ts';
import type { SessionPaths } from './layout.ts';
import { readSnapshot } from './snapshot-file.ts';

/** A line is JSON, in which a NUL is written as an escape: one that is there as a byte was never written. */
export const hasHole = (bytes: Buffer): boolean => bytes.includes(0);

/** Calls that were begun since the model answered last (event `answer`), as far as the record could be read. */
export type Turn = { answer: number; started: Set<string> };

/** What is known where the zeros begin: the last event before them and its epoch, the place, and the calls of the turn. */
export type Edge = { seq: number; epoch: number; segment: number; offset: number; turn: Turn };

export const noTurn = (): Turn => ({ answer: Number.POSITIVE_INFINITY, started: new Set() });

export function turnAfter(turn: Turn, event: Event): Turn {
  if (event.type === 'model.answered') return { answer: event.seq, started: new Set() };
  if (event.type === 'tool.started') turn.started.add(event.call);
  return turn;
}

/**
 * Zeros in a record with good lines behind them. A power cut leaves them where two appends were not synced and the file system
 * kept the later one alone. Every sync takes the whole file, so these lines were not synced either, and since nothing is acted
 * upon before it is synced, all from the zeros on may go: it is what a cut some moments earlier would have left.
 *
 * The same zeros in a part that had been synced are damage, and to cut there would forget what was promised. So each line
 * behind them is asked whether it was written after a sync that was later than theirs. Answers how that is seen, in words;
 * undefined where it is not. Where it cannot be known it counts as seen: a person who looks is better than a command run twice.
 */
export function sawSync(edge: Edge): (event: Event) => string | undefined {
  /** Calls that began behind the zeros. Others that end there began in them. */
  const safe = new Set<string>();
  return (event) => {
    // Whoever opens a record syncs what it reads there, before it writes: a new owner, and a worker that recovers.
    if (event.epoch !== edge.epoch || event.fence) return `owner ${event.epoch} had read them`;
    if (event.type === 'tool.started' && event.replay === 'safe') safe.add(event.call);
    const isEnd = event.type === 'tool.finished' || event.type === 'tool.interrupted';
    if (isEnd && (edge.turn.started.has(event.call) || safe.has(event.call))) return undefined;
    return follows(event, edge) ? `event ${event.seq} (${event.type}) was written after that` : undefined;
  };
}

/** Whether an event is written only after a sync of what was recorded before it, the zeros included. */
function follows(event: EventBody, edge: Edge): boolean {
  switch (event.type) {
    case 'recovery.started':
    case 'reply.published':
    case 'model.failed':
      return true;
    // What was recorded while the model was at work need not have been synced when it answered.
    case 'model.answered':
      return event.seen > edge.seq;
    // A call that must not run twice begins after a sync of its own beginning; whether it was such a one is lost in the zeros.
    case 'tool.finished':
      return true;
    case 'tool.interrupted':
      return event.outcome === 'unknown';
    default:
      return false;
  }
}

/**
 * The same, asked of what is made only after a sync and lies beside the record: a snapshot of it, messages that left the inbox
 * (`done/<seq>-…`), the folders of commands (`tools/<seq of the answer>.…`).
 */
export function sawSyncBeside(paths: SessionPaths, { seq, segment, offset, turn }: Edge): string | undefined {
  const mark = readSnapshot(paths.snapshot)?.mark;
  if (mark && (mark.segment > segment || (mark.segment === segment && mark.offset > offset)))
    return `${paths.snapshot} was taken after that`;
  const done = names(paths.done).find((name) => Number(/^(\d+)-/.exec(name)?.[1] ?? 0) > seq);
  if (done !== undefined) return `${paths.done}/${done} was put there after that`;
  const call = names(paths.tools).find((name) => {
    const answer = Number(/^(\d+)\./.exec(name)?.[1] ?? 0);
    return answer > seq || (answer === turn.answer && !turn.started.has(name));
  });
  return call === undefined ? undefined : `${paths.tools}/${call} was made after that`;
}

const names = (folder: string): string[] => ifThere(() => fs.readdirSync(folder)) ?? [];
