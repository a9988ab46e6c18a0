import { errorCode, errorText, UserError } from '../../protocol/errors.ts';
import type { Allowed } from './addresses.ts';
import { addressesOf, type Resolve, readUrl } from './destination.ts';
import { type Answer, request } from './request.ts';

/** The Fetch standard allows 20, browsers the same; a page that needs more than a few is a loop or a trap. */
const MAX_REDIRECTS = 5;

/** `mayGo`: whether a redirect to another host may be followed. */
export type Way = {
  mayGo: (url: URL) => boolean;
  may: Allowed;
  resolve: Resolve;
  maxBytes: number;
  signal: AbortSignal;
};
/** An answer and where it came from in the end. */
export type Fetched = Answer & { url: URL };

const ACCEPT = 'text/html,application/xhtml+xml,text/markdown;q=0.9,text/plain;q=0.8,*/*;q=0.7';

/** Fetches a URL and follows its redirects, each hop checked as the first was. Throws UserError. */
export async function follow(from: URL, way: Way): Promise<Fetched> {
  let url = from;
  for (let hops = 0; hops <= MAX_REDIRECTS; hops++) {
    const answer = await once(url, way);
    const next = answer.headers.location;
    if (![301, 302, 303, 307, 308].includes(answer.status) || next === undefined) return { ...answer, url };
    try {
      url = readUrl(next, url);
    } catch (error) {
      throw new UserError(`${url.href} redirects to what is not fetched: ${errorText(error)}`);
    }
    if (!isSameHost(from, url) && !way.mayGo(url)) {
      throw new UserError(
        `${from.href} redirects to another host, ${url.href}, which nobody was asked about. To fetch that, call web_fetch with it.`,
      );
    }
  }
  throw new UserError(`${from.href} redirects more than ${MAX_REDIRECTS} times, at last to ${url.href}.`);
}

const isSameHost = (one: URL, other: URL): boolean => bare(one) === bare(other);
const bare = ({ host }: URL): string => host.replace(/^www\./, '');

async function once(url: URL, { may, resolve, maxBytes, signal }: Way): Promise<Answer> {
  const to = await unlessAborted(addressesOf(url, may, resolve), signal);
  try {
    return await request(url, { to, maxBytes, signal, headers: { accept: ACCEPT } });
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
