import { z } from 'zod';
import type { Client } from '../../../client/index.ts';
import { problemBody, problemOf } from '../common/http-problem.ts';
import { defineOperation, type HttpOperation } from '../common/operation.ts';
import { InSession, wholeNumber } from '../common/path-schemas.ts';
import { sseResponse } from '../common/sse-response.ts';

/** How often a stream shows that it is alive, in ms. It is an event, since pages do not see comments. */
const HEARTBEAT_MS = 10_000;
/** How long a reader waits before it comes back: after a cut connection, and after a fault that will still be there. */
const RETRY_MS = { cut: 1000, fault: 30_000 };

const Place = wholeNumber(0, 9_999_999_999).optional();

/** The record of a session as server-sent events. */
export const STREAM_OPERATION: HttpOperation = defineOperation({
  ...{ method: 'get', path: '/api/sessions/{session}/events', id: 'streamEvents', params: InSession },
  summary: 'The event log of a session as server-sent events, from a given event on',
  query: z.strictObject({ after: Place.describe('Sends the events after this seq; 0 is the beginning.') }),
  headers: z.object({ 'last-event-id': Place.describe('Like "after", and takes precedence over it.') }),
  answers: { 200: { describe: 'Server-sent events.', schema: z.string(), type: 'text/event-stream' } },
  problems: [404],
  run({ client, params, query, headers, services: { complain }, signal }) {
    // A session that is not there is a problem now, and not in the stream.
    client.folder(params.session);
    const after = headers['last-event-id'] ?? query.after;
    return sseResponse((ends) => sessionFrames(client, params.session, { after, signal: ends, complain }), signal);
  },
});

/** A server-sent event. `id` is where a reader goes on that comes back, and is on events of the record alone. */
type StreamFrame = { retry?: number; id?: number; event?: string; data?: unknown };

type FrameOptions = { after: number | undefined; signal: AbortSignal; complain: (text: string) => void };

async function* sessionFrames(
  client: Client,
  session: string,
  { complain, ...options }: FrameOptions,
): AsyncGenerator<string> {
  yield formatFrame({ retry: RETRY_MS.cut });
  try {
    for await (const update of client.stream(session, { ...options, heartbeatMs: HEARTBEAT_MS })) {
      const { is, ...data } = update;
      if (update.is === 'event')
        yield formatFrame({ id: update.event.seq, event: update.event.type, data: update.event });
      else yield formatFrame({ event: is === 'text' ? 'live' : is, data });
    }
  } catch (error) {
    yield formatFrame({ retry: RETRY_MS.fault, event: 'problem', data: problemBody(problemOf(error, complain)) });
  }
}

/** JSON has no line breaks of its own, so the data is one line. */
function formatFrame({ data, ...head }: StreamFrame): string {
  const lines = Object.entries(head).map(([name, value]) => `${name}: ${value}`);
  return `${[...lines, ...(data === undefined ? [] : [`data: ${JSON.stringify(data)}`])].join('\n')}\n\n`;
}
