import * as fs from 'node:fs';
import { type IncomingMessage, type Server, STATUS_CODES } from 'node:http';
import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import type { ServerType } from '@hono/node-server';
import type { WebSocketServer } from 'ws';
import { getOwn } from '../../../base/collections.ts';
import { errorCode, errorText, UserError } from '../../../base/user-error.ts';
import { HttpProblem, type ProblemStatus, problemBody } from '../common/http-problem.ts';
import type { HttpEnv } from '../common/operation.ts';

export const HOST = '127.0.0.1';
/** How long pending requests may take when the server closes. */
const CLOSE_MS = 2000;
/** The longest path of a Unix socket on Linux, in bytes. */
const MAX_SOCKET_PATH = 107;

/** Node's errors for requests that it could not parse. */
const UNREADABLE: Readonly<Record<string, [status: ProblemStatus, wanted: string]>> = {
  HPE_HEADER_OVERFLOW: [431, 'a path and headers of at most 16 KB'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'a request that is sent without long pauses'],
};

/** Answers a request that Node could not parse: URL or headers too long, or not HTTP. */
export function answerUnreadable(error: Error, socket: Duplex): void {
  if (errorCode(error) === 'ECONNRESET' || !socket.writable) return void socket.destroy();
  const [status, wanted] = getOwn(UNREADABLE, errorCode(error) ?? '') ?? [400, 'an HTTP/1.1 request'];
  const todo = 'Correct the request and send it again.';
  const body = `${JSON.stringify(problemBody(new HttpProblem(status, { wanted, came: errorText(error), todo })))}\n`;
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    'content-type: application/problem+json',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}

/** How long a client that has closed its sending side is answered. */
const HALF_CLOSED_MS = 2000;

/**
 * Answers a client that closes its sending side right after its request, as `nc -N` does: without this, Node ends the
 * connection first. One that is gone altogether looks the same, so the connection ends soon.
 */
export function answerHalfClosed(server: Server): void {
  // Of `http.Server`, and not in its types.
  Object.assign(server, { httpAllowHalfOpen: true });
  server.on('connection', (socket) => {
    socket.once('end', () => setTimeout(() => socket.destroy(), HALF_CLOSED_MS).unref());
  });
}

/** Returns the actual port; with 0, the system picks one. Throws UserError if it cannot listen. */
export function listenOnPort(server: ServerType, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const fail = (error: Error) => reject(listenFault(error, port));
    server.once('error', fail);
    server.listen(port, HOST, () => {
      server.off('error', fail);
      const address = server.address();
      resolve(typeof address === 'object' && address ? address.port : port);
    });
  });
}

function listenFault(error: Error, port: number): UserError {
  if (errorCode(error) === 'EADDRINUSE')
    return new UserError(
      `${HOST}:${port} is in use by another process. Choose another port, or let the system pick one: --port 0`,
    );
  return new UserError(`The server cannot listen on ${HOST}:${port}: ${errorText(error)}`);
}

/**
 * Listens on a Unix socket that only this user can open; it is removed when the server closes. The socket of a server
 * that died is replaced. Throws UserError if another server answers on it, or if the file is not a socket.
 */
export async function listenOnSocket(server: ServerType, path: string): Promise<void> {
  if (Buffer.byteLength(path) > MAX_SOCKET_PATH)
    throw new UserError(`The path of a Unix socket has at most ${MAX_SOCKET_PATH} bytes, got ${path}.`);
  try {
    await bindPrivately(server, path);
  } catch (error) {
    if (errorCode(error) !== 'EADDRINUSE') throw socketFault(error, path);
    if (!fs.lstatSync(path, { throwIfNoEntry: false })?.isSocket())
      throw new UserError(`${path} is not a socket. Choose another path, or move it away.`);
    if (await isAnswered(path))
      throw new UserError(`Another server answers on ${path}. Stop it first, or choose another path.`);
    fs.rmSync(path, { force: true });
    await bindPrivately(server, path).catch((again: unknown) => {
      throw socketFault(again, path);
    });
  }
}

const socketFault = (error: unknown, path: string): UserError =>
  new UserError(`The server cannot listen on ${path}: ${errorText(error)}`);

function bindPrivately(server: ServerType, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    // The umask sets the mode as the socket is created; with a later chmod, others could connect before it.
    const before = process.umask(0o177);
    try {
      server.listen(path, () => {
        server.off('error', reject);
        resolve();
      });
    } finally {
      process.umask(before);
    }
  });
}

function isAnswered(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = connect(path);
    const end = (is: boolean) => {
      probe.destroy();
      resolve(is);
    };
    probe.once('connect', () => end(true));
    probe.once('error', (error) => end(errorCode(error) !== 'ECONNREFUSED'));
  });
}

/** Stops accepting requests, gives pending ones some time to finish, then cuts them off. */
export async function closeServer(server: ServerType): Promise<void> {
  const closed = new Promise<void>((done) => server.close(() => done()));
  if (!('closeAllConnections' in server)) return closed;
  server.closeIdleConnections();
  const timer = setTimeout(() => server.closeAllConnections(), CLOSE_MS);
  await closed;
  clearTimeout(timer);
}

/** The paths of WebSockets: events of sessions, and the browser that a person controls. */
export const SOCKET_PATH = '/api/ws';
export const BROWSER_SOCKET_PATH = '/api/sessions/:session/browser/ws';
const SOCKET_PATHS = /^\/api\/(?:ws|sessions\/[^/]+\/browser\/ws)$/;
/** The WebSocket subprotocol. Clients may omit it, but a browser that sends the key of a page must name it. */
const PROTOCOL = 'agentd';
/** A page cannot set headers of a WebSocket, so it sends its key as a second subprotocol with this prefix. */
const PAGE_KEY = 'agentd.page.';
/** Clients only send short frames. */
const MAX_FRAME_BYTES = 16_384;
const BAD_REQUEST = 400;

type Fetch = (request: Request, env: HttpEnv['Bindings']) => Response | Promise<Response>;

/**
 * Passes requests for a WebSocket through the server's routes, so that all checks of a request apply. A refusal is sent
 * as an HTTP response. Other upgrades (h2c, which Java and curl request) are ignored and the request is served.
 */
export function acceptSockets(server: ServerType, fetch: Fetch): void {
  let sockets: WebSocketServer | undefined;
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    if (!isForSocket(request)) return serveWithoutUpgrade(server, request, socket, head);
    // For as long as it lives: a client may reset it while a refusal is on its way. A WebSocket has its own listener.
    socket.on('error', () => {});
    answer(request).catch(() => socket.destroy());

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

/** `ws` is loaded with the first WebSocket. */
async function openSockets(): Promise<WebSocketServer> {
  const { WebSocketServer } = await import('ws');
  const handleProtocols = (offered: Set<string>) => (offered.has(PROTOCOL) ? PROTOCOL : false);
  return new WebSocketServer({ noServer: true, clientTracking: false, maxPayload: MAX_FRAME_BYTES, handleProtocols });
}

const isForSocket = ({ method, url = '', headers }: IncomingMessage): boolean =>
  method === 'GET' && SOCKET_PATHS.test(url.split('?', 1)[0] ?? '') && headers.upgrade?.toLowerCase() === 'websocket';

/** The request for the routes. Its URL has a fixed host, since the routes check `Host` themselves. */
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

/** Hands the connection back to the server, with the same request but without its upgrade headers. */
function serveWithoutUpgrade(server: ServerType, request: IncomingMessage, socket: Duplex, head: Buffer): void {
  const { method, url, rawHeaders } = request;
  const lines = [`${method} ${url} HTTP/1.1`];
  for (let at = 0; at < rawHeaders.length; at += 2)
    if (!/^(?:upgrade|connection|http2-settings)$/i.test(rawHeaders[at] ?? ''))
      lines.push(`${rawHeaders[at]}: ${rawHeaders[at + 1]}`);
  socket.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head]));
  server.emit('connection', socket);
}
