import { type IncomingHttpHeaders, type IncomingMessage, request as plain, type RequestOptions } from 'node:http';
import { request as secure } from 'node:https';
import { pipeline, type Readable } from 'node:stream';
import { createBrotliDecompress, createGunzip } from 'node:zlib';
import { UserError } from '../../protocol/errors.ts';
import type { Address } from './destination.ts';

export type Answer = {
  status: number;
  headers: IncomingHttpHeaders;
  /** The body, decompressed, at most `maxBytes` of it. */
  bytes: Buffer;
  /** There was more. */
  cut: boolean;
};

export type Ask = {
  method?: 'GET' | 'POST';
  headers?: Record<string, string>;
  body?: string;
  /** Where to connect; not said: to what the system's resolver answers. */
  to?: Address[];
  /** Most bytes of the body, counted after decompression; with 0 nothing of it is waited for. */
  maxBytes: number;
  signal: AbortSignal;
};

/**
 * One request, without redirects, cookies or a proxy, on a connection of its own. Rejects with the signal's reason where that
 * aborts, with what went wrong on the way otherwise.
 */
export async function request(url: URL, ask: Ask): Promise<Answer> {
  try {
    const response = await answered(url, ask);
    try {
      return await read(response, ask.maxBytes);
    } finally {
      response.destroy();
    }
  } catch (error) {
    ask.signal.throwIfAborted();
    throw error;
  }
}

function answered(url: URL, { method = 'GET', headers, body, to, signal }: Ask): Promise<IncomingMessage> {
  const options: RequestOptions = {
    method,
    // An agent of its own: none that keeps connections, or that a proxy in the environment could have been given to.
    agent: false,
    signal,
    headers: { 'user-agent': 'agentd', 'accept-encoding': 'gzip, br', ...headers },
    ...(to && { lookup: pinned(to) }),
  };
  return new Promise((resolve, reject) => {
    const sent = (url.protocol === 'https:' ? secure : plain)(url, options, resolve);
    sent.on('error', reject);
    sent.end(body);
  });
}

/** Answers whatever is asked with addresses that were checked before. */
export function pinned(to: Address[]): NonNullable<RequestOptions['lookup']> {
  return (_host, { all }, answer) => {
    const first = to[0];
    if (all) answer(null, to);
    else if (first) answer(null, first.address, first.family);
    else answer(new Error('no address'), '');
  };
}

const NOTHING = Buffer.alloc(0);

async function read(response: IncomingMessage, maxBytes: number): Promise<Answer> {
  const pieces: Buffer[] = [];
  let size = 0;
  if (maxBytes === 0) return { status: response.statusCode ?? 0, headers: response.headers, bytes: NOTHING, cut: true };
  for await (const piece of decompressed(response)) {
    const bytes: Buffer = piece;
    pieces.push(bytes);
    size += bytes.length;
    if (size > maxBytes) break;
  }
  const bytes = Buffer.concat(pieces).subarray(0, maxBytes);
  return { status: response.statusCode ?? 0, headers: response.headers, bytes, cut: size > maxBytes };
}

function decompressed(response: IncomingMessage): Readable {
  const coding = response.headers['content-encoding']?.trim().toLowerCase() ?? '';
  if (coding === '' || coding === 'identity') return response;
  const wide = { gzip: createGunzip, 'x-gzip': createGunzip, br: createBrotliDecompress }[coding];
  if (!wide) throw new UserError(`The server compressed its answer as \`${coding}\`, which was not asked for.`);
  // What goes wrong is thrown where the result is read.
  return pipeline(response, wide(), () => undefined);
}
