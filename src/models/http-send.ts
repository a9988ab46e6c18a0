import * as http from 'node:http';
import * as https from 'node:https';
import type { Readable } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { errorCode } from '../protocol/errors.ts';

/** What came back for a request; `body` gives bytes, and is destroyed by whoever does not read it to its end. */
export type Answer = { status: number; statusText: string; headers: Headers; body: Readable | null };

/** The part of `fetch` that a model's client needs. Rejects like it: `TypeError: fetch failed` with the reason as its cause. */
export type Send = (url: string, request: RequestInit) => Promise<Answer>;

/**
 * One request through `node:http`, on connections that Node keeps for all callers. Measured against the `fetch` of Node 20 with
 * a streamed answer of four pieces: 0.4 ms less processor time a call, a quarter of what the client costs. Redirects of a POST
 * that keep the method are followed; compressed answers are not asked for, and understood all the same.
 */
export const httpSend: Send = (url, request) => sent(url, request, REDIRECTS);

/** As many as `fetch` follows. */
const REDIRECTS = 20;

async function sent(url: string, request: RequestInit, redirects: number): Promise<Answer> {
  const message = await reached(new URL(url), request).catch((error: unknown) => {
    if (request.signal?.aborted) throw error;
    throw new TypeError('fetch failed', { cause: error });
  });
  const { statusCode: status = 0, statusMessage: statusText = '' } = message;
  const { location } = message.headers;
  const isMoved = status === 307 || status === 308 || (request.method === 'GET' && status > 300 && status < 304);
  if (isMoved && location !== undefined && redirects > 0) {
    message.destroy();
    return sent(elsewhere(url, location), forElsewhere(url, location, request), redirects - 1);
  }
  return { status, statusText, headers: headersOf(message), body: decoded(message) };
}

const elsewhere = (url: string, location: string): string => new URL(location, url).href;

/** A key goes to nobody but the one it is for: another host is not sent it. */
function forElsewhere(url: string, location: string, request: RequestInit): RequestInit {
  if (new URL(elsewhere(url, location)).origin === new URL(url).origin) return request;
  const headers = new Headers(request.headers);
  for (const name of ['authorization', 'cookie']) headers.delete(name);
  return { ...request, headers };
}

/** A server may close a connection in the very moment it is used again: then the request never began there, and goes once more. */
function reached(url: URL, request: RequestInit, isSecond = false): Promise<http.IncomingMessage> {
  const { request: open } = url.protocol === 'https:' ? https : http;
  const { method = 'GET', signal } = request;
  const body = bytesOf(request.body);
  const headers = { ...Object.fromEntries(new Headers(request.headers)), 'accept-encoding': 'identity' };
  const length = body && { 'content-length': body.length };
  return new Promise((resolve, reject) => {
    const asking = open(url, { method, headers: { ...headers, ...length }, ...(signal && { signal }) });
    asking.on('response', resolve);
    asking.on('error', (error) => {
      const isStale = asking.reusedSocket && errorCode(error) === 'ECONNRESET';
      if (isStale && !isSecond && !signal?.aborted) resolve(reached(url, request, true));
      else reject(error);
    });
    asking.end(body);
  });
}

function bytesOf(body: RequestInit['body']): Uint8Array | undefined {
  if (body === undefined || body === null) return undefined;
  if (typeof body === 'string') return Buffer.from(body);
  if (body instanceof Uint8Array) return body;
  throw new TypeError('A request has a text or bytes as its body.');
}

function headersOf({ rawHeaders }: http.IncomingMessage): Headers {
  const headers = new Headers();
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) headers.append(rawHeaders[at] ?? '', rawHeaders[at + 1] ?? '');
  return headers;
}

const DECODERS = { gzip: createGunzip, 'x-gzip': createGunzip, deflate: createInflate, br: createBrotliDecompress };

function decoded(message: http.IncomingMessage): Readable {
  const coding = message.headers['content-encoding']?.trim().toLowerCase() ?? '';
  const [, decoder] = Object.entries(DECODERS).find(([name]) => name === coding) ?? [];
  if (!decoder) return message;
  const plain = decoder();
  message.on('error', (error) => plain.destroy(error));
  plain.on('close', () => message.destroy());
  return message.pipe(plain);
}
