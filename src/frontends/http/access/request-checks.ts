import type { MiddlewareHandler } from 'hono';
import { HttpProblem } from '../common/http-problem.ts';
import type { Credentials } from './credentials.ts';

/** Names of this machine, as they stand in `Host`. */
const LOOPBACK_NAMES = ['localhost', '127.0.0.1', '[::1]'];
/** What tells nothing of sessions: the page itself is the same for everyone. */
const OPEN_PATHS = new Set([
  ...['/healthz', '/readyz', '/openapi.json', '/login', '/logout'],
  ...['/', '/app.js', '/app.css', '/icon.svg'],
]);
const WRITES = new Set(['POST', 'PUT', 'PATCH', 'DELETE']);

/**
 * Refuses what a page of another site can make a browser send: a request to another name that was bound to this
 * address (`Host`), and one from a page that is not of this server (`Origin`). Any port is taken, since it may have
 * been forwarded.
 */
export const checkSource: MiddlewareHandler = async (c, next) => {
  const host = c.req.header('host')?.toLowerCase() ?? '';
  if (!LOOPBACK_NAMES.includes(host.replace(/:\d{1,5}$/, '')))
    throw new HttpProblem(403, {
      wanted: `a request to ${LOOPBACK_NAMES.join(', ')}`,
      came: `Host ${JSON.stringify(host)}`,
      todo: 'Use one of these host names.',
    });
  const origin = c.req.header('origin');
  if (origin !== undefined && origin.toLowerCase() !== `http://${host}`)
    throw new HttpProblem(403, {
      wanted: 'a request from a program, or from a page of this server',
      came: `Origin ${JSON.stringify(origin)}`,
      todo: 'Omit the Origin header; pages of other sites may not use this server.',
    });
  await next();
};

/** Lets through requests that show the token of this workspace, or that come from a page which has presented it. */
export function checkToken(credentials: Credentials): MiddlewareHandler {
  return async (c, next) => {
    const header = (name: string) => c.req.header(name);
    if (OPEN_PATHS.has(c.req.path) || credentials.admits(header)) return next();
    const came = header('authorization') !== undefined ? 'another Authorization' : 'none';
    throw new HttpProblem(
      401,
      {
        wanted: 'the token of this workspace (Authorization: Bearer …)',
        came: came === 'none' && header('cookie') !== undefined ? 'a cookie of another login' : came,
        todo: 'The token is in .agentd/token of the workspace.',
      },
      { 'www-authenticate': 'Bearer realm="agentd"' },
    );
  };
}

/** Refuses a write that is not said to be JSON: a page of another site can send text and forms without asking first. */
export const checkContentType: MiddlewareHandler = async (c, next) => {
  const type = c.req.header('content-type');
  const isJson = type?.split(';', 1)[0]?.trim().toLowerCase() === 'application/json';
  if (WRITES.has(c.req.method) && !isJson)
    throw new HttpProblem(415, {
      wanted: 'Content-Type application/json',
      came: type === undefined ? 'a write without a content type' : JSON.stringify(type),
      todo: 'Send the header Content-Type: application/json.',
    });
  await next();
};
