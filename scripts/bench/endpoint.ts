import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** An answer of the model: text, possibly with the rest of it after a pause in ms, or one tool call. */
export type Say = { text: string; rest?: string; pauseMs?: number } | { tool: string; args: object };

/**
 * One request and its answer, in ms by the bench's clock: headers received; first byte and last byte
 * handed to the kernel (NaN until then). `who`: the word after the first MARK in the request.
 */
export type Exchange = { arrived: number; began: number; answered: number; who: string };

/** Precedes the name of a session in the text of its task, if several sessions run. */
export const MARK = '@session-';

/** The parts of a request besides the conversation, so that a floor can send the same. */
type ModelSetup = { system: string; tools: unknown[] };

type Script = (index: number, who: string) => Say | Promise<Say>;

export type Endpoint = {
  url: string;
  /** Answers requests by `say` from now on, which gets their number (from 0) and session. Forgets earlier exchanges. */
  script(say: Script): void;
  readonly exchanges: readonly Exchange[];
  setup(): ModelSetup;
  /** Resolves with the time of the next arrival. */
  arrival(): Promise<number>;
  /** Bytes received over all connections so far. */
  received(): number;
  close(): void;
};

type Body = { messages: Array<{ role: string; content: string }>; tools?: unknown[] };

/** A model that answers at once, over loopback: a bare HTTP server that streams like an OpenAI-compatible endpoint. */
export async function openEndpoint(): Promise<Endpoint> {
  let exchanges: Exchange[] = [];
  let say: Script = () => ({ text: 'ok' });
  let body: Body = { messages: [] };
  let arrivals: Array<(at: number) => void> = [];

  const server = createServer((request, response) => {
    // Requests for the list of models are not model calls.
    if (request.method !== 'POST') return void response.writeHead(404).end();
    const later = Number.NaN;
    const exchange: Exchange = { arrived: performance.now(), began: later, answered: later, who: '' };
    const index = exchanges.push(exchange) - 1;
    const answer = say;
    for (const one of arrivals.splice(0)) one(exchange.arrived);
    void received(request).then(async (bytes) => {
      if (index === 0) body = JSON.parse(bytes.toString());
      exchange.who = whoIn(bytes);
      const said = await answer(index, exchange.who);
      if (response.destroyed) return;
      exchange.began = performance.now();
      await stream(response, said, index);
      exchange.answered = performance.now();
    }, gone);
  });
  const sockets = new Set<Socket>();
  let closed = 0;
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => {
      sockets.delete(socket);
      closed += socket.bytesRead;
    });
  });
  server.keepAliveTimeout = 60_000;
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as AddressInfo;

  return {
    url: `http://127.0.0.1:${port}/v1`,
    script(next) {
      say = next;
      exchanges = [];
      arrivals = [];
    },
    get exchanges() {
      return exchanges;
    },
    setup: () => ({ system: body.messages[0]?.content ?? '', tools: body.tools ?? [] }),
    arrival: () => new Promise((resolve) => arrivals.push(resolve)),
    received: () => [...sockets].reduce((sum, socket) => sum + socket.bytesRead, closed),
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** Ignores the error of a daemon that was killed in the middle of a request. */
const gone = (): void => {};

function whoIn(bytes: Buffer): string {
  const at = bytes.indexOf(MARK);
  return at < 0 ? '' : (/^\w+/.exec(bytes.toString('latin1', at + MARK.length, at + MARK.length + 20))?.[0] ?? '');
}

async function received(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts);
}

async function stream(response: ServerResponse, say: Say, index: number): Promise<void> {
  const piece = (delta: object, finish: string | null = null): string =>
    `data: ${JSON.stringify({
      id: `answer-${index}`,
      object: 'chat.completion.chunk',
      created: 0,
      model: 'bench',
      choices: [{ index: 0, delta, finish_reason: finish }],
    })}\n\n`;
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  if ('text' in say) {
    response.write(piece({ role: 'assistant', content: say.text }));
    if (say.rest !== undefined) {
      await sleep(say.pauseMs ?? 0);
      response.write(piece({ content: say.rest }));
    }
    response.write(piece({}, 'stop'));
  } else {
    const call = { index: 0, id: `call_${index}`, type: 'function', function: { name: say.tool, arguments: '' } };
    response.write(piece({ role: 'assistant', content: null, tool_calls: [call] }));
    response.write(piece({ tool_calls: [{ index: 0, function: { arguments: JSON.stringify(say.args) } }] }));
    response.write(piece({}, 'tool_calls'));
  }
  response.end('data: [DONE]\n\n');
}
