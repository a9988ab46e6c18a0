import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

/** The header in which the page shows its key. */
const PAGE_KEY_HEADER = 'x-agentd-page';
/** How long a browser stays logged in, in seconds. */
const COOKIE_SECONDS = 30 * 24 * 3600;
/** How long a login code holds, in ms. */
const CODE_MS = 60_000;
const COOKIE_RULES = 'Path=/; HttpOnly; SameSite=Strict';

/** What a request shows of who sent it; names are in lower case. */
type RequestHeaders = (name: string) => string | undefined;

/** What the token of a workspace gives access to, and how a page gets it. */
export type Credentials = {
  /** Whether a request carries the cookie and the key of a page that has presented the token. */
  admits(header: RequestHeaders): boolean;
  /** Whether a text is the token, or a login code that has not been used. */
  isLogin(text: string): boolean;
  /** `Set-Cookie` of a page that has presented the token, and the key that it must send with each request. */
  openPage(): { cookie: string; key: string };
  /** `Set-Cookie` that ends it. */
  closePage(): string;
  /** Shows that this server knows the token, without telling it: an answer to a text that the caller has made up. */
  prove(challenge: string): string;
};

/**
 * Compares in constant time. Browsers send a cookie to every port of a host, and thus also to other servers on this
 * machine, such as one that an agent has started. The cookie alone therefore admits nobody: the key that belongs to it
 * is kept by the page, where only pages of this very port can read it.
 */
export function createCredentials(token: string): Credentials {
  const derive = (purpose: string): string => createHmac('sha256', token).update(purpose).digest('base64url');
  const [cookie, key] = [derive('cookie'), derive('page')];
  // Servers of several workspaces share the cookies of their host.
  const name = `agentd_${derive('name').replace(/\W/g, '').slice(0, 12)}`;
  const usedCodes = new Set<string>();
  return {
    admits: (header) =>
      header('authorization') === undefined &&
      isSame(cookieOf(header('cookie'), name), cookie) &&
      isSame(header(PAGE_KEY_HEADER), key),
    isLogin(text) {
      const [until = '', nonce = ''] = text.split('.');
      const isCode = isSame(text, codeOf(token, until, nonce)) && Number(until) >= Date.now() && !usedCodes.has(text);
      if (isCode) usedCodes.add(text);
      return isCode || isSame(text, token);
    },
    openPage: () => ({ cookie: `${name}=${cookie}; ${COOKIE_RULES}; Max-Age=${COOKIE_SECONDS}`, key }),
    closePage: () => `${name}=; ${COOKIE_RULES}; Max-Age=0`,
    prove: (challenge) => proofOf(token, challenge),
  };
}

/**
 * A text that logs in once, within a minute. A program that is told to open an address is seen with it by everyone on
 * the machine, so the token itself is not in that address.
 */
export const createLoginCode = (token: string): string =>
  codeOf(token, String(Date.now() + CODE_MS), randomBytes(12).toString('base64url'));

const codeOf = (token: string, until: string, nonce: string): string =>
  `${until}.${nonce}.${createHmac('sha256', token).update(`code ${until} ${nonce}`).digest('base64url')}`;

/** What a server that knows the token answers to a challenge. */
export const proofOf = (token: string, challenge: string): string =>
  createHmac('sha256', token).update(`proof ${challenge}`).digest('base64url');

const cookieOf = (header: string | undefined, name: string): string | undefined =>
  header
    ?.split(';')
    .map((one) => one.trim())
    .find((one) => one.startsWith(`${name}=`))
    ?.slice(name.length + 1);

const isSame = (came: string | undefined, wanted: string): boolean =>
  came !== undefined && timingSafeEqual(hash(came), hash(wanted));

const hash = (text: string): Buffer => createHash('sha256').update(text).digest();
