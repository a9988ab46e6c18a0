import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { FetchLike, Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js';
import { MAX_MESSAGE_BYTES } from './mcp-stdio.ts';
import type { HttpEndpoint } from './server-entry.ts';

type RequestId = string | number;

/** How long to wait for the rest of an answer once its stream has ended. */
const TRAILING_MS = 500;
/** Time limit for the closing request. */
const GOODBYE_MS = 500;

/**
 * A transport over streamable HTTP. A request whose stream ends before its answer fails at once instead of at its time
 * limit, and messages have the same size limit as those of a program.
 */
export function httpTransport({ url, headers }: HttpEndpoint): Transport {
  const open = new Set<RequestId>();
  const inner = new StreamableHTTPClientTransport(url, {
    requestInit: { headers },
    fetch: boundedFetch((id) => setTimeout(() => fail(id), TRAILING_MS).unref()),
  });
  const transport: Transport = {
    start: () => inner.start(),
    async send(message) {
      const id = 'method' in message && 'id' in message ? message.id : undefined;
      if (id !== undefined) open.add(id);
      await inner.send(message);
    },
    async close() {
      const goodbye = inner.terminateSession().catch(() => undefined);
      await Promise.race([goodbye, new Promise((done) => setTimeout(done, GOODBYE_MS).unref())]);
      await inner.close();
    },
    setProtocolVersion: (version) => inner.setProtocolVersion(version),
  };
  const fail = (id: RequestId) => {
    if (open.has(id))
      receive({ jsonrpc: '2.0', id, error: { code: CONNECTION_CLOSED, message: 'the connection was lost' } });
  };
  const receive = (message: JSONRPCMessage) => {
    if (!('method' in message) && message.id !== undefined) open.delete(message.id);
    transport.onmessage?.(message);
  };
  inner.onmessage = receive;
  inner.onclose = () => transport.onclose?.();
  inner.onerror = (error) => {
    transport.onerror?.(error);
    // The SDK tried to resume its streams, and failed.
    if (/^Maximum reconnection attempts/.test(error.message)) for (const id of open) fail(id);
  };
  return transport;
}

/** The SDK's error code for a closed connection. */
const CONNECTION_CLOSED = -32000;

/** `ended` receives the id of a request whose stream ended, unless the rest can be requested from the server. */
function boundedFetch(ended: (id: RequestId) => void): FetchLike {
  return async (url, init) => {
    const response = await fetchSameOrigin(url, init);
    if (!response.body) return response;
    const isStream = response.headers.get('content-type')?.includes('text/event-stream') ?? false;
    const id = isStream ? requestIdIn(init?.body) : undefined;
    const done = (canResume: boolean) => {
      if (id !== undefined && !canResume) ended(id);
    };
    const { status, statusText, headers } = response;
    const body = boundBody(response.body, isStream, done);
    const copy = new Response(body, { status, statusText, headers });
    Object.defineProperty(copy, 'url', { value: response.url });
    return copy;
  };
}

const MAX_REDIRECTS = 5;

/**
 * Headers, which may contain tokens, are sent only to the origin that a person configured. A redirect within that
 * origin that keeps the method is followed.
 */
async function fetchSameOrigin(address: string | URL, init: RequestInit | undefined): Promise<Response> {
  let url = new URL(address);
  for (let hops = 0; hops <= MAX_REDIRECTS; hops++) {
    const response = await fetch(url, { ...init, redirect: 'manual' });
    const to = response.headers.get('location');
    if (response.status < 300 || response.status > 399 || to === null || !URL.canParse(to, url.href)) return response;
    await response.body?.cancel();
    const next = new URL(to, url);
    const keeps = response.status === 307 || response.status === 308 || (init?.method ?? 'GET') === 'GET';
    if (next.origin !== url.origin || !keeps)
      throw new Error(`${url.origin} redirects to ${next.href}, which is not followed: put that address into \`url\``);
    url = next;
  }
  throw new Error(`${url.origin} redirects more than ${MAX_REDIRECTS} times`);
}

function requestIdIn(body: unknown): RequestId | undefined {
  if (typeof body !== 'string') return undefined;
  const message: unknown = JSON.parse(body);
  const id = typeof message === 'object' && message !== null && 'id' in message ? message.id : undefined;
  return typeof id === 'string' || typeof id === 'number' ? id : undefined;
}

/** A body, or each event of a stream, in bounded memory. `done` receives whether its events were numbered. */
function boundBody(
  body: ReadableStream<Uint8Array>,
  isStream: boolean,
  done: (canResume: boolean) => void,
): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  let size = 0;
  let isNumbered = false;
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { value } = await reader.read();
        if (!value) {
          controller.close();
          done(isNumbered);
          return;
        }
        const end = isStream ? endOfEvent(value) : -1;
        size = end < 0 ? size + value.length : value.length - end;
        if (isStream) isNumbered ||= /^id:/m.test(new TextDecoder().decode(value.subarray(0, 4096)));
        if (size > MAX_MESSAGE_BYTES) throw new Error(`it sent a message of more than ${MAX_MESSAGE_BYTES} bytes`);
        controller.enqueue(value);
      } catch (error) {
        void reader.cancel().catch(() => undefined);
        controller.error(error);
        done(isNumbered);
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
}

/** The end of the last complete event in these bytes; -1 if there is none. */
function endOfEvent(bytes: Uint8Array): number {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Math.max(view.lastIndexOf('\n\n'), view.lastIndexOf('\r\n\r\n'));
}
