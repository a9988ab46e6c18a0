import type { Agent, IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { getProxyForUrl } from 'proxy-from-env';
import { errorCode } from '../../base/user-error.ts';

export type RawRequest = {
  method: 'GET' | 'POST';
  headers: Readonly<Record<string, string>>;
  body?: Uint8Array;
  signal?: AbortSignal;
};

/** The response to a request; `body` yields bytes, and has to be destroyed if it is not read to its end. */
export type RawResponse = { status: number; headers: Headers; body: Readable };

/**
 * Sends one request through `node:http`, on connections that Node shares among all callers, and through the proxy that
 * the environment names (`HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`). Measured against the `fetch` of Node 20 with a
 * streamed answer of four pieces: 0.4 ms less processor time per call. Follows redirects that keep the method; does not
 * request compressed answers, but understands them. Rejects with what went wrong, or with the signal's reason.
 */
export const sendHttp = (url: string, request: RawRequest): Promise<RawResponse> =>
  sendWithRedirects(url, request, MAX_REDIRECTS);

/** As many as `fetch` follows. */
const MAX_REDIRECTS = 20;

async function sendWithRedirects(url: string, request: RawRequest, redirects: number): Promise<RawResponse> {
  const message = await openRequest(new URL(url), request);
  const { statusCode: status = 0 } = message;
  const { location } = message.headers;
  const isMoved = status === 307 || status === 308 || (request.method === 'GET' && status > 300 && status < 304);
  if (isMoved && location !== undefined && redirects > 0) {
    message.destroy();
    const to = new URL(location, url).href;
    return sendWithRedirects(to, redirectedRequest(url, to, request), redirects - 1);
  }
  return {
    status,
    // Only refusals are asked for them; the first `Headers` loads the `fetch` of Node, which takes 15 ms.
    get headers() {
      return headersOf(message);
    },
    body: decodeBody(message),
  };
}

/** Keys may be in any header: another host gets none but those of the format. */
function redirectedRequest(from: string, to: string, request: RawRequest): RawRequest {
  if (new URL(to).origin === new URL(from).origin) return request;
  const kept = Object.entries(request.headers).filter(([name]) => PLAIN_HEADERS.has(name.toLowerCase()));
  return { ...request, headers: Object.fromEntries(kept) };
}

const PLAIN_HEADERS: ReadonlySet<string> = new Set(['accept', 'content-type', 'user-agent']);

/**
 * A server may close a connection at the very moment it is reused: the request has then not been processed, and is sent
 * again.
 */
async function openRequest(url: URL, request: RawRequest, isSecond = false): Promise<IncomingMessage> {
  // Loaded by the first request: a daemon starts without them.
  const { request: open } = await (url.protocol === 'https:' ? import('node:https') : import('node:http'));
  const { method, body, signal } = request;
  const length = body && { 'content-length': body.length };
  const headers = { ...request.headers, 'accept-encoding': 'identity', ...length };
  const agent = await proxyAgentFor(url);
  return new Promise((resolve, reject) => {
    const outgoing = open(url, { method, headers, ...(agent && { agent }), ...(signal && { signal }) });
    let isAnswered = false;
    outgoing.on('response', (message) => {
      isAnswered = true;
      resolve(message);
    });
    outgoing.on('error', (error) => {
      // The connection of an answer that has begun: its body reports the same error.
      if (isAnswered) return;
      const isStale = outgoing.reusedSocket && errorCode(error) === 'ECONNRESET';
      if (isStale && !isSecond && !signal?.aborted) resolve(openRequest(url, request, true));
      else reject(error);
    });
    outgoing.end(body);
  });
}

/** One agent a proxy, so that connections through it are kept. */
const proxyAgents = new Map<string, Agent>();

async function proxyAgentFor(url: URL): Promise<Agent | undefined> {
  const proxy = getProxyForUrl(url.href);
  if (proxy === '') return undefined;
  const key = `${url.protocol} ${proxy}`;
  // Few need them.
  const ProxyAgent =
    url.protocol === 'https:'
      ? (await import('https-proxy-agent')).HttpsProxyAgent
      : (await import('http-proxy-agent')).HttpProxyAgent;
  const agent = proxyAgents.get(key) ?? new ProxyAgent(proxy, { keepAlive: true });
  proxyAgents.set(key, agent);
  return agent;
}

function headersOf({ rawHeaders }: IncomingMessage): Headers {
  const headers = new Headers();
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) headers.append(rawHeaders[at] ?? '', rawHeaders[at + 1] ?? '');
  return headers;
}

const DECODERS = { gzip: createGunzip, 'x-gzip': createGunzip, deflate: createInflate, br: createBrotliDecompress };

function decodeBody(message: IncomingMessage): Readable {
  const coding = message.headers['content-encoding']?.trim().toLowerCase() ?? '';
  const [, decoder] = Object.entries(DECODERS).find(([name]) => name === coding) ?? [];
  if (!decoder) return message;
  const plain = decoder();
  message.on('error', (error) => plain.destroy(error));
  plain.on('close', () => message.destroy());
  return message.pipe(plain);
}
