import { type IncomingMessage, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import type { ServerType } from '@hono/node-server';
import type { WebSocketServer } from 'ws';
import type { HttpEnv } from '../common/operation.ts';

/** The paths with a WebSocket: the events of sessions, and what a person has of one for themselves. */
export const SOCKET_PATH = '/api/ws';
export const HELD_SOCKET_PATH = '/api/sessions/:session/:what{browser|terminal}/ws';
const SOCKET_PATHS = /^\/api\/(?:ws|sessions\/[^/]+\/(?:browser|terminal)\/ws)$/;
/** The protocol that is spoken on it, for clients that name one; browsers have to where they send the key of a page. */
const PROTOCOL = 'agentd';
/** A page cannot set headers of a WebSocket, so it sends its key as one more protocol behind this. */
const PAGE_KEY = 'agentd.page.';
/** A client sends short frames alone. */
const MAX_FRAME_BYTES = 16_384;
const BAD_REQUEST = 400;

type Fetch = (request: Request, env: HttpEnv['Bindings']) => Response | Promise<Response>;

/**
 * Passes requests for a WebSocket through the server's routes, and with them all checks of a request. What they refuse
 * is answered as HTTP. A request to become anything else (h2c, as Java and curl ask) is served as if it had not asked.
 */
export function acceptSockets(server: ServerType, fetch: Fetch): void {
  let sockets: WebSocketServer | undefined;
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    if (!isForSocket(request)) return serveWithoutUpgrade(server, request, socket, head);
    const ignore = () => {};
    socket.on('error', ignore);
    void answer(request).then(
      () => socket.off('error', ignore),
      () => socket.destroy(),
    );

    async function answer(asked: IncomingMessage): Promise<void> {
      let take: Parameters<NonNullable<HttpEnv['Bindings']['acceptSocket']>>[0] | undefined;
      const acceptSocket: HttpEnv['Bindings']['acceptSocket'] = (taker) => {
        take = taker;
      };
      const response = await fetch(plainRequest(asked), { acceptSocket });
      if (!take) return refuse(socket, response);
      sockets ??= await openSockets();
      if (!socket.destroyed) sockets.handleUpgrade(asked, socket, head, take);
    }
  });
}

/** Loaded where the first one is asked for. */
async function openSockets(): Promise<WebSocketServer> {
  const { WebSocketServer } = await import('ws');
  const handleProtocols = (offered: Set<string>) => (offered.has(PROTOCOL) ? PROTOCOL : false);
  return new WebSocketServer({ noServer: true, clientTracking: false, maxPayload: MAX_FRAME_BYTES, handleProtocols });
}

const isForSocket = ({ method, url = '', headers }: IncomingMessage): boolean =>
  method === 'GET' && SOCKET_PATHS.test(url.split('?', 1)[0] ?? '') && headers.upgrade?.toLowerCase() === 'websocket';

/** The request as routes see it; only its path is taken for an address, since `Host` is theirs to check. */
function plainRequest({ url, headers }: IncomingMessage): Request {
  const given = Object.entries(headers).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, String(value)] as [string, string]],
  );
  const offered = headers['sec-websocket-protocol']?.split(',').map((one) => one.trim()) ?? [];
  const key = offered.find((one) => one.startsWith(PAGE_KEY))?.slice(PAGE_KEY.length);
  return new Request(`http://localhost${url}`, {
    headers: key === undefined ? given : [...given, ['x-agentd-page', key]],
  });
}

async function refuse(socket: Duplex, response: Response): Promise<void> {
  const body = Buffer.from(await response.arrayBuffer());
  const status = response.ok ? BAD_REQUEST : response.status;
  const headers = [...response.headers, ['content-length', body.length], ['connection', 'close']];
  const head = [`HTTP/1.1 ${status} ${STATUS_CODES[status]}`, ...headers.map(([name, value]) => `${name}: ${value}`)];
  socket.end(Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), body]));
}

/** Gives the server the same connection again, with the request as it was but for the wish to become something else. */
function serveWithoutUpgrade(server: ServerType, request: IncomingMessage, socket: Duplex, head: Buffer): void {
  const { method, url, rawHeaders } = request;
  const lines = [`${method} ${url} HTTP/1.1`];
  for (let at = 0; at < rawHeaders.length; at += 2)
    if (!/^(?:upgrade|connection|http2-settings)$/i.test(rawHeaders[at] ?? ''))
      lines.push(`${rawHeaders[at]}: ${rawHeaders[at + 1]}`);
  socket.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head]));
  server.emit('connection', socket);
}
