import type { WebSocket } from 'ws';
import { z } from 'zod';
import { createMutex } from '../../../base/async.ts';
import type { Client } from '../../../client/index.ts';
import { withoutDoneMarkers } from '../../../client/inspect/session-details.ts';
import type { StreamOptions } from '../../../client/inspect/stream-session.ts';
import type { Event } from '../../../protocol/session/event.ts';
import { problemBody, problemOf } from '../common/http-problem.ts';
import { defineOperation, type HttpOperation, InSession, wholeNumber } from '../common/operation.ts';
import { sseResponse } from '../common/sse-response.ts';

/** How often a stream shows that it is alive, in ms. It is an event, since pages do not see comments. */
const HEARTBEAT_MS = 10_000;
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
type StreamFrame = { id?: number; event: string; data: unknown };

type FrameOptions = StreamOptions & { signal: AbortSignal; complain: (text: string) => void };

/**
 * The frames of a session from a place in its record on, until the signal is aborted, the session is gone, or its
 * reader may not see it any more. Of a fault the last one, `problem`, tells.
 */
async function* sessionFrames(
  client: Client,
  session: string,
  { complain, ...options }: FrameOptions,
): AsyncGenerator<StreamFrame> {
  try {
    for await (const update of client.stream(session, options)) {
      const { is, ...data } = update;
      if (update.is === 'event')
        yield { id: update.event.seq, event: update.event.type, data: withShownText(update.event) };
      else yield { event: is === 'text' ? 'live' : is, data };
    }
  } catch (error) {
    yield { event: 'problem', data: problemBody(problemOf(error, complain)) };
  }
}

/** An answer of the model has the text for people beside its own where that is another one. */
function withShownText(event: Event): Event & { shown?: string } {
  if (event.type !== 'model.answered') return event;
  const shown = withoutDoneMarkers(event.text);
  return shown === event.text ? event : { ...event, shown };
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

/** Codes with which a socket is closed; those from 4000 on are free for programs to use. */
const CLOSE = { stopping: 1001, notText: 1003, notJson: 1007, badFrame: 1008, tokenRemoved: 4401 };
/** A reason may have so many bytes. */
const MAX_REASON_BYTES = 123;
/** Frames wait to be made while more characters than this wait to be sent. */
const FULL_BYTES = 65_536;
const MAX_FOLLOWED = 100;
/** A client that does not close its side within this time, in ms, is cut. */
const CLOSE_MS = 2000;

const { session } = InSession.shape;
/** What a client sends. */
const ClientFrame = z.union([
  z.strictObject({ follow: session, after: z.int().min(0).optional() }),
  z.strictObject({ unfollow: session }),
]);

type SocketServices = {
  /** What the holder of the token may use by now; undefined once it was removed. */
  currentClient: () => Client | undefined;
  closing: AbortSignal;
  complain: (text: string) => void;
};

/**
 * Serves sessions to a socket, each from the place that its client names: the frames of an event stream, with the name
 * of their session. As there, frames are made when there is room for them, so a slow reader costs no more than a fast
 * one; what a socket holds is let go when it ends.
 */
export function serveEventSocket(socket: WebSocket, { currentClient, closing, complain }: SocketServices): void {
  const followed = new Map<string, AbortController>();
  const inTurn = createMutex();
  const send = (frame: object) => inTurn(() => sendFrame(socket, frame));

  function close(code: number, reason: string): void {
    socket.close(code, cut(reason));
    for (const one of followed.values()) one.abort();
    ends ??= setTimeout(() => socket.terminate(), CLOSE_MS);
  }
  let ends: NodeJS.Timeout | undefined;
  const stop = () => close(CLOSE.stopping, 'The server is stopping. Come back in a moment.');
  const heartbeat = setInterval(() => {
    if (!currentClient()) close(CLOSE.tokenRemoved, TOKEN_REMOVED);
    // A reader that is behind sees by what comes that the connection lives.
    else if (socket.bufferedAmount === 0) void send({ event: 'heartbeat', data: {} });
  }, HEARTBEAT_MS);
  closing.addEventListener('abort', stop);
  if (closing.aborted) stop();

  socket.on('error', () => {});
  socket.on('close', () => {
    clearInterval(heartbeat);
    clearTimeout(ends);
    closing.removeEventListener('abort', stop);
    for (const one of followed.values()) one.abort();
  });
  socket.on('message', (data, isBinary) => {
    if (socket.readyState !== socket.OPEN) return;
    const came = isBinary ? { code: CLOSE.notText, fault: 'Expected a text frame with JSON, got binary.' } : read(data);
    if ('fault' in came) return close(came.code, came.fault);
    const client = currentClient();
    if (!client) return close(CLOSE.tokenRemoved, TOKEN_REMOVED);
    if ('follow' in came && followed.size >= MAX_FOLLOWED && !followed.has(came.follow))
      return close(CLOSE.badFrame, `A socket follows at most ${MAX_FOLLOWED} sessions. Open another one.`);
    // Whoever asks without reading the answers is not listened to meanwhile.
    socket.pause();
    const answered = 'follow' in came ? follow(client, came.follow, came.after ?? 0) : unfollow(came.unfollow);
    void answered.then(() => socket.resume());
  });

  /** Resolves once the client has been notified; the frames come behind that. */
  async function follow(client: Client, session: string, after: number): Promise<void> {
    followed.get(session)?.abort();
    const control = new AbortController();
    followed.set(session, control);
    await send({ session, event: 'following', data: { after } });
    void sendSession(client, { session, after, control });
  }

  async function unfollow(session: string): Promise<void> {
    followed.get(session)?.abort();
    followed.delete(session);
    await send({ session, event: 'ended', data: {} });
  }

  type Followed = { session: string; after: number; control: AbortController };

  async function sendSession(client: Client, { session, after, control }: Followed): Promise<void> {
    const { signal } = control;
    let last: StreamFrame | undefined;
    for await (const frame of sessionFrames(client, session, { after, signal, complain })) {
      // The client has gone on to something else while this one was made.
      if (signal.aborted) break;
      await send({ session, ...frame });
      last = frame;
    }
    if (followed.get(session) === control) followed.delete(session);
    if (signal.aborted) return;
    if (!currentClient()) close(CLOSE.tokenRemoved, TOKEN_REMOVED);
    else if (last?.event !== 'problem') await send({ session, event: 'ended', data: {} });
  }
}

const TOKEN_REMOVED = 'The token of this connection was removed.';

function read(data: WebSocket.RawData): z.infer<typeof ClientFrame> | { code: number; fault: string } {
  let json: unknown;
  try {
    json = JSON.parse(String(data));
  } catch {
    return { code: CLOSE.notJson, fault: 'Expected a text frame with JSON, got something else.' };
  }
  const frame = ClientFrame.safeParse(json);
  if (frame.success) return frame.data;
  const fault = `Expected {"follow":session,"after":seq} or {"unfollow":session}, got ${JSON.stringify(json)}`;
  return { code: CLOSE.badFrame, fault };
}

/** Resolves once there is room for the next frame, or once nobody is there to read it. */
function sendFrame(socket: WebSocket, frame: object): Promise<void> {
  return new Promise((done) => {
    socket.send(JSON.stringify(frame), () => done());
    if (socket.bufferedAmount < FULL_BYTES) done();
  });
}

/** As much of a text as a reason may have. */
function cut(text: string): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= MAX_REASON_BYTES) return text;
  // A character that is cut in two is left out.
  return `${new TextDecoder().decode(bytes.subarray(0, MAX_REASON_BYTES - 3), { stream: true })}…`;
}
