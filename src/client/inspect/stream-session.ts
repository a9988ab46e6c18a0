import * as fs from 'node:fs';
import { showWhileWritten, withoutMarkers } from '../../core/detect/shown-text.ts';
import { reduceEvent } from '../../core/reducers/reduce-event.ts';
import { emptySession, type Session } from '../../core/session/session-state.ts';
import type { Event } from '../../protocol/session/event.ts';
import { readLastEvent } from '../../store/event-log/log-reader.ts';
import type { SessionPaths } from '../../store/layout/layout.ts';
import { countRemovedEvents } from '../../store/session/retention.ts';
import { followEvents, openLiveTail, openLogTail, wasWrittenBefore, watchFolders } from '../sessions/follow-log.ts';
import { sessionBeforeOldest } from '../sessions/replay.ts';
import { type NamedSession, readSession } from '../sessions/session-folders.ts';
import { type ConversationItem, openConversation, type ShownEvent } from './conversation.ts';

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
 * `text`: output of the model in the call in flight, as people read it; `from` is its position in that call's text
 * so far, in UTF-16 units, and 0 when another call begins. `void`: a later daemon did not see the events from this seq
 * on, and others replace them. `removed`: retention removed the events before `first`.
 */
export type StreamUpdate =
  | { is: 'event'; event: ShownEvent }
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
  paths: NamedSession,
  { before, heartbeatMs = Number.POSITIVE_INFINITY, signal, ...start }: StreamOptions,
): AsyncGenerator<StreamUpdate> {
  const after = seqBefore(paths, before, start);
  // The last event before is read too: what replaces it later is then known to do so.
  const record = openLogTail(paths, Math.max(1, after));
  const words = openWords(paths);
  const changes = watchFolders([paths.folder]);
  let heartbeatAt = performance.now() + heartbeatMs;
  /** Up to here the reader has the events. */
  let known = after;
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
        if (supersedes) {
          yield { is: 'void', from: event.seq };
          known = 0;
        } else if (event.seq <= known) continue;
        if (before !== undefined && event.seq >= before) return;
        if (event.type === 'model.answered' || event.type === 'model.failed') answeredAt = event.at;
        const shown = withShownText(event);
        // The event of a call that began and ended since the last check has the whole text.
        if (liveText && shown.type === 'model.answered' && (shown.shown ?? shown.text).startsWith(liveText.text))
          liveText = null;
        yield { is: 'event', event: shown };
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

/** Adds the text for people to an answer of the model, or a reply, if it differs from the original. */
function withShownText(event: Event): ShownEvent {
  if (event.type === 'reply.committed') return withShown(event, event.reply.text, event.reply.text);
  if (event.type !== 'model.answered') return event;
  // Beside calls, an answer need not say anything.
  return withShown(event, event.text, event.calls.length > 0 ? '' : event.text);
}

function withShown(event: Event, text: string, otherwise: string): ShownEvent {
  const shown = withoutMarkers(text, otherwise);
  return shown === text ? event : { ...event, shown };
}

/** What people see of a session and its state after that. The first state comes without an event. */
export type SessionUpdate = (ConversationItem | { kind: 'state'; seq: number; event?: undefined }) & {
  session: Session;
};

export type ConversationOptions = {
  /** Begins with what has been kept of the conversation so far. */
  fromStart?: boolean;
  signal?: AbortSignal | undefined;
};

/**
 * The conversation of a session from now on, until the signal is aborted or its folder is gone. Begins with one `state`
 * without an event; what has happened so far, if wanted, comes before it.
 */
export async function* watchSession(
  paths: NamedSession,
  { fromStart = false, signal }: ConversationOptions = {},
): AsyncGenerator<SessionUpdate> {
  let session = fromStart ? emptySession(paths.name) : await readSession(paths);
  const conversation = openConversation(session.plan?.steps);
  const take = (event: ShownEvent): SessionUpdate[] => {
    if (event.seq > session.seq) session = reduceEvent(session, event);
    return conversation.event(event).map((item) => ({ ...item, session }));
  };
  if (fromStart) {
    const removed = sessionBeforeOldest(paths);
    for await (const { event } of followEvents(paths, {})) {
      if (session.seq === 0 && event.seq > 1) session = removed(event.seq);
      yield* take(withShownText(event));
    }
  }
  yield { kind: 'state', seq: session.seq, session };
  for await (const update of streamSession(paths, { after: session.seq, signal })) {
    // What replaces the void events follows; the state may be ahead of it.
    if (update.is === 'void') session = await readSession(paths);
    if (update.is === 'event') yield* take(update.event);
    if (update.is === 'text') yield* conversation.live(update.from, update.text).map((item) => ({ ...item, session }));
  }
}

/** The seq of the event before the first one to send. */
function seqBefore(paths: SessionPaths, before: number | undefined, { after = 0, last }: StreamOptions): number {
  if (last === undefined) return after;
  const newest = before === undefined ? (readLastEvent(paths)?.seq ?? 0) : before - 1;
  return Math.max(after, newest - last);
}

/** Whether the current text may belong to a call in flight; for a call that is over, the event has the text. */
async function isInCall(paths: NamedSession): Promise<boolean> {
  const { run, at } = await readSession(paths);
  return run !== null && !wasWrittenBefore(paths.live, at);
}

/** The text of the call in flight as people read it, each piece with its position. */
function openWords({ live: path }: SessionPaths) {
  const live = openLiveTail(path);
  let show = showWhileWritten();
  let sentSeq = 0;
  return {
    next(): Extract<StreamUpdate, { is: 'text' }> | null {
      const { text: written, began } = live.readNew();
      if (began) [show, sentSeq] = [showWhileWritten(), 0];
      const text = show(written);
      if (text === '') return null;
      const from = sentSeq;
      sentSeq += text.length;
      return { is: 'text', from, text };
    },
    /** Skips the text so far: that call is over, and its event contains the text. */
    skip: live.skipToEnd,
  };
}
