import {
  type AuthProvider,
  type FetchLike,
  type JSONRPCMessage,
  StreamableHTTPClientTransport,
  type Transport,
} from '@modelcontextprotocol/client';
import { UserError } from '../../base/user-error.ts';
import { MAX_MESSAGE_BYTES } from './mcp-stdio.ts';
import type { HttpEndpoint } from './server-entry.ts';

type RequestId = string | number;

/** How long to wait for the rest of an answer once its stream has ended. */
const TRAILING_MS = 500;
/** Time limit for the closing request. */
const GOODBYE_MS = 500;
/** Time limit for a request to an authorization server. */
const AUTH_MS = 30_000;

/** The data of an error that stands for a lost connection. */
export const LOST = 'agentd: connection lost';

/**
 * A transport over streamable HTTP. A request whose stream ends before its answer fails at once instead of at its time
 * limit, and messages have the same size limit as those of a program.
 */
export function httpTransport({ url, headers }: HttpEndpoint, authProvider?: AuthProvider): Transport {
  const open = new Set<RequestId>();
  const inner = new StreamableHTTPClientTransport(url, {
    fetch: boundedFetch(url, headers),
    ...(authProvider && { authProvider }),
  });
  const transport: Transport = {
    hasPerRequestStream: true,
    start: () => inner.start(),
    async send(message, options) {
      const id = 'method' in message && 'id' in message ? message.id : undefined;
      if (id !== undefined) open.add(id);
      const ended = () => {
        options?.onRequestStreamEnd?.();
        if (id !== undefined) setTimeout(() => fail(id), TRAILING_MS).unref();
      };
      const { requestSignal, headers: own } = options ?? {};
      const given = { ...(requestSignal && { requestSignal }), ...(own && { headers: own }) };
      await inner.send(message, { ...given, onRequestStreamEnd: ended });
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
      receive({ jsonrpc: '2.0', id, error: { code: -32_000, message: 'the connection was lost', data: LOST } });
  };
  const receive = (message: JSONRPCMessage) => {
    if (!('method' in message) && message.id !== undefined) open.delete(message.id);
    transport.onmessage?.(message);
  };
  inner.onmessage = receive;
  inner.onclose = () => transport.onclose?.();
  inner.onerror = (error) => transport.onerror?.(error);
  return transport;
}

/** `headers`, which may contain tokens, are sent only to the origin that a person configured. */
export function boundedFetch({ origin }: URL, headers: Record<string, string>): FetchLike {
  return async (url, init) => {
    const all = new Headers(init?.headers);
    const own = new URL(url).origin === origin ? Object.entries(headers) : [];
    for (const [name, value] of own) if (!all.has(name)) all.set(name, value);
    return withBoundedBody(await fetch(url, { ...init, headers: all }));
  };
}

/** For an authorization server: each request has a time limit. */
export const authFetch =
  (ms = AUTH_MS): FetchLike =>
  async (url, init) => {
    const limit = AbortSignal.timeout(ms);
    const signal = init?.signal ? AbortSignal.any([init.signal, limit]) : limit;
    try {
      return withBoundedBody(await fetch(url, { ...init, signal }));
    } catch (error) {
      if (!limit.aborted) throw error;
      throw new UserError(`${new URL(url).origin} gave no answer in ${ms / 1000} s`);
    }
  };

function withBoundedBody(response: Response): Response {
  if (!response.body) return response;
  const isStream = response.headers.get('content-type')?.includes('text/event-stream') ?? false;
  const copy = new Response(boundBody(response.body, isStream), response);
  Object.defineProperty(copy, 'url', { value: response.url });
  return copy;
}

/** A body, or each event of a stream, in bounded memory. */
function boundBody(body: ReadableStream<Uint8Array>, isStream: boolean): ReadableStream<Uint8Array> {
  let size = 0;
  return body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(bytes, controller) {
        const end = isStream ? endOfEvent(bytes) : -1;
        size = end < 0 ? size + bytes.length : bytes.length - end;
        if (size > MAX_MESSAGE_BYTES) throw new Error(`it sent a message of more than ${MAX_MESSAGE_BYTES} bytes`);
        controller.enqueue(bytes);
      },
    }),
  );
}

/** The end of the last complete event in these bytes; -1 if there is none. */
function endOfEvent(bytes: Uint8Array): number {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Math.max(view.lastIndexOf('\n\n'), view.lastIndexOf('\r\n\r\n'));
}
