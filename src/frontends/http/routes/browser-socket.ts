import { connect } from 'node:net';
import type { WebSocket } from 'ws';
import { z } from 'zod';
import { withdrawFromInbox } from '../../../client/actions/messaging.ts';
import type { Client, SentMessage } from '../../../client/index.ts';
import { commandLine } from '../../../client/sessions/client-errors.ts';
import type { Reply } from '../../../protocol/session/reply.ts';
import { HttpProblem } from '../common/http-problem.ts';
import { defineOperation, type HttpOperation, InSession, jsonAnswer } from '../common/operation.ts';

/** The daemon answers at once, but may have to open the session first. */
const REPLY_MS = 20_000;
/** How often a wait checks whether the daemon still serves the session. */
const SERVED_CHECK_MS = 250;
/** How often the token of the connection is checked. */
const CHECK_MS = 10_000;
/** A client that does not close its side within this time is disconnected. */
const CLOSE_MS = 2000;
const CLOSE = { ended: 1000, stopping: 1001, notText: 1003, unreachable: 1011, tokenRemoved: 4401 };

const BrowserBody = z.strictObject({
  do: z.enum(['take', 'return']).describe('"take": the agent waits where it needs its browser, until "return".'),
});
const DONE = { 200: { describe: 'It is done.', schema: z.object({ text: z.string() }) } };
const FAULTS = [403, 404, 409, 503] as const;

/** Handing a session's browser to a person, who then uses it over the WebSocket below its path. */
export const BROWSER_OPERATIONS: HttpOperation[] = [
  defineOperation({
    ...{ method: 'post', path: '/api/sessions/{session}/browser', id: 'takeBrowser', params: InSession },
    ...{ summary: "Take over the session's browser, or give it back", body: BrowserBody },
    ...{ answers: DONE, problems: FAULTS },
    run: async ({ client, params: { session }, body, signal }) =>
      jsonAnswer({ text: await sendOrder(client, session, body.do, signal) }),
  }),
];

/** Sends an order and returns the text of its reply. Throws a problem if it is refused or the session is not served. */
async function sendOrder(client: Client, session: string, order: string, signal: AbortSignal): Promise<string> {
  const folder = client.folder(session);
  await requireServed(client, session);
  const sent = await client.send(session, { text: `/browser ${order}` }, { mustExist: true });
  const reply = await replyWhileServed(client, sent, signal).catch((error: unknown) => {
    // Whoever gave an order that was refused no longer waits for it, so it must not be carried out later.
    withdrawFromInbox(folder, sent.name);
    if (!(error instanceof Error) || error.name !== 'WaitedTooLong') throw error;
    const todo = `Try it again. If the daemon hangs: ${commandLine(client.paths.root, ['takeover'])}`;
    throw new HttpProblem(503, { wanted: 'a reply of the daemon', came: error.message, todo });
  });
  await client.markReplyRead(sent.session, sent.name);
  if (reply.status === 'done') return reply.text;
  throw new HttpProblem(409, {
    wanted: 'an open browser that no other person controls',
    came: reply.text,
    todo: 'Then try again.',
  });
}

/** Waits for the reply. Throws a problem as soon as no daemon serves the session. */
async function replyWhileServed(client: Client, { session, name }: SentMessage, signal: AbortSignal): Promise<Reply> {
  const refused = new AbortController();
  const check = setInterval(() => {
    requireServed(client, session).catch((error: unknown) => refused.abort(error));
  }, SERVED_CHECK_MS);
  try {
    const either = AbortSignal.any([signal, refused.signal]);
    return await client.waitForReply(session, name, { timeoutMs: REPLY_MS, signal: either });
  } finally {
    clearInterval(check);
  }
}

/** Throws unless a daemon runs and serves the session. */
async function requireServed(client: Client, session: string): Promise<void> {
  if (!client.daemon()) {
    const todo = `Start one: ${commandLine(client.paths.root, ['start'])}`;
    throw new HttpProblem(409, { wanted: 'a running daemon', came: 'none is running', todo });
  }
  const { unserved } = await client.show(session);
  if (unserved === null) return;
  const came = `the daemon does not serve it: ${unserved}`;
  throw new HttpProblem(409, { wanted: 'a session that is served', came, todo: 'Fix that, then try again.' });
}

type BridgeServices = { currentClient: () => Client | undefined; closing: AbortSignal };

/**
 * Connects a person to the browser they control. Each text frame is one line on the daemon's socket, in
 * both directions. The daemon checks what they send, and waits for acknowledgements before it sends more.
 */
export function serveBrowserSocket(socket: WebSocket, path: string, { currentClient, closing }: BridgeServices): void {
  const daemon = connect(path);
  let rest = '';
  function close(code: number, reason: string): void {
    socket.close(code, reason);
    daemon.destroy();
    clearInterval(check);
    ends ??= setTimeout(() => socket.terminate(), CLOSE_MS);
  }
  let ends: NodeJS.Timeout | undefined;
  const stop = () => close(CLOSE.stopping, 'The server is stopping. Come back in a moment.');
  const check = setInterval(() => {
    if (!currentClient()) close(CLOSE.tokenRemoved, 'The token of this connection was removed.');
  }, CHECK_MS);
  closing.addEventListener('abort', stop);
  if (closing.aborted) stop();

  const end = () => close(CLOSE.ended, 'It was given back.');
  daemon.on('error', () => close(CLOSE.unreachable, 'The daemon cannot be reached.'));
  // Once connected, an error is a normal end too: the daemon resets the connection, even with unread data on it.
  daemon.on('connect', () => daemon.removeAllListeners('error').on('error', end));
  daemon.on('close', end);
  daemon.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) socket.send(line);
  });
  socket.on('error', () => {});
  socket.on('close', () => {
    clearInterval(check);
    clearTimeout(ends);
    closing.removeEventListener('abort', stop);
    daemon.destroy();
  });
  socket.on('message', (data, isBinary) => {
    if (isBinary) return close(CLOSE.notText, 'Expected a text frame with JSON, got binary.');
    // A frame must stay one line.
    daemon.write(`${String(data).replaceAll('\n', ' ')}\n`);
  });
}
