import * as fs from 'node:fs';
import { withoutDoneMarkers } from '../../core/detect/done-markers.ts';
import type { Event } from '../../protocol/session/event.ts';
import { readLastEvent } from '../../store/event-log/log-reader.ts';
import type { SessionPaths } from '../../store/layout/layout.ts';
import { countRemovedEvents } from '../../store/session/retention.ts';
import { readSession } from '../sessions/session-folders.ts';
import { watchFolders } from './folder-watch.ts';
import { openLogTail, openShownTail, wasWrittenBefore } from './follow-log.ts';

export type StreamOptions = {
  /** The seq to continue after: what a reconnecting reader has read last; default 0. */
  after?: number | undefined;
  /** Begins with so many of the newest events, or of those before `before`. */
  last?: number | undefined;
  /** Ends before the event with this seq, and waits for none. */
  before?: number | undefined;
  /** Interval of heartbeats, in ms; default: none. */
  heartbeatMs?: number | undefined;
  signal?: AbortSignal | undefined;
};

/**
 * `text`: output of the model in the call in flight, without done markers; `from` is its position in that call's text
 * so far, in UTF-16 units, and 0 when another call begins. `void`: a later daemon did not see the events from this seq
 * on, and others replace them. `removed`: retention removed the events before `first`.
 */
export type StreamUpdate =
  | { is: 'event'; event: Event }
  | { is: 'text'; from: number; text: string }
  | { is: 'void'; from: number }
  | { is: 'removed'; first: number }
  | { is: 'heartbeat' };

/**
 * The events of a session from a position on, each once and in order, and the model's text as it arrives; continues
 * until the signal is aborted or the session's folder is gone. Buffers nothing between two updates except what the
 * reader has not requested yet.
 */
export async function* streamSession(
  paths: SessionPaths & { name: string },
  { before, heartbeatMs = Number.POSITIVE_INFINITY, signal, ...start }: StreamOptions,
): AsyncGenerator<StreamUpdate> {
  const after = seqBefore(paths, before, start);
  const record = openLogTail(paths, after + 1);
  const words = openWords(paths);
  const changes = watchFolders([paths.folder]);
  let heartbeatAt = performance.now() + heartbeatMs;
  try {
    const removed = countRemovedEvents(paths);
    if (after < removed) yield { is: 'removed', first: removed + 1 };
    let isFirst = true;
    while (!signal?.aborted && fs.existsSync(paths.folder)) {
      // Text of this call comes before the event that ends it; text of the next one after the events that led to it.
      let liveText = isFirst ? null : words.next();
      if (liveText && liveText.from > 0) yield liveText;
      let answeredAt: string | undefined;
      for await (const { event, supersedes } of record.readNew()) {
        if (supersedes) yield { is: 'void', from: event.seq };
        else if (event.seq <= after) continue;
        if (before !== undefined && event.seq >= before) return;
        if (event.type === 'model.answered' || event.type === 'model.failed') answeredAt = event.at;
        // The event of a call that began and ended since the last check has the whole text.
        if (
          event.type === 'model.answered' &&
          liveText?.from === 0 &&
          withoutDoneMarkers(event.text).startsWith(liveText.text)
        )
          liveText = null;
        yield { is: 'event', event };
      }
      if (before !== undefined) return;
      if (liveText?.from === 0) yield liveText;
      if (isFirst && !(await isInCall(paths))) words.skip();
      if (answeredAt !== undefined && wasWrittenBefore(paths.live, answeredAt)) words.skip();
      if (performance.now() >= heartbeatAt) {
        heartbeatAt = performance.now() + heartbeatMs;
        yield { is: 'heartbeat' };
      }
      if (!isFirst) await changes.next(signal);
      isFirst = false;
    }
  } finally {
    changes.close();
  }
}

/** The seq of the event before the first one to send. */
function seqBefore(paths: SessionPaths, before: number | undefined, { after = 0, last }: StreamOptions): number {
  if (last === undefined) return after;
  const newest = before === undefined ? (readLastEvent(paths)?.seq ?? 0) : before - 1;
  return Math.max(after, newest - last);
}

/** Whether the current text may belong to a call in flight; for a call that is over, the event has the text. */
async function isInCall(paths: SessionPaths & { name: string }): Promise<boolean> {
  const { run, at } = await readSession(paths);
  return run !== null && !wasWrittenBefore(paths.live, at);
}

/** The text of the call in flight, each piece with its position. */
function openWords({ live: path }: SessionPaths) {
  const live = openShownTail(path);
  let sentSeq = 0;
  return {
    next(): Extract<StreamUpdate, { is: 'text' }> | null {
      const { text, began } = live.readNew();
      if (began) sentSeq = 0;
      if (text === '') return null;
      const from = sentSeq;
      sentSeq += text.length;
      return { is: 'text', from, text };
    },
    /** Skips the text so far: that call is over, and its event contains the text. */
    skip: live.skipToEnd,
  };
}
