import { setMaxListeners } from 'node:events';
import { createAdaptorServer, type ServerType } from '@hono/node-server';
import { errorCode, errorText, UserError } from '../../base/user-error.ts';
import { openAccessTokens } from '../../client/actions/access-token.ts';
import type { Client } from '../../client/index.ts';
import { identifyByToken } from './access/request-checks.ts';
import { createHttpApp, type HttpProtocol } from './server/http-app.ts';

const HOST = '127.0.0.1';
/** Requests that are under way when the server closes have this long. */
const CLOSE_MS = 2000;

export type HttpServer = {
  /** Such as `http://127.0.0.1:8377`. */
  url: string;
  /** Ends streams, answers what is under way, and frees the port. */
  close(): Promise<void>;
};

export type HttpServerOptions = {
  /** 0 takes a free one. */
  port: number;
  /** Is told what went wrong on our side. */
  complain: (text: string) => void;
  /** What else is served on the port. */
  protocols?: readonly HttpProtocol[];
};

/**
 * Serves a workspace over HTTP on the loopback address until `close`. All of it goes through `client`, that is through
 * files, so several servers may serve one workspace. Throws UserError where it cannot listen.
 */
export async function serveHttp(client: Client, { port, complain, protocols }: HttpServerOptions): Promise<HttpServer> {
  const closing = new AbortController();
  // Each open stream listens to it.
  setMaxListeners(0, closing.signal);
  const identify = identifyByToken(client, await client.accessToken(), openAccessTokens(client.paths));
  const { fetch } = createHttpApp({ workspace: client, closing: closing.signal, complain }, identify, protocols);
  const server = createAdaptorServer({ fetch });
  const taken = await listen(server, port);
  // Too many open files, for one: a fault that nobody listens for would end the process.
  server.on('error', (error: Error) => complain(`HTTP: ${error.message}`));
  return {
    url: `http://${HOST}:${taken}`,
    async close() {
      closing.abort();
      await closeServer(server);
    },
  };
}

/** Answers the port it got. */
function listen(server: ServerType, port: number): Promise<number> {
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

/** Takes no more requests, lets those under way end for a while, and then cuts them. */
async function closeServer(server: ServerType): Promise<void> {
  const closed = new Promise<void>((done) => server.close(() => done()));
  if (!('closeAllConnections' in server)) return closed;
  server.closeIdleConnections();
  const timer = setTimeout(() => server.closeAllConnections(), CLOSE_MS);
  await closed;
  clearTimeout(timer);
}
