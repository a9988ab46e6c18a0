import * as fs from 'node:fs';
import { type IncomingMessage, STATUS_CODES } from 'node:http';
import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import type { ServerType } from '@hono/node-server';
import type { WebSocketServer } from 'ws';
import { getOwn } from '../../../base/collections.ts';
import { errorCode, errorText, UserError } from '../../../base/user-error.ts';
import { HttpProblem, type ProblemStatus, problemBody } from '../common/http-problem.ts';
import type { HttpEnv } from '../common/operation.ts';

export const HOST = '127.0.0.1';
/** Requests that are under way when a server closes have this long. */
const CLOSE_MS = 2000;
/** The longest path of a Unix socket on Linux, in bytes. */
const MAX_SOCKET_PATH = 107;

/** Node's errors of requests that it could not read, as problems. */
const UNREADABLE: Readonly<Record<string, [status: ProblemStatus, wanted: string]>> = {
  HPE_HEADER_OVERFLOW: [431, 'a path and headers of at most 16 KB'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'a request that is sent without long pauses'],
};

/** Answers a request that never became one: the address or the headers are too long, or it is not HTTP. */
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

/** Returns the port it got; 0 takes a free one. Throws UserError where it cannot listen. */
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
 * Listens on a Unix socket that only this user can open; it is removed when the server closes. A socket left by a
 * server that died is replaced. Throws UserError where another one answers there, or something else is there.
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
    // The socket gets its mode when it is created, which is at once: changing it later would be too late.
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

/** Takes no more requests, lets those under way end for a while, and then cuts them. */
export async function closeServer(server: ServerType): Promise<void> {
  const closed = new Promise<void>((done) => server.close(() => done()));
  if (!('closeAllConnections' in server)) return closed;
  server.closeIdleConnections();
  const timer = setTimeout(() => server.closeAllConnections(), CLOSE_MS);
  await closed;
  clearTimeout(timer);
}

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
