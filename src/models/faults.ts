import { APIConnectionError, APIConnectionTimeoutError, APIError } from 'openai';
import { ModelFault } from '../engine/ports.ts';
import { errorCode, errorText } from '../protocol/errors.ts';
import { malformed } from './stream.ts';
import { refusedWindow } from './window.ts';

/** What a fault's message may tell about the endpoint, and the key it must not tell. */
export type Endpoint = {
  baseUrl: string;
  model: string;
  keyName: string;
  apiKey: string | undefined;
  timeoutMs: number;
};

const MAX_WORDS = 500;
/** Timed out, in conflict, too early: the request itself was fine. */
const TRY_AGAIN = new Set([408, 409, 425]);

/** The fault that a thrown error means, or undefined for a bug of ours, which keeps its stack. */
export function asFault(error: unknown, at: Endpoint): ModelFault | undefined {
  if (error instanceof ModelFault) return error;
  if (error instanceof APIConnectionTimeoutError)
    return unreachable(at, `silent for ${at.timeoutMs / 1000} s (timeout_s)`);
  if (error instanceof APIConnectionError) {
    return error.cause instanceof ModelFault ? error.cause : unreachable(at, networkWords(error.cause ?? error));
  }
  if (error instanceof APIError)
    return error.status === undefined ? inStream(error, at) : byStatus(error, error.status, at);
  if (error instanceof SyntaxError) return malformed(`a piece of it is no JSON (${errorText(error)})`);
  // undici reports a connection that broke inside a body as `TypeError: terminated`, with the reason as its cause.
  if (error instanceof TypeError && error.cause !== undefined) {
    return unreachable(at, `the connection broke inside the answer (${networkWords(error)})`);
  }
  return undefined;
}

/** Whether an endpoint refuses the request because it does not know the option that asks for usage. */
export function refusesUsageOption(error: unknown): boolean {
  return (
    hasStatus(error, [400, 422]) && /stream_options|include_usage/.test(JSON.stringify(error.error ?? error.message))
  );
}

/** Whether an endpoint may have stumbled over the conversation itself. llama.cpp answers 500 to arguments it cannot parse. */
export const refusesConversation = (error: unknown): boolean => hasStatus(error, [400, 422, 500]);

function hasStatus(error: unknown, statuses: number[]): error is APIError {
  return error instanceof APIError && error.status !== undefined && statuses.includes(error.status);
}

function byStatus(error: APIError, status: number, at: Endpoint): ModelFault {
  const words = wordsOf(error, at);
  const said = `${at.baseUrl} answered ${status}${words ? `: ${words}` : ''}`;
  const refused = refusedWindow(error);
  if (refused) return new ModelFault('too_long', said, { retry: true, window: refused.tokens });
  const waitMs = retryAfter(error.headers);
  if (status === 429 && [error.code, error.type].includes('insufficient_quota'))
    return rejected(`${said}. No quota is left.`);
  if (status === 429 || (status === 503 && waitMs !== undefined)) {
    return new ModelFault('overloaded', said, { retry: true, waitMs });
  }
  if (status >= 500 || TRY_AGAIN.has(status)) return new ModelFault('unreachable', said, { retry: true, waitMs });
  if (status === 401 || status === 403) return rejected(`${said}. ${keyAdvice(at)}`);
  if (status === 404) {
    return rejected(`${said}. Check base_url (most end in /v1) and the model's name, "${at.model}".`);
  }
  return rejected(said);
}

function keyAdvice({ apiKey, keyName }: Endpoint): string {
  return apiKey === undefined ? `No key was sent: set ${keyName}.` : `The key that was sent is the one in ${keyName}.`;
}

/** An `error` object in the middle of a stream. */
function inStream(error: APIError, at: Endpoint): ModelFault {
  return malformed(`the endpoint broke off with an error (${wordsOf(error, at)})`);
}

const rejected = (text: string) => new ModelFault('rejected', text, { retry: false });

const unreachable = (at: Endpoint, why: string) =>
  new ModelFault('unreachable', `No answer from ${at.baseUrl}: ${why}.`, { retry: true });

/** The innermost reason: fetch wraps `connect ECONNREFUSED` into "fetch failed" and the client wraps that once more. */
function networkWords(error: unknown): string {
  if (error instanceof Error && error.cause !== undefined) return networkWords(error.cause);
  return errorText(error) || errorCode(error) || 'connection failed';
}

/** The endpoint's own words: short, without its web pages and without our key. */
function wordsOf(error: APIError, { apiKey }: Endpoint): string {
  const body: unknown = error.error;
  const raw = body === undefined ? error.message.replace(/^\d+ (status code \(no body\))?/, '') : bodyWords(body);
  if (/^\s*<(!doctype|html|head|\?xml)/i.test(raw)) return 'a web page';
  const safe = apiKey ? raw.replaceAll(apiKey, '***') : raw;
  const points = [...safe.trim()];
  return points.length > MAX_WORDS ? `${points.slice(0, MAX_WORDS).join('')}…` : points.join('');
}

function bodyWords(body: unknown): string {
  if (typeof body === 'string') return body;
  if (typeof body === 'object' && body !== null) {
    if ('message' in body && typeof body.message === 'string') return body.message;
    if ('detail' in body && typeof body.detail === 'string') return body.detail;
  }
  return JSON.stringify(body);
}

/**
 * `Retry-After` in ms: seconds, or a date, which is read against the answer's own `Date` so that a wrong clock on
 * either side does no harm. `retry-after-ms` is OpenAI's finer form of it.
 */
function retryAfter(headers: Headers | undefined): number | undefined {
  const fine = Number.parseFloat(headers?.get('retry-after-ms') ?? '');
  if (fine >= 0) return fine;
  const text = headers?.get('retry-after')?.trim() ?? '';
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text) * 1000;
  const until = Date.parse(text);
  if (Number.isNaN(until)) return undefined;
  const sent = Date.parse(headers?.get('date') ?? '');
  return Math.max(0, until - (Number.isNaN(sent) ? Date.now() : sent));
}
