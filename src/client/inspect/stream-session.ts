import * as fs from 'node:fs';
import type { Event } from '../../protocol/session/event.ts';
import type { SessionPaths } from '../../store/layout/layout.ts';
import { countRemovedEvents } from '../../store/session/retention.ts';
import { readSession } from '../sessions/read-session.ts';
import { watchFolders } from './folder-watch.ts';
import { openLiveTail, openLogTail, wasWrittenBefore } from './follow-log.ts';

export type StreamOptions = {
  /** The seq behind which it begins: what a reader that comes back has read last; 0 by default. */
  after?: number | undefined;
  /** How often it says that it is alive, in ms; never by default. */
  heartbeatMs?: number | undefined;
  signal?: AbortSignal | undefined;
};

/**
 * `text`: what the model says in the call in flight; `from` is its place in what that call has said so far, in UTF-16
 * units, and 0 where another call begins. `void`: a later daemon did not know of the events from this seq on, and
 * others take their place. `removed`: retention removed the events before `first`.
 */
export type StreamUpdate =
  | { is: 'event'; event: Event }
  | { is: 'text'; from: number; text: string }
  | { is: 'void'; from: number }
  | { is: 'removed'; first: number }
  | { is: 'heartbeat' };

/**
 * The record of a session from a place on, each event once and in order, and the model's words as they come; goes on
 * until the signal is aborted or the session's folder is gone. Nothing is held between two updates but what the reader
 * has not asked for yet.
 */
export async function* streamSession(
  paths: SessionPaths & { name: string },
  { after = 0, heartbeatMs = Number.POSITIVE_INFINITY, signal }: StreamOptions,
): AsyncGenerator<StreamUpdate> {
  const record = openLogTail(paths, after + 1);
  const words = openWords(paths);
  const changes = watchFolders([paths.folder]);
  let beatAt = performance.now() + heartbeatMs;
  try {
    const removed = countRemovedEvents(paths);
    if (after < removed) yield { is: 'removed', first: removed + 1 };
    const { run, at } = await readSession(paths);
    if (!run || wasWrittenBefore(paths.live, at)) words.skip();
    let isFirst = true;
    while (!signal?.aborted && fs.existsSync(paths.folder)) {
      // Words of this call come before the event that ends it; words of the next one after the events that led to it.
      const said = isFirst ? null : words.next();
      if (said && said.from > 0) yield said;
      for await (const { event, supersedes } of record.readNew()) {
        if (supersedes) yield { is: 'void', from: event.seq };
        else if (event.seq <= after) continue;
        yield { is: 'event', event };
      }
      if (said?.from === 0) yield said;
      if (performance.now() >= beatAt) {
        beatAt = performance.now() + heartbeatMs;
        yield { is: 'heartbeat' };
      }
      if (!isFirst) await changes.next(signal);
      isFirst = false;
    }
  } finally {
    changes.close();
  }
}

/** The words of the call in flight, each piece with its place. */
function openWords({ live: path }: SessionPaths) {
  const live = openLiveTail(path);
  let told = 0;
  return {
    next(): Extract<StreamUpdate, { is: 'text' }> | null {
      const { text, began } = live.readNew();
      if (began) told = 0;
      if (text === '') return null;
      const from = told;
      told += text.length;
      return { is: 'text', from, text };
    },
    /** Leaves out what was said so far: that call is over, and its event has its words. */
    skip() {
      told += live.readNew().text.length;
    },
  };
}
