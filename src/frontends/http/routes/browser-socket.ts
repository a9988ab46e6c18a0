import { connect } from 'node:net';
import type { WebSocket } from 'ws';
import { z } from 'zod';
import type { Client } from '../../../client/index.ts';
import { HttpProblem } from '../common/http-problem.ts';
import { defineOperation, type HttpOperation, jsonAnswer } from '../common/operation.ts';
import { InSession } from '../common/path-schemas.ts';

/** The daemon answers at once; it may have to open the session first. */
const REPLY_MS = 20_000;
/** Between two looks whether the token of the connection is still valid, in ms. */
const CHECK_MS = 10_000;
/** A client that does not close its side within this time, in ms, is cut. */
const CLOSE_MS = 2000;
const CLOSE = { ended: 1000, stopping: 1001, notText: 1003, noBrowser: 1011, tokenRemoved: 4401 };

const BrowserBody = z.strictObject({
  do: z.enum(['take', 'return']).describe('"take": the agent waits where it needs its browser, until "return".'),
});

/** Taking over the browser of a session. It is used over the WebSocket below this path. */
export const BROWSER_OPERATION: HttpOperation = defineOperation({
  ...{ method: 'post', path: '/api/sessions/{session}/browser', id: 'takeBrowser', params: InSession },
  summary: "Take over the session's browser, or give it back",
  body: BrowserBody,
  answers: { 200: { describe: 'It is done.', schema: z.object({ text: z.string() }) } },
  problems: [403, 404, 409, 503],
  run: async ({ client, params: { session }, body, signal }) =>
    jsonAnswer({ text: await orderBrowser(client, session, body.do, signal) }),
});

/** The words of the reply. Throws a problem where the order is refused, or nobody is there to carry it out. */
async function orderBrowser(
  client: Client,
  session: string,
  order: 'take' | 'return',
  signal: AbortSignal,
): Promise<string> {
  const start = 'Start one: agentctl start';
  if (!client.daemon())
    throw new HttpProblem(409, { wanted: 'a running daemon', came: 'none is running', todo: start });
  const sent = await client.send(session, { command: 'browser', text: order }, { mustExist: true });
  const reply = await client
    .waitForReply(sent.session, sent.name, { timeoutMs: REPLY_MS, signal })
    .catch((error: unknown) => {
      if (!(error instanceof Error) || error.name !== 'WaitedTooLong') throw error;
      throw new HttpProblem(503, { wanted: 'a reply of the daemon', came: error.message, todo: 'Try it again.' });
    });
  await client.markReplyRead(sent.session, sent.name);
  if (reply.status === 'done') return reply.text;
  throw new HttpProblem(409, {
    wanted: 'a browser that is open, and that no other person has',
    came: reply.text,
    todo: 'The words above say how to get there.',
  });
}

type BridgeServices = { currentClient: () => Client | undefined; closing: AbortSignal };

/**
 * Connects a person to the browser that they have: each text frame is a line of the daemon's socket, both ways.
 * The daemon checks what they send, and sends no more pictures than they acknowledge.
 */
export function serveBrowserSocket(socket: WebSocket, path: string, { currentClient, closing }: BridgeServices): void {
  const browser = connect(path);
  let rest = '';
  function close(code: number, reason: string): void {
    socket.close(code, reason);
    browser.destroy();
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

  browser.on('error', () => close(CLOSE.noBrowser, 'The browser cannot be reached.'));
  browser.on('close', () => close(CLOSE.ended, 'The browser was given back.'));
  browser.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) socket.send(line);
  });
  socket.on('error', () => {});
  socket.on('close', () => {
    clearInterval(check);
    clearTimeout(ends);
    closing.removeEventListener('abort', stop);
    browser.destroy();
  });
  socket.on('message', (data, isBinary) => {
    if (isBinary) return close(CLOSE.notText, 'Expected a text frame with JSON, got binary.');
    // One frame is one line, whatever is in it.
    browser.write(`${String(data).replaceAll('\n', ' ')}\n`);
  });
}
