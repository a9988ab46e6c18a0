import { z } from 'zod';
import type { Client } from '../../../client/index.ts';
import type { StreamOptions } from '../../../client/inspect/stream-session.ts';
import { problemBody, problemOf } from '../common/http-problem.ts';
import { defineOperation, type HttpOperation } from '../common/operation.ts';
import { InSession, wholeNumber } from '../common/path-schemas.ts';
import { sseResponse } from '../common/sse-response.ts';

/** How often a stream shows that it is alive, in ms. It is an event, since pages do not see comments. */
export const HEARTBEAT_MS = 10_000;
/** How long a reader waits before it comes back: after a cut connection, and after a fault that will still be there. */
const RETRY_MS = { cut: 1000, fault: 30_000 };

const MOST = 9_999_999_999;
const Place = wholeNumber(0, MOST).optional();
const Count = wholeNumber(1, MOST).optional();

/** The record of a session as server-sent events. */
export const STREAM_OPERATION: HttpOperation = defineOperation({
  ...{ method: 'get', path: '/api/sessions/{session}/events', id: 'streamEvents', params: InSession },
  summary: 'The event log of a session as server-sent events, from a given event on',
  query: z.strictObject({
    after: Place.describe('Sends the events after this seq; 0 is the beginning.'),
    last: Count.describe('Begins with so many of the newest events, or of those before "before".'),
    before: Count.describe('Ends before the event with this seq.'),
  }),
  headers: z.object({ 'last-event-id': Place.describe('Like "after", and takes precedence over it and "last".') }),
  answers: { 200: { describe: 'Server-sent events.', type: 'text/event-stream' } },
  problems: [404],
  run({ client, params, query, headers, services: { complain }, signal }) {
    // A session that is not there is a problem now, and not in the stream.
    client.folder(params.session);
    const came = headers['last-event-id'];
    const start = came === undefined ? query : { before: query.before, after: came };
    const options = { ...start, heartbeatMs: HEARTBEAT_MS, complain };
    return sseResponse(
      (ends) => eventStream(sessionFrames(client, params.session, { ...options, signal: ends })),
      signal,
    );
  },
});

/**
 * What a reader of a session is sent. `id` is where it goes on when it comes back: events of the record alone have
 * one.
 */
export type StreamFrame = { id?: number; event: string; data: unknown };

type FrameOptions = StreamOptions & { signal: AbortSignal; complain: (text: string) => void };

/**
 * The frames of a session from a place in its record on, until the signal is aborted, the session is gone, or its
 * reader may not see it any more. Of a fault the last one, `problem`, tells.
 */
export async function* sessionFrames(
  client: Client,
  session: string,
  { complain, ...options }: FrameOptions,
): AsyncGenerator<StreamFrame> {
  try {
    for await (const update of client.stream(session, options)) {
      const { is, ...data } = update;
      if (update.is === 'event') yield { id: update.event.seq, event: update.event.type, data: update.event };
      else yield { event: is === 'text' ? 'live' : is, data };
    }
  } catch (error) {
    yield { event: 'problem', data: problemBody(problemOf(error, complain)) };
  }
}

/** The same as server-sent events. */
async function* eventStream(frames: AsyncGenerator<StreamFrame>): AsyncGenerator<string> {
  yield `retry: ${RETRY_MS.cut}\n\n`;
  for await (const frame of frames) {
    const retry = frame.event === 'problem' ? `retry: ${RETRY_MS.fault}\n` : '';
    const id = frame.id === undefined ? '' : `id: ${frame.id}\n`;
    // JSON has no line breaks of its own, so the data is one line.
    yield `${retry}${id}event: ${frame.event}\ndata: ${JSON.stringify(frame.data)}\n\n`;
  }
}
