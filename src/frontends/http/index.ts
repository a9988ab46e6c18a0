import { setMaxListeners } from 'node:events';
import { createServer } from 'node:http';
import { getRequestListener, RequestError } from '@hono/node-server';
import { openAccessTokens } from '../../client/actions/access.ts';
import type { Client } from '../../client/index.ts';
import { openPageAccess } from './access/credentials.ts';
import { openTokenHolders } from './access/request-checks.ts';
import { HttpProblem, problemOf, problemResponse } from './common/http-problem.ts';
import { createHttpApp, type HttpProtocol } from './server/http-app.ts';
import {
  acceptSockets,
  answerHalfClosed,
  answerUnreadable,
  closeServer,
  HOST,
  listenOnPort,
  listenOnSocket,
} from './server/listen.ts';

export type HttpServer = {
  /** For example `http://127.0.0.1:8377`. */
  url: string;
  /** Ends streams, completes pending requests, and frees the port. */
  close(): Promise<void>;
};

export type HttpServerOptions = {
  /** 0: any free port. */
  port: number;
  /** Path of an additional Unix socket. Only this user can open it, so no token is needed there. */
  socket?: string | undefined;
  /** Receives internal errors. */
  complain: (text: string) => void;
  /** Further protocols on the same port. */
  protocols?: readonly HttpProtocol[];
  /** Host names of a TLS proxy on this machine, in lower case. */
  proxied?: readonly string[];
};

/**
 * Serves a workspace over HTTP on the loopback address until `close`. It accesses the workspace through `client`, that
 * is through files, so several servers may serve one workspace. Throws UserError if it cannot listen.
 */
export async function serveHttp(
  client: Client,
  { port, socket, complain, ...served }: HttpServerOptions,
): Promise<HttpServer> {
  const closing = new AbortController();
  const errorHandler = (error: unknown) => problemResponse(unlessNoRequest(error, complain));
  // Each open stream adds a listener.
  setMaxListeners(0, closing.signal);
  const token = await client.accessToken();
  const holders = openTokenHolders(client, token, openAccessTokens(client.paths));
  const access = { holders, page: openPageAccess(token, holders) };
  const app = createHttpApp({ workspace: client, closing: closing.signal, complain }, access, served);
  const server = createServer(getRequestListener(app.fetch, { errorHandler }));
  const local = createServer(
    getRequestListener((request, env) => app.fetch(request, { ...env, owner: client }), { errorHandler }),
  );
  for (const one of [server, local]) {
    one.on('clientError', answerUnreadable);
    answerHalfClosed(one);
  }
  acceptSockets(server, (request, env) => app.fetch(request, env));
  acceptSockets(local, (request, env) => app.fetch(request, { ...env, owner: client }));
  const close = async () => {
    closing.abort();
    await Promise.all([closeServer(server), closeServer(local)]);
  };
  try {
    const taken = await listenOnPort(server, port);
    if (socket !== undefined) await listenOnSocket(local, socket);
    // For example too many open files. An unhandled 'error' event would end the process.
    for (const one of [server, local]) one.on('error', (error: Error) => complain(`HTTP: ${error.message}`));
    return { url: `http://${HOST}:${taken}`, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** A request that has no URL, such as one by HTTP/1.0 without a host. */
const unlessNoRequest = (error: unknown, complain: (text: string) => void): HttpProblem =>
  error instanceof RequestError
    ? new HttpProblem(400, {
        wanted: 'a request for a path, with a Host',
        came: error.message,
        todo: 'Send it by HTTP/1.1, as in: GET /healthz',
      })
    : problemOf(error, complain);
