import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Client } from '../../../client/index.ts';

/** The header in which the page sends its key. */
const PAGE_KEY_HEADER = 'x-agentd-page';
/** How long a browser stays logged in, in seconds. */
const COOKIE_SECONDS = 30 * 24 * 3600;
/** How long a login code is valid. */
const CODE_MS = 60_000;
const COOKIE_RULES = 'Path=/; HttpOnly; SameSite=Strict';

/** Looks up a header of the request; names are in lower case. */
type RequestHeaders = (name: string) => string | undefined;

/** Somebody with a token of the workspace. The cookie and the key of their page are derived from `secret`. */
export type TokenHolder = { id: string; secret: string; client: Client };

/** Everybody with a token. Both throw UserError if `.agentd/tokens.json` is needed and invalid. */
export type TokenHolders = {
  byToken(token: string): TokenHolder | undefined;
  byId(id: string): TokenHolder | undefined;
};

/** Logs pages in and checks their requests. */
export type PageAccess = {
  /** The client for a request with the cookie and the key of a logged-in page. Throws UserError. */
  clientOf(header: RequestHeaders): Client | undefined;
  /** For a page that presents a token or an unused login code: `Set-Cookie`, and the key to send with each request. */
  logIn(text: string): { cookie: string; key: string } | undefined;
  /** A `Set-Cookie` value that deletes the cookie. */
  logOut(): string;
  /** Proves that this server knows the token without revealing it, by an answer to the caller's random challenge. */
  prove(challenge: string): string;
};

/**
 * Compares in constant time. Browsers send a cookie to every port of a host, including other servers on this machine,
 * such as one that an agent has started. The cookie alone is therefore not enough: a request also needs the key, which
 * the page keeps where only pages of the same port can read it.
 */
export function openPageAccess(adminToken: string, holders: TokenHolders): PageAccess {
  // Servers of several workspaces share the cookies of their host.
  const name = `agentd_${derive(adminToken, 'name').replace(/\W/g, '').slice(0, 12)}`;
  const usedCodes = new Set<string>();
  const isUnusedCode = (text: string): boolean => {
    const [until = '', nonce = ''] = text.split('.');
    const isCode = isSame(text, codeOf(adminToken, until, nonce)) && Number(until) >= Date.now();
    if (!isCode || usedCodes.has(text)) return false;
    usedCodes.add(text);
    return true;
  };
  return {
    clientOf(header) {
      const [id, cookie] = cookieOf(header('cookie'), name)?.split('.', 2) ?? [];
      const holder = id === undefined ? undefined : holders.byId(id);
      if (!holder || !isSame(cookie, derive(holder.secret, 'cookie'))) return undefined;
      return isSame(header(PAGE_KEY_HEADER), derive(holder.secret, 'page')) ? holder.client : undefined;
    },
    logIn(text) {
      const holder = holders.byToken(isUnusedCode(text) ? adminToken : text);
      if (!holder) return undefined;
      const cookie = `${name}=${holder.id}.${derive(holder.secret, 'cookie')}; ${COOKIE_RULES}; Max-Age=${COOKIE_SECONDS}`;
      return { cookie, key: derive(holder.secret, 'page') };
    },
    logOut: () => `${name}=; ${COOKIE_RULES}; Max-Age=0`,
    prove: (challenge) => proofOf(adminToken, challenge),
  };
}

/** Derives a secret for one purpose. */
export const derive = (secret: string, purpose: string): string =>
  createHmac('sha256', secret).update(purpose).digest('base64url');

/**
 * A code that logs in once, within a minute. It is used in the URL instead of the token, because every user of the
 * machine can see the arguments of the program that opens the URL.
 */
export const createLoginCode = (token: string): string =>
  codeOf(token, String(Date.now() + CODE_MS), randomBytes(12).toString('base64url'));

const codeOf = (token: string, until: string, nonce: string): string =>
  `${until}.${nonce}.${derive(token, `code ${until} ${nonce}`)}`;

/** The answer to a challenge, which requires the token. */
export const proofOf = (token: string, challenge: string): string => derive(token, `proof ${challenge}`);

const cookieOf = (header: string | undefined, name: string): string | undefined =>
  header
    ?.split(';')
    .map((one) => one.trim())
    .find((one) => one.startsWith(`${name}=`))
    ?.slice(name.length + 1);

/** Compares in constant time. */
export const isSame = (came: string | undefined, wanted: string): boolean =>
  came !== undefined && timingSafeEqual(hash(came), hash(wanted));

const hash = (text: string): Buffer => createHash('sha256').update(text).digest();
