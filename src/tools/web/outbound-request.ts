import { type IncomingHttpHeaders, type IncomingMessage, request as plain, type RequestOptions } from 'node:http';
import { request as secure } from 'node:https';
import { pipeline, type Readable } from 'node:stream';
import { createBrotliDecompress, createGunzip } from 'node:zlib';
import { raceAbort, startDeadline } from '../../base/async.ts';
import { errorCode, errorText, UserError } from '../../base/user-error.ts';
import type { ToolContext, ToolResult } from '../../engine/ports/tool-ports.ts';
import {
  type AllowedHosts,
  type HostAddress,
  parseAllowedHosts,
  parseFetchUrl,
  type ResolveHost,
  resolveAllowedAddresses,
  resolveWithSystem,
} from './destination.ts';
import type { WebSettings } from './web-tool-heads.ts';

/** The Fetch standard allows 20, as browsers do; a page that needs more than a few is a loop or a trap. */
const MAX_REDIRECTS = 5;

/** One request and its answer, without following redirects. */
export type CheckedRequest = Omit<HttpRequest, 'to'> & { may: AllowedHosts; resolve: ResolveHost };

/** `refuses`: why a redirect is not followed, as text that continues "which …"; undefined if it is. */
export type FetchOptions = {
  refuses: (url: URL) => string | undefined;
  may: AllowedHosts;
  resolve: ResolveHost;
  maxBytes: number;
  signal: AbortSignal;
};
/** An answer, with its final URL and the redirects that led there. */
export type FetchedPage = HttpResponse & { url: URL; hops: readonly URL[] };

const ACCEPT = 'text/html,application/xhtml+xml,text/markdown;q=0.9,text/plain;q=0.8,*/*;q=0.7';

/**
 * The only network access of our own tools. The host is resolved once, each of its addresses is checked, and the
 * connection is made to these and no others.
 */
export async function requestChecked(url: URL, { may, resolve, ...asked }: CheckedRequest): Promise<HttpResponse> {
  const to = await raceAbort(resolveAllowedAddresses(url, may, resolve), asked.signal);
  return await sendRequest(url, { ...asked, to });
}

/** Fetches a URL and follows its redirects, checking each hop like the first. Throws UserError. */
export async function fetchWithRedirects(from: URL, way: FetchOptions): Promise<FetchedPage> {
  const hops = [from];
  for (let url = from; hops.length <= MAX_REDIRECTS + 1; hops.push(url)) {
    const answer = await fetchOnce(url, way);
    const next = answer.headers.location;
    if (![301, 302, 303, 307, 308].includes(answer.status) || next === undefined) return { ...answer, url, hops };
    try {
      url = parseFetchUrl(next, url);
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
 * Applies the rules to each redirect of a call that was permitted for its first URL. A redirect on the same host needs
 * no new approval if only a default would ask, but none gets past a rule.
 */
export function redirectPolicy(permits: ToolContext['permits'], from: URL): FetchOptions['refuses'] {
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

const isSameHost = (one: URL, other: URL): boolean => withoutWww(one) === withoutWww(other);
const withoutWww = ({ host }: URL): string => host.replace(/^www\./, '');

async function fetchOnce(url: URL, { may, resolve, maxBytes, signal }: FetchOptions): Promise<HttpResponse> {
  try {
    return await requestChecked(url, { may, resolve, maxBytes, signal, headers: { accept: ACCEPT } });
  } catch (error) {
    signal.throwIfAborted();
    throw error instanceof UserError ? error : new UserError(`${url.href}: ${describeNetworkError(error)}.`);
  }
}

const NETWORK_ERROR_TEXTS: Record<string, string> = {
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was lost',
  EPIPE: 'the connection was lost',
  ETIMEDOUT: 'there is no answer',
  EHOSTUNREACH: 'the host cannot be reached',
  ENETUNREACH: 'there is no network to it',
  Z_BUF_ERROR: 'the compressed answer was cut off',
  Z_DATA_ERROR: 'the compressed answer is damaged',
  CERT_HAS_EXPIRED: 'its certificate has expired',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is self-signed',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another host',
  EPROTO: 'no secure connection could be made; does it speak https?',
};

/** Describes a connection error for the model. */
export function describeNetworkError(error: unknown): string {
  // If several addresses were tried there is one error each.
  const first = error instanceof AggregateError ? error.errors[0] : error;
  return NETWORK_ERROR_TEXTS[errorCode(first) ?? ''] ?? errorText(first);
}

export type HttpResponse = {
  status: number;
  headers: IncomingHttpHeaders;
  /** The body, decompressed, at most `maxBytes` of it. */
  bytes: Buffer;
  /** Whether the body was longer. */
  cut: boolean;
};

type HttpRequest = {
  method?: 'GET' | 'POST';
  headers?: Record<string, string>;
  body?: string;
  /** Where to connect; default: what the system's resolver answers. */
  to?: HostAddress[];
  /** The most bytes of the body, after decompression; with 0 the body is not read. */
  maxBytes: number;
  signal: AbortSignal;
};

/**
 * One request, without redirects, cookies or a proxy, on its own connection. Rejects with the signal's reason if that
 * aborts, else with what went wrong.
 */
async function sendRequest(url: URL, ask: HttpRequest): Promise<HttpResponse> {
  try {
    const response = await awaitResponse(url, ask);
    try {
      return await readBody(response, ask.maxBytes);
    } finally {
      response.destroy();
    }
  } catch (error) {
    ask.signal.throwIfAborted();
    throw error;
  }
}

function awaitResponse(url: URL, { method = 'GET', headers, body, to, signal }: HttpRequest): Promise<IncomingMessage> {
  const options: RequestOptions = {
    method,
    // A shared agent might keep connections alive, or use a proxy from the environment.
    agent: false,
    signal,
    headers: { 'user-agent': 'agentd', 'accept-encoding': 'gzip, br', ...headers },
    ...(to && { lookup: pinnedLookup(to) }),
  };
  return new Promise((resolve, reject) => {
    const sent = (url.protocol === 'https:' ? secure : plain)(url, options, resolve);
    sent.on('error', reject);
    sent.end(body);
  });
}

/**
 * Answers every lookup with addresses that were checked before, though not before it returns: if the system then
 * refuses the connection at once (no route), Node would emit the error before it listens for it, which would end the
 * daemon.
 */
export function pinnedLookup(to: HostAddress[]): NonNullable<RequestOptions['lookup']> {
  return (_host, { all }, answer) => {
    const first = to[0];
    process.nextTick(() => {
      if (all) answer(null, to);
      else if (first) answer(null, first.address, first.family);
      else answer(new Error('no address'), '');
    });
  };
}

const NO_BYTES = Buffer.alloc(0);

async function readBody(response: IncomingMessage, maxBytes: number): Promise<HttpResponse> {
  const pieces: Buffer[] = [];
  let size = 0;
  if (maxBytes === 0)
    return { status: response.statusCode ?? 0, headers: response.headers, bytes: NO_BYTES, cut: true };
  for await (const piece of decompress(response)) {
    const bytes: Buffer = piece;
    pieces.push(bytes);
    size += bytes.length;
    if (size > maxBytes) break;
  }
  const bytes = Buffer.concat(pieces).subarray(0, maxBytes);
  return { status: response.statusCode ?? 0, headers: response.headers, bytes, cut: size > maxBytes };
}

function decompress(response: IncomingMessage): Readable {
  const coding = response.headers['content-encoding']?.trim().toLowerCase() ?? '';
  if (coding === '' || coding === 'identity') return response;
  const wide = { gzip: createGunzip, 'x-gzip': createGunzip, br: createBrotliDecompress }[coding];
  if (!wide) throw new UserError(`The server compressed its answer as \`${coding}\`, which was not asked for.`);
  // An error is thrown where the result is read.
  return pipeline(response, wide(), () => undefined);
}

type UrlCheck = { url: string; status: number };

/** Checks an address of `done_when` the way `web_fetch` does: the public network, and hosts a person allowed. */
export async function checkUrl(
  { url: asked, status }: UrlCheck,
  settings: WebSettings,
  ms: number,
  { signal, permits }: ToolContext,
): Promise<ToolResult> {
  if (!/^https?:/i.test(asked))
    throw new UserError(`${asked}: expected an address that begins with http:// or https://.`);
  const url = parseFetchUrl(asked);
  const limit = startDeadline(signal, ms);
  const may = parseAllowedHosts(settings.network?.allow_private ?? []);
  const way = {
    refuses: redirectPolicy(permits, url),
    may,
    resolve: resolveWithSystem,
    maxBytes: 0,
    signal: limit.signal,
  };
  try {
    const answer = await fetchWithRedirects(url, way);
    return { ok: answer.status === status, text: `${asked}: expected status ${status}, got ${answer.status}` };
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    const why = limit.hasPassed() ? `within ${ms / 1000} s` : `(${errorText(error)})`;
    return { ok: false, text: `${asked}: expected status ${status}, got no answer ${why}` };
  } finally {
    limit.clear();
  }
}
