import * as fs from 'node:fs';
import { STATUS_CODES } from 'node:http';
import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import type { ServerType } from '@hono/node-server';
import { getOwn } from '../../../base/collections.ts';
import { errorCode, errorText, UserError } from '../../../base/user-error.ts';
import { HttpProblem, type ProblemStatus, problemBody } from '../common/http-problem.ts';

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
