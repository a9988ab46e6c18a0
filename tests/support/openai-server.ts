import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDaemonBlock, parseUserMessage } from '../../src/protocol/session/prompt-tags.ts';

type WireMessage = {
  role: string;
  content: string | null;
  tool_call_id?: string;
  tool_calls?: Array<{ id: string; function: { name: string; arguments: string } }>;
};
type RequestBody = {
  model: string;
  messages: WireMessage[];
  tools?: Array<{ function: { name: string } }>;
  stream?: boolean;
  stream_options?: { include_usage: boolean };
};

/** One request as it came in. */
type Seen = {
  /** From 0, in order of arrival. */
  index: number;
  path: string;
  headers: IncomingMessage['headers'];
  body: RequestBody;
  /** `performance.now()` of its arrival. */
  at: number;
  /** Local port of the client: two requests with the same one shared a connection. */
  port: number;
  /** The newest user message that is not the daemon's block; '' where there is none. */
  userText: string;
  /** Settles when the exchange is over: true where the client hung up before the answer was whole. */
  hungUp: Promise<boolean>;
};

type Call = { id?: string; name?: string; args?: string };

/**
 * An answer. With `status` it is an HTTP error; with `plain` it is JSON though a stream was asked for; with `pieces` it is
 * exactly these `data:` lines; else `text` (an array: its fragments) and `calls`, streamed, then usage and `[DONE]`.
 */
export type Answer = {
  text?: string | string[];
  /** Arguments are cut into fragments of `cut` characters (7). */
  calls?: Call[];
  cut?: number;
  /** What is reported as `finish_reason`; `tool_calls` or `stop` by default. */
  finish?: string;
  /** null: none is reported. */
  usage?: Record<string, unknown> | null;
  model?: string;
  status?: number;
  headers?: Record<string, string>;
  /** Body of an error, or of a plain answer; an object is sent as JSON. */
  body?: string | object;
  plain?: boolean;
  pieces?: Array<string | object>;
  /** How a stream ends: `done` (with `[DONE]`), `quiet` (closed without it), `cut` (the socket is destroyed), `open` (never). */
  end?: 'done' | 'quiet' | 'cut' | 'open';
  delayMs?: number;
  /** Held back until `release()`: `before` anything is sent, or after the `first` fragment of text or call. */
  hang?: 'before' | 'first';
};

export type ScriptEntry = Answer | ((request: Seen) => Answer | Promise<Answer>);

export type OpenAIServer = {
  /** The base_url of the endpoint. */
  url: string;
  requests: Seen[];
  /** Paths of what was only read, such as the list of models. */
  gets: string[];
  /** What that list says. */
  models: object[];
  /** Resolves once `count` requests have arrived, with the newest of them. */
  arrived(count: number): Promise<Seen>;
  /** Lets the answer of every request that has arrived go on. */
  release(): void;
  /** Adds entries behind those of a list. */
  add(...entries: ScriptEntry[]): void;
  /** Hangs up on everybody and gives the port back; `startOpenAI(…, { host, port })` starts it there again. */
  close(): Promise<void>;
  port: number;
};

/**
 * A loopback endpoint that speaks the OpenAI chat format from a script. A list is served one entry a request, in order
 * of arrival, and answers 500 beyond its end; a single entry answers every request (a function can look at the messages,
 * to serve many sessions at once).
 */
export async function startOpenAI(
  script: ScriptEntry[] | ScriptEntry,
  { host = '127.0.0.1', port = 0 } = {},
): Promise<OpenAIServer> {
  const requests: Seen[] = [];
  const gets: string[] = [];
  const models: object[] = [];
  const arrivals = new Set<() => void>();
  const waiting = new Set<() => void>();
  const entries = Array.isArray(script) ? [...script] : [];
  const entryAt = (at: number) => (Array.isArray(script) ? (entries[at] ?? OVER) : script);

  const server = createServer((request, response) => {
    const exchange = async () => {
      if (request.method === 'GET') {
        gets.push(request.url ?? '');
        return sendWhole(response, { status: 200, body: { object: 'list', data: models } });
      }
      const seen = await read(request, response, requests);
      // Made before anybody hears of the arrival: a release that follows it lets this one go as well.
      const released = new Promise<void>((resolve) => waiting.add(resolve));
      for (const look of arrivals) look();
      const entry = entryAt(seen.index);
      await send(response, typeof entry === 'function' ? await entry(seen) : entry, seen, released);
    };
    exchange().catch((error: unknown) => response.destroy(error instanceof Error ? error : undefined));
  });
  await new Promise<void>((resolve) => server.listen(port, host, resolve));
  const address = server.address();
  const bound = typeof address === 'object' && address ? address.port : port;

  return {
    url: `http://${host}:${bound}/v1`,
    port: bound,
    requests,
    gets,
    models,
    arrived: (count) =>
      new Promise((resolve) => {
        const look = () => {
          const newest = requests[count - 1];
          if (!newest) return;
          arrivals.delete(look);
          resolve(newest);
        };
        arrivals.add(look);
        look();
      }),
    release: () => {
      for (const go of waiting) go();
      waiting.clear();
    },
    add: (...more) => void entries.push(...more),
    close: () =>
      new Promise((resolve) => {
        for (const go of waiting) go();
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

const OVER: Answer = { status: 500, body: { error: { message: 'the script is over' } } };

/** The text of a message, whose content may be a list of parts. */
function textIn(content: unknown): string {
  if (!Array.isArray(content)) return typeof content === 'string' ? content : '';
  return content.map((part: { text?: string }) => part.text ?? '').join('');
}

async function read(request: IncomingMessage, response: ServerResponse, requests: Seen[]): Promise<Seen> {
  const at = performance.now();
  const hungUp = new Promise<boolean>((resolve) => response.on('close', () => resolve(!response.writableFinished)));
  let text = '';
  request.setEncoding('utf8');
  for await (const piece of request) text += piece;
  const body: RequestBody = JSON.parse(text);
  const newest = body.messages.findLast((one) => one.role === 'user' && !isDaemonBlock(textIn(one.content)));
  const seen: Seen = {
    index: requests.length,
    path: request.url ?? '',
    headers: request.headers,
    body,
    at,
    port: request.socket.remotePort ?? 0,
    userText: parseUserMessage(textIn(newest?.content)).text,
    hungUp,
  };
  requests.push(seen);
  return seen;
}

async function send(response: ServerResponse, answer: Answer, seen: Seen, released: Promise<void>): Promise<void> {
  if (answer.delayMs) await sleep(answer.delayMs);
  if (answer.hang === 'before') await released;
  if (answer.status || answer.plain || !seen.body.stream) return sendWhole(response, answer);
  response.writeHead(200, { 'content-type': 'text/event-stream', ...answer.headers });
  response.flushHeaders();
  for (const [at, piece] of piecesOf(answer, seen.body).entries()) {
    if (at === 2 && answer.hang === 'first') await released;
    response.write(`data: ${typeof piece === 'string' ? piece : JSON.stringify(piece)}\n\n`);
    // Lets each piece leave on its own, so that the client sees fragments.
    await new Promise((resolve) => setImmediate(resolve));
  }
  const end = answer.end ?? 'done';
  if (end === 'cut') response.destroy();
  if (end === 'done') {
    response.write('data: [DONE]\n\n');
    await new Promise((resolve) => setImmediate(resolve));
    response.end();
  }
  if (end === 'quiet') response.end();
}

function sendWhole(response: ServerResponse, answer: Answer): void {
  const body = answer.body ?? (answer.status ? { error: { message: answer.text ?? 'no' } } : wholeAnswer(answer));
  const type = typeof body === 'string' ? 'text/html' : 'application/json';
  response.writeHead(answer.status ?? 200, { 'content-type': type, ...answer.headers });
  response.end(typeof body === 'string' ? body : JSON.stringify(body));
}

const USAGE = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
const usageOf = (answer: Answer) => (answer.usage === undefined ? USAGE : answer.usage);
const finishOf = (answer: Answer) => answer.finish ?? (answer.calls?.length ? 'tool_calls' : 'stop');
const textOf = ({ text = '' }: Answer) => (Array.isArray(text) ? text.join('') : text);

function wholeAnswer(answer: Answer): object {
  const calls = (answer.calls ?? []).map(({ id, name, args }) => ({
    id,
    type: 'function',
    function: { name, arguments: args },
  }));
  const message = { role: 'assistant', content: textOf(answer), ...(calls.length > 0 ? { tool_calls: calls } : {}) };
  const choices = [{ index: 0, message, finish_reason: finishOf(answer) }];
  return { id: 'x', object: 'chat.completion', model: answer.model ?? 'test', choices, usage: usageOf(answer) };
}

function piecesOf(answer: Answer, body: RequestBody): Array<string | object> {
  if (answer.pieces) return answer.pieces;
  const piece = (delta: object, finish_reason: string | null = null) => ({
    id: 'x',
    object: 'chat.completion.chunk',
    model: answer.model ?? body.model,
    choices: [{ index: 0, delta, finish_reason }],
  });
  const { text = [], calls = [], cut = 7 } = answer;
  const texts = (Array.isArray(text) ? text : [text]).filter(Boolean).map((content) => piece({ content }));
  const asked = calls.flatMap((call, index) => callDeltas(call, index, cut).map((one) => piece({ tool_calls: [one] })));
  const usage = usageOf(answer);
  const reported = usage && body.stream_options?.include_usage ? [{ ...piece({}), choices: [], usage }] : [];
  return [piece({ role: 'assistant' }), ...texts, ...asked, piece({}, finishOf(answer)), ...reported];
}

/** As OpenAI streams a call: id and name first, then the arguments in fragments. */
function callDeltas({ id, name, args = '' }: Call, index: number, cut: number): object[] {
  const fragments = args.match(new RegExp(`[^]{1,${cut}}`, 'g')) ?? [];
  return [
    { index, ...(id === undefined ? {} : { id }), type: 'function', function: { name, arguments: '' } },
    ...fragments.map((part) => ({ index, function: { arguments: part } })),
  ];
}
