import type { WebSocket } from 'ws';
import { z } from 'zod';
import { createMutex } from '../../../base/async.ts';
import type { Client } from '../../../client/index.ts';
import type { StreamOptions } from '../../../client/inspect/stream-session.ts';
import { problemBody, problemOf } from '../common/http-problem.ts';
import { defineOperation, type HttpOperation, InSession, wholeNumber } from '../common/operation.ts';
import { sseResponse } from '../common/sse-response.ts';

/** How often a stream sends a heartbeat. It is an event, since scripts of a page cannot see comments. */
const HEARTBEAT_MS = 10_000;
/** How long a reader waits before it reconnects: after a lost connection, and after an error that is likely to last. */
const RETRY_MS = { cut: 1000, fault: 30_000 };

const MOST = 9_999_999_999;
const Place = wholeNumber(0, MOST).optional();
const Count = wholeNumber(1, MOST).optional();

/** The event log of a session as server-sent events. */
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
    // A missing session is answered with 404 rather than an event in the stream.
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

/** A frame for the reader of a session. `id` is where it resumes after a reconnect; only logged events have one. */
type StreamFrame = { id?: number; event: string; data: unknown };

type FrameOptions = StreamOptions & { signal: AbortSignal; complain: (text: string) => void };

/**
 * The frames of a session from a given event on, until the signal is aborted, the session is gone, or its reader loses
 * access. If it ends by an error, the last frame is a `problem`.
 */
async function* sessionFrames(
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

/** Writes frames as server-sent events. */
async function* eventStream(frames: AsyncGenerator<StreamFrame>): AsyncGenerator<string> {
  yield `retry: ${RETRY_MS.cut}\n\n`;
  for await (const frame of frames) {
    const retry = frame.event === 'problem' ? `retry: ${RETRY_MS.fault}\n` : '';
    const id = frame.id === undefined ? '' : `id: ${frame.id}\n`;
    // JSON.stringify escapes line breaks, so the data is one line.
    yield `${retry}${id}event: ${frame.event}\ndata: ${JSON.stringify(frame.data)}\n\n`;
  }
}

/** WebSocket close codes; those from 4000 on are for applications. */
const CLOSE = { stopping: 1001, notText: 1003, notJson: 1007, badFrame: 1008, tokenRemoved: 4401 };
/** The most bytes that a close reason may have. */
const MAX_REASON_BYTES = 123;
/** No further frames are generated while more than this is waiting to be sent. */
const FULL_BYTES = 65_536;
const MAX_FOLLOWED = 100;
/** A client that does not close its side within this time is disconnected. */
const CLOSE_MS = 2000;

const { session } = InSession.shape;
/** A frame from a client. */
const ClientFrame = z.union([
  z.strictObject({ follow: session, after: z.int().min(0).optional() }),
  z.strictObject({ unfollow: session }),
]);

type SocketServices = {
  /** The client that the token's holder may use now; undefined once the token was removed. */
  currentClient: () => Client | undefined;
  closing: AbortSignal;
  complain: (text: string) => void;
};

/**
 * Streams sessions over a WebSocket, each from the event that the client names: the frames of an event stream, with the
 * name of their session. As there, frames are only generated when there is room to send them, so a slow reader costs no
 * more than a fast one. All resources are released when the socket closes.
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
    // A reader that is behind needs no heartbeat: the frames it receives show that the connection is alive.
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
    // Requests are not read until the answer is sent, so that a client cannot pile up unread answers.
    socket.pause();
    const answered = 'follow' in came ? follow(client, came.follow, came.after ?? 0) : unfollow(came.unfollow);
    void answered.then(() => socket.resume());
  });

  /** Resolves once the client has been notified; the frames follow. */
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
      // The client stopped following while this frame was generated.
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

/** Resolves once there is room for the next frame, or the socket is closed. */
function sendFrame(socket: WebSocket, frame: object): Promise<void> {
  return new Promise((done) => {
    socket.send(JSON.stringify(frame), () => done());
    if (socket.bufferedAmount < FULL_BYTES) done();
  });
}

/** Truncates a text to the length of a close reason. */
function cut(text: string): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= MAX_REASON_BYTES) return text;
  // Streaming mode drops an incomplete character at the end.
  return `${new TextDecoder().decode(bytes.subarray(0, MAX_REASON_BYTES - 3), { stream: true })}…`;
}
