import type { MiddlewareHandler } from 'hono';
import { errorText, UserError } from '../../../base/user-error.ts';
import type { AccessTokens } from '../../../client/actions/access.ts';
import type { Client } from '../../../client/index.ts';
import type { AccessToken } from '../../../protocol/workspace/daemon-files.ts';
import { HttpProblem } from '../common/http-problem.ts';
import type { HttpEnv, HttpServices } from '../common/operation.ts';
import { derive, isSame, type PageAccess, type TokenHolder, type TokenHolders } from './credentials.ts';
import { restrictClient } from './restricted-client.ts';

/** Names of this machine in a `Host` header. */
const LOOPBACK_NAMES = ['localhost', '127.0.0.1', '[::1]'];
/** Paths that need no token because they reveal nothing about sessions; the page itself is the same for everyone. */
const OPEN_PATHS = new Set([
  ...['/healthz', '/readyz', '/openapi.json', '/login', '/logout'],
  ...[
    '/',
    '/app.js',
    '/graph-layout.js',
    '/browser-remote.js',
    '/chinese.js',
    '/notification-worker.js',
    '/app.css',
    '/icon.svg',
    '/app.webmanifest',
  ],
]);
/** The path of the page of a link, which shows a waiting call and takes its answer. */
export const ANSWER_PATH = '/answer/';
const WRITES = new Set(['POST', 'PUT', 'PATCH', 'DELETE']);

const withoutPort = (host: string): string => host.replace(/:\d{1,5}$/, '');

/**
 * Refuses requests that a page of another site can make a browser send: those to a foreign name bound to this address
 * (`Host`), and those from a page of another server (`Origin`, `Sec-Fetch-Site`). Links to this server may be followed
 * from anywhere. Any port is accepted, since it may be forwarded. `proxied`: names of a TLS proxy on this machine.
 */
export const checkSource = (proxied: readonly string[]): MiddlewareHandler => {
  const names = [...LOOPBACK_NAMES, ...proxied];
  return async (c, next) => {
    const host = c.req.header('host')?.toLowerCase() ?? '';
    if (!names.includes(withoutPort(host)))
      throw new HttpProblem(403, {
        wanted: `a request to ${names.join(', ')}`,
        came: `Host ${JSON.stringify(host)}`,
        todo: 'Use one of these host names. That of a proxy on this machine is named by: agentctl serve --allow-host',
      });
    const origin = c.req.header('origin')?.toLowerCase();
    const isLocal = LOOPBACK_NAMES.includes(withoutPort(host)) && origin === `http://${host}`;
    const isProxied = proxied.some((name) => withoutPort(origin ?? '') === `https://${name}`);
    if (origin !== undefined && !isLocal && !isProxied)
      throw new HttpProblem(403, {
        wanted: 'a request from a program, or from a page of this server',
        came: `Origin ${JSON.stringify(origin)}`,
        todo: 'Omit the Origin header; pages of other sites may not use this server.',
      });
    const site = c.req.header('sec-fetch-site');
    const isLink = c.req.method === 'GET' && c.req.header('sec-fetch-mode') === 'navigate';
    if (site !== undefined && site !== 'same-origin' && site !== 'none' && !isLink)
      throw new HttpProblem(403, {
        wanted: 'a request from a program, or from a page of this server',
        came: `one from a page of another site (Sec-Fetch-Site ${JSON.stringify(site)})`,
        todo: 'Pages of other sites may not use this server.',
      });
    await next();
  };
};

/** The admin's token is compared in constant time; others are looked up by their hash in `.agentd/tokens.json`. */
export function openTokenHolders(client: Client, adminToken: string, tokens: AccessTokens): TokenHolders {
  const admin = { id: 'admin', secret: adminToken, client };
  const holderOf = (user: AccessToken): TokenHolder => ({
    id: user.sha256,
    secret: derive(adminToken, `user ${user.sha256}`),
    client: restrictClient(client, user, () => isCurrent(user)),
  });
  return {
    byToken(token) {
      if (isSame(token, adminToken)) return admin;
      const user = tokens.find(token);
      return user && holderOf(user);
    },
    byId(id) {
      if (id === admin.id) return admin;
      const user = tokens.list().find(({ sha256 }) => sha256 === id);
      return user && holderOf(user);
    },
  };
  function isCurrent({ name, sha256 }: AccessToken): boolean {
    return tokens.list().some((one) => one.name === name && one.sha256 === sha256);
  }
}

/** Whose requests are let in: those of token holders and of logged-in pages. */
export type Access = { holders: TokenHolders; page: PageAccess };

/** Lets through requests with a token and those of a logged-in page, and gives them the client they may use. */
export function checkToken(
  { holders, page }: Access,
  { complain }: Pick<HttpServices, 'complain'>,
): MiddlewareHandler<HttpEnv> {
  const reported = new Set<string>();
  const reportOnce = (error: unknown): void => {
    const text = errorText(error);
    if (!reported.has(text)) complain(text);
    reported.add(text);
  };
  return async (c, next) => {
    if (OPEN_PATHS.has(c.req.path) || c.req.path.startsWith(ANSWER_PATH)) return next();
    const { owner } = c.env;
    const header = c.req.header('authorization');
    const came = /^Bearer +(\S+) *$/i.exec(header ?? '')?.[1];
    const clientOf = () =>
      owner ?? (header === undefined ? page.clientOf((name) => c.req.header(name)) : bearerOf(holders, came));
    let fault = '';
    try {
      const client = clientOf();
      if (client) {
        c.set('client', client);
        c.set('currentClient', () => unlessUnknown(clientOf, reportOnce));
        return next();
      }
    } catch (error) {
      fault = '; .agentd/tokens.json is invalid, so only the token in .agentd/token works';
      reportOnce(error);
    }
    throw new HttpProblem(
      401,
      {
        wanted: 'a token of this workspace (Authorization: Bearer …)',
        came: (header === undefined ? cameWithout(c.req.header('cookie')) : 'another Authorization') + fault,
        todo: 'The token is in .agentd/token of the workspace, or was given to you by its owner.',
      },
      { 'www-authenticate': 'Bearer realm="agentd"' },
    );
  };
}

/**
 * While `.agentd/tokens.json` is invalid or cannot be read, only the token in `.agentd/token` works. Timers and
 * listeners of sockets ask this, where an error would end the server.
 */
function unlessUnknown(clientOf: () => Client | undefined, report: (error: unknown) => void): Client | undefined {
  try {
    return clientOf();
  } catch (error) {
    if (!(error instanceof UserError)) report(error);
    return undefined;
  }
}

const bearerOf = (holders: TokenHolders, token: string | undefined): Client | undefined =>
  token === undefined ? undefined : holders.byToken(token)?.client;

const cameWithout = (cookie: string | undefined): string =>
  cookie === undefined ? 'none' : 'a cookie of another login, or without the key of its page';

const UPLOAD_PATH = /^\/api\/sessions\/[^/]+\/uploads$|^\/api\/import$/;

/**
 * Refuses writes without the right content type: pages of other sites can send text and forms without a preflight. Also
 * those with a coding, which is not decoded.
 */
export const checkContentType: MiddlewareHandler = async (c, next) => {
  const type = c.req.header('content-type');
  // The link of an answer is itself the secret that a page of another site lacks.
  const form = c.req.path.startsWith(ANSWER_PATH) ? 'application/x-www-form-urlencoded' : undefined;
  const wanted = form ?? (UPLOAD_PATH.test(c.req.path) ? 'application/octet-stream' : 'application/json');
  // No page of another site can send a DELETE without asking first, and ours have no body.
  const length = c.req.header('content-length') ?? c.req.header('transfer-encoding') ?? '0';
  const isBare = c.req.method === 'DELETE' && length === '0';
  if (WRITES.has(c.req.method) && !isBare && type?.split(';', 1)[0]?.trim().toLowerCase() !== wanted)
    throw new HttpProblem(415, {
      wanted: `Content-Type ${wanted}`,
      came: type === undefined ? 'a write without a content type' : JSON.stringify(type),
      todo: `Send the header Content-Type: ${wanted}.`,
    });
  const coding = c.req.header('content-encoding');
  if (WRITES.has(c.req.method) && coding !== undefined && coding.toLowerCase() !== 'identity')
    throw new HttpProblem(415, {
      wanted: 'a body without Content-Encoding',
      came: JSON.stringify(coding),
      todo: 'Send the body as it is.',
    });
  await next();
};
