import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { pipeline } from 'node:stream';
import { UserError } from '../../base/user-error.ts';
import type { AllowedHosts } from './destination.ts';
import { type HostAddress, type ResolveHost, resolveAllowedAddresses } from './destination.ts';
import { describeNetworkError, pinnedLookup } from './outbound-request.ts';

const CONNECT_MS = 20_000;
/** Number of faults kept. */
const MAX_FAULTS = 200;
/** Headers of the connection, not of the request (RFC 9110, 7.6.1). */
const HOP_BY_HOP_HEADERS = /^(?:connection|proxy-.*|keep-alive|te|trailer|transfer-encoding|upgrade)$/i;

/** Hosts Chromium contacts for reports and updates by itself, regardless of flags; observed at this proxy. */
const CHROMIUM_HOSTS = new Set([
  'update.googleapis.com',
  'content-autofill.googleapis.com',
  'optimizationguide-pa.googleapis.com',
  'safebrowsing.googleapis.com',
  'safebrowsingohttpgateway.googleapis.com',
  'clients2.google.com',
  'clientservices.googleapis.com',
  'edgedl.me.gvt1.com',
  'redirector.gvt1.com',
]);

/** A browser's only access to the network: a forward proxy on its own loopback port. */
export type EgressProxy = {
  /** `http://127.0.0.1:<port>`, for `--proxy-server`. */
  url: string;
  /** Why the last request to that URL failed; undefined if it did not. */
  lastFault(url: string): string | undefined;
  /** From now on, denies requests for which this returns a reason. Only the host of an encrypted request is known. */
  setDenyRule(denied: (url: string) => string | undefined): void;
  close(): void;
};

/** What a request of the browser needs to reach its host. */
type Route = {
  /** Closes the socket with the proxy. */
  keep(socket: Socket): void;
  /** The addresses it may connect to. Throws UserError if it may not. */
  addressesFor(url: URL): Promise<HostAddress[]>;
  noteFault(url: URL, error: unknown): void;
  noteSuccess(url: URL): void;
};

/**
 * Starts the proxy. Each connection is resolved once, all its addresses are checked, and it is made to those: a name
 * that resolves differently a moment later changes nothing. This covers pages, subresources, redirects, WebSockets and
 * workers alike, since the browser has no other way out.
 */
export async function startEgressProxy(may: () => AllowedHosts, resolve: ResolveHost): Promise<EgressProxy> {
  const faults = new Map<string, string>();
  const sockets = new Set<Socket>();
  let denied: (url: string) => string | undefined = () => undefined;
  const route: Route = {
    keep(socket) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.once('close', () => sockets.delete(socket));
    },
    async addressesFor(url) {
      if (CHROMIUM_HOSTS.has(url.hostname))
        throw new UserError(`${url.hostname} is refused: it belongs to the browser vendor, not to a page.`);
      const why = denied(url.href);
      if (why !== undefined) throw new UserError(`${url.href} is denied: ${why}.`);
      return resolveAllowedAddresses(url, may(), resolve);
    },
    noteFault(url, error) {
      if (faults.size >= MAX_FAULTS) faults.clear();
      const text = error instanceof UserError ? error.message : `${url.origin}: ${describeNetworkError(error)}.`;
      faults.set(hostAndPort(url), text);
    },
    noteSuccess: (url) => void faults.delete(hostAndPort(url)),
  };
  const server = createServer();
  server.on('connection', route.keep);
  server.on('request', (asked, answer) => void forward(route, asked, answer));
  server.on('connect', (asked, socket: Socket, head) => void tunnel(route, asked, socket, head));
  server.on('clientError', (_error, socket) => socket.destroy());
  await new Promise<void>((done, failed) => {
    server.once('error', failed);
    server.listen(0, '127.0.0.1', done);
  });
  const at = server.address();
  if (at === null || typeof at === 'string') throw new Error('The egress proxy has no port.');

  return {
    url: `http://127.0.0.1:${at.port}`,
    lastFault: (asked) => {
      const url = urlOrNone(asked);
      return url && faults.get(hostAndPort(url));
    },
    setDenyRule(next) {
      denied = next;
    },
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** Forwards a plain HTTP request. */
async function forward(route: Route, asked: IncomingMessage, answer: ServerResponse): Promise<void> {
  const url = urlOrNone(asked.url ?? '');
  if (url?.protocol !== 'http:') {
    answer.writeHead(400).end();
    return;
  }
  try {
    const to = await route.addressesFor(url);
    const sent = request(url, {
      method: asked.method ?? 'GET',
      agent: false,
      lookup: pinnedLookup(to),
      headers: endToEndHeaders(asked.rawHeaders),
      timeout: CONNECT_MS,
    });
    sent.once('response', (came) => {
      try {
        answer.writeHead(came.statusCode ?? 502, came.statusMessage, endToEndHeaders(came.rawHeaders));
      } catch (error) {
        // Node reads status lines that it does not write, such as one with a control character.
        return cutOff(route, url, error, answer);
      }
      route.noteSuccess(url);
      pipeline(came, answer, () => undefined);
    });
    sent.once('socket', (socket) => {
      route.keep(socket);
      // Only connecting is timed: a slow answer is the page's own concern.
      socket.once('connect', () => socket.setTimeout(0));
    });
    sent.once('timeout', () => sent.destroy(new Error('there is no answer')));
    sent.on('error', (error) => cutOff(route, url, error, answer));
    answer.once('close', () => sent.destroy());
    asked.pipe(sent);
  } catch (error) {
    cutOff(route, url, error, answer);
  }
}

/** Cuts the connection, because an error response of ours could be mistaken for the server's. */
function cutOff(route: Route, url: URL, error: unknown, answer: ServerResponse): void {
  if (!answer.headersSent) route.noteFault(url, error);
  answer.destroy();
}

/** Opens a tunnel for a CONNECT request. */
async function tunnel(route: Route, asked: IncomingMessage, socket: Socket, head: Buffer): Promise<void> {
  const url = urlOrNone(`https://${asked.url ?? ''}`);
  if (!url) {
    socket.end('HTTP/1.1 400 Bad Request\r\n\r\n');
    return;
  }
  const refuse = (error: unknown) => {
    route.noteFault(url, error);
    socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
  };
  try {
    const to = await route.addressesFor(url);
    const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
    const out = connect({ host, port: Number(url.port || 443), lookup: pinnedLookup(to), timeout: CONNECT_MS });
    route.keep(out);
    let open = false;
    out.once('connect', () => {
      open = true;
      out.setTimeout(0);
      route.noteSuccess(url);
      socket.write('HTTP/1.1 200 Connection Established\r\n\r\n');
      if (head.length > 0) out.write(head);
      pipeline(socket, out, () => undefined);
      pipeline(out, socket, () => undefined);
    });
    out.once('timeout', () => out.destroy(new Error('there is no answer')));
    out.once('error', (error) => (open ? socket.destroy() : refuse(error)));
    socket.once('close', () => out.destroy());
  } catch (error) {
    refuse(error);
  }
}

/** Host and port: a tunnel does not show whether its other end speaks https. */
function hostAndPort(url: URL): string {
  return `${url.hostname}:${url.port || (url.protocol === 'http:' ? 80 : 443)}`;
}

function urlOrNone(text: string): URL | undefined {
  return URL.canParse(text) ? new URL(text) : undefined;
}

/** Raw headers, name and value in turn, without those of the connection. */
function endToEndHeaders(raw: string[]): string[] {
  return raw.filter((_, at) => !HOP_BY_HOP_HEADERS.test(raw[at - (at % 2)] ?? ''));
}
