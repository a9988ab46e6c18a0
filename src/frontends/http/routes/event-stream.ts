import { z } from 'zod';
import type { Client } from '../../../client/index.ts';
import { problemBody, problemOf } from '../common/http-problem.ts';
import { defineOperation, type HttpOperation } from '../common/operation.ts';
import { InSession, wholeNumber } from '../common/path-schemas.ts';

/** How often a stream shows that it is alive, in ms. It is an event, since pages do not see comments. */
const HEARTBEAT_MS = 10_000;
/** How long a reader waits before it comes back: after a cut connection, and after a fault that will still be there. */
const RETRY_MS = { cut: 1000, fault: 30_000 };

const Place = wholeNumber(0, 9_999_999_999).optional();

/** The record of a session as server-sent events. */
export const STREAM_OPERATION: HttpOperation = defineOperation({
  ...{ method: 'get', path: '/api/sessions/{session}/events', id: 'streamEvents', params: InSession },
  summary: 'The record of a session as server-sent events, from a place on',
  query: z.strictObject({ after: Place.describe('The seq behind which it begins; 0 is the beginning.') }),
  headers: z.object({ 'last-event-id': Place.describe('As "after", and goes before it.') }),
  answers: { 200: { describe: 'Server-sent events.', schema: z.string(), type: 'text/event-stream' } },
  problems: [404],
  run({ client, params, query, headers, services: { complain }, signal }) {
    // A session that is not there is a problem now, and not in the stream.
    client.folder(params.session);
    const after = headers['last-event-id'] ?? query.after;
    return streamResponse((ends) => sessionFrames(client, params.session, { after, signal: ends, complain }), signal);
  },
});

/** A server-sent event. `id` is where a reader goes on that comes back, and is on events of the record alone. */
type StreamFrame = { retry?: number; id?: number; event?: string; data?: unknown };

type FrameOptions = { after: number | undefined; signal: AbortSignal; complain: (text: string) => void };

async function* sessionFrames(
  client: Client,
  session: string,
  { complain, ...options }: FrameOptions,
): AsyncGenerator<StreamFrame> {
  yield { retry: RETRY_MS.cut };
  try {
    for await (const update of client.stream(session, { ...options, heartbeatMs: HEARTBEAT_MS })) {
      const { is, ...data } = update;
      if (update.is === 'event') yield { id: update.event.seq, event: update.event.type, data: update.event };
      else yield { event: is === 'text' ? 'live' : is, data };
    }
  } catch (error) {
    yield { retry: RETRY_MS.fault, event: 'problem', data: problemBody(problemOf(error, complain)) };
  }
}

/** JSON has no line breaks of its own, so the data is one line. */
function formatFrame({ data, ...head }: StreamFrame): string {
  const lines = Object.entries(head).map(([name, value]) => `${name}: ${value}`);
  return `${[...lines, ...(data === undefined ? [] : [`data: ${JSON.stringify(data)}`])].join('\n')}\n\n`;
}

const encoder = new TextEncoder();

/**
 * Frames as the answer to a request. A frame is made when there is room for it and not before, so a slow reader costs
 * one frame. It ends with the frames, with the connection or with the signal, and what `frames` holds is let go then.
 */
function streamResponse(frames: (ends: AbortSignal) => AsyncGenerator<StreamFrame>, signal: AbortSignal): Response {
  const control = new AbortController();
  const source = frames(control.signal);
  let isRead = true;
  const end = () => {
    control.abort();
    // Of a reader that has stopped reading nobody asks for the next frame.
    void source.return(undefined);
    signal.removeEventListener('abort', end);
  };
  signal.addEventListener('abort', end);
  if (signal.aborted) end();
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(sink) {
        const { done, value } = await source.next();
        if (value) sink.enqueue(encoder.encode(formatFrame(value)));
        if (done) end();
        if (done && isRead) sink.close();
      },
      cancel() {
        isRead = false;
        end();
      },
    },
    { highWaterMark: 0 },
  );
  // Proxies such as nginx would hold events back to send many at once.
  const headers = { 'content-type': 'text/event-stream', 'cache-control': 'no-store', 'x-accel-buffering': 'no' };
  return new Response(body, { headers });
}
