import type { ToolContext } from '../../engine/ports.ts';
import { errorCode, errorText, UserError } from '../../protocol/errors.ts';
import type { Allowed } from './addresses.ts';
import { addressesOf, type Resolve, readUrl } from './destination.ts';
import { type Answer, type Ask, request } from './request.ts';

/** The Fetch standard allows 20, browsers the same; a page that needs more than a few is a loop or a trap. */
const MAX_REDIRECTS = 5;

/** One request and its answer, without a redirect. */
export type Asking = Omit<Ask, 'to'> & { may: Allowed; resolve: Resolve };

/** `refuses`: why a redirect to there is not followed, in words that go on "which …"; undefined where it is. */
export type Way = {
  refuses: (url: URL) => string | undefined;
  may: Allowed;
  resolve: Resolve;
  maxBytes: number;
  signal: AbortSignal;
};
/** An answer, where it came from in the end, and by which addresses. */
export type Fetched = Answer & { url: URL; hops: readonly URL[] };

const ACCEPT = 'text/html,application/xhtml+xml,text/markdown;q=0.9,text/plain;q=0.8,*/*;q=0.7';

/**
 * The one way out of our own tools: the host is looked up once, each of its addresses is checked, and the connection is made to
 * these and no others.
 */
export async function ask(url: URL, { may, resolve, ...asked }: Asking): Promise<Answer> {
  const to = await unlessAborted(addressesOf(url, may, resolve), asked.signal);
  return await request(url, { ...asked, to });
}

/** Fetches a URL and follows its redirects, each hop checked as the first was. Throws UserError. */
export async function follow(from: URL, way: Way): Promise<Fetched> {
  const hops = [from];
  for (let url = from; hops.length <= MAX_REDIRECTS + 1; hops.push(url)) {
    const answer = await once(url, way);
    const next = answer.headers.location;
    if (![301, 302, 303, 307, 308].includes(answer.status) || next === undefined) return { ...answer, url, hops };
    try {
      url = readUrl(next, url);
    } catch (error) {
      throw new UserError(`${url.href} redirects to what is not fetched: ${errorText(error)}`);
    }
    const why = way.refuses(url);
    if (why !== undefined) {
      const where = isSameHost(from, url) ? url.href : `another host, ${url.href}`;
      throw new UserError(`${from.href} redirects to ${where}, which ${why}.`);
    }
  }
  throw new UserError(`${from.href} redirects more than ${MAX_REDIRECTS} times, at last to ${hops.at(-1)?.href}.`);
}

/**
 * What the rules say of each hop of a call that was let through for its first address: a redirect on the same host needs no new leave
 * where only a default would ask, and none gets past a rule.
 */
export function hopsHeldTo(permits: ToolContext['permits'], from: URL): Way['refuses'] {
  return (url) => {
    const permit = permits?.(JSON.stringify({ url: url.href })) ?? { is: 'allow' };
    switch (permit.is) {
      case 'allow':
        return undefined;
      case 'deny':
        return `is denied: ${permit.why}`;
      case 'ask':
        return permit.rule || !isSameHost(from, url)
          ? 'nobody was asked about. To fetch that, call web_fetch with it'
          : undefined;
      default:
        return permit satisfies never;
    }
  };
}

const isSameHost = (one: URL, other: URL): boolean => bare(one) === bare(other);
const bare = ({ host }: URL): string => host.replace(/^www\./, '');

async function once(url: URL, { may, resolve, maxBytes, signal }: Way): Promise<Answer> {
  try {
    return await ask(url, { may, resolve, maxBytes, signal, headers: { accept: ACCEPT } });
  } catch (error) {
    signal.throwIfAborted();
    throw error instanceof UserError ? error : new UserError(`${url.href}: ${faultInWords(error)}.`);
  }
}

/** The system's resolver cannot be stopped; it is left to itself. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  let stop = (): void => undefined;
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

const FAULTS: Record<string, string> = {
  ECONNREFUSED: 'nothing listens there',
  ECONNRESET: 'the connection was broken off',
  EPIPE: 'the connection was broken off',
  ETIMEDOUT: 'there is no answer',
  EHOSTUNREACH: 'the host cannot be reached',
  ENETUNREACH: 'there is no network to it',
  Z_BUF_ERROR: 'the compressed answer was broken off',
  Z_DATA_ERROR: 'the compressed answer is damaged',
  CERT_HAS_EXPIRED: 'its certificate has expired',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is signed by itself',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another host',
  EPROTO: 'no secure connection came about; does it speak https?',
};

/** What went wrong with a connection, for the model. */
export function faultInWords(error: unknown): string {
  // Where several addresses were tried there is an error of each.
  const first = error instanceof AggregateError ? error.errors[0] : error;
  return FAULTS[errorCode(first) ?? ''] ?? errorText(first);
}
