import { createHash, timingSafeEqual } from 'node:crypto';
import type { MiddlewareHandler } from 'hono';
import { HttpProblem } from '../common/http-problem.ts';

/** Names of this machine, as they stand in `Host`. */
const LOOPBACK_NAMES = ['localhost', '127.0.0.1', '[::1]'];
/** What tells nothing of sessions. */
const OPEN_PATHS = new Set(['/healthz', '/readyz', '/openapi.json']);
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

/** Lets through requests with the token of this workspace, compared in constant time by its hash. */
export function checkToken(token: string): MiddlewareHandler {
  const wanted = hash(token);
  return async (c, next) => {
    if (OPEN_PATHS.has(c.req.path)) return next();
    const header = c.req.header('authorization');
    const came = /^Bearer +(\S+) *$/i.exec(header ?? '')?.[1];
    if (came === undefined || !timingSafeEqual(hash(came), wanted))
      throw new HttpProblem(
        401,
        {
          wanted: 'the token of this workspace (Authorization: Bearer …)',
          came: header === undefined ? 'none' : 'another Authorization',
          todo: 'The token is in .agentd/token of the workspace.',
        },
        { 'www-authenticate': 'Bearer realm="agentd"' },
      );
    return next();
  };
}

const hash = (text: string): Buffer => createHash('sha256').update(text).digest();

const UPLOAD_PATH = /^\/api\/sessions\/[^/]+\/uploads$/;

/**
 * Refuses a write that is not said to be JSON, or the bytes of an upload: a page of another site can send text and
 * forms without asking first.
 */
export const checkContentType: MiddlewareHandler = async (c, next) => {
  const type = c.req.header('content-type');
  const wanted = UPLOAD_PATH.test(c.req.path) ? 'application/octet-stream' : 'application/json';
  if (WRITES.has(c.req.method) && type?.split(';', 1)[0]?.trim().toLowerCase() !== wanted)
    throw new HttpProblem(415, {
      wanted: `Content-Type ${wanted}`,
      came: type === undefined ? 'a write without a content type' : JSON.stringify(type),
      todo: `Send the header Content-Type: ${wanted}.`,
    });
  await next();
};
