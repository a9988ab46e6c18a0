import { APIConnectionError, APIConnectionTimeoutError, APIError } from 'openai';
import { errorCode, errorText } from '../../base/user-error.ts';
import { ModelError } from '../../engine/ports/session-ports.ts';
import { malformedFault } from './completion-stream.ts';
import { resetDelayMs } from './reset-times.ts';

/** What an error message may say about the endpoint, and the key it must not reveal. */
export type EndpointInfo = {
  baseUrl: string;
  model: string;
  keyName: string;
  whyNoKey?: string | undefined;
  apiKey: string | undefined;
  timeoutMs: number;
};

const MAX_ERROR_CHARS = 500;
const LEAST_QUOTA_WAIT_MS = 60_000;
/** Timeout, conflict, too early: the request itself was fine. */
const RETRYABLE_STATUSES = new Set([408, 409, 425]);

/** Converts a thrown error to a fault; undefined for a bug of ours, which keeps its stack. */
export function toModelFault(error: unknown, at: EndpointInfo): ModelError | undefined {
  if (error instanceof ModelError) return error;
  if (error instanceof APIConnectionTimeoutError)
    return unreachableFault(at, `silent for ${at.timeoutMs / 1000} s (timeout_s)`);
  if (error instanceof APIConnectionError) {
    return error.cause instanceof ModelError ? error.cause : unreachableFault(at, networkReason(error.cause ?? error));
  }
  if (error instanceof APIError)
    return error.status === undefined ? faultInStream(error, at) : faultForStatus(error, error.status, at);
  if (error instanceof SyntaxError) return malformedFault(`a part of it is not JSON (${errorText(error)})`);
  // undici reports a connection lost within a body as `TypeError: terminated`, with the reason as its cause.
  if (error instanceof TypeError && error.cause !== undefined) {
    return unreachableFault(at, `the connection broke inside the answer (${networkReason(error)})`);
  }
  return undefined;
}

/** An HTTP error that a built-in model simulates. */
export type PlayedError = { status: number; message: string; retryAfter?: number | undefined };

/** The fault for such an error. */
export function toPlayedFault({ status, message, retryAfter }: PlayedError, model: string): ModelError {
  const headers = new Headers(retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) });
  const at = { baseUrl: model, model, keyName: 'OPENAI_API_KEY', apiKey: undefined, timeoutMs: 0 };
  return faultForStatus(new APIError(status, { message }, undefined, headers), status, at);
}

/** All that a refusal says, to be searched for what it is about. */
export const refusalText = (error: APIError): string => `${error.message} ${JSON.stringify(error.error ?? '')}`;

function faultForStatus(error: APIError, status: number, at: EndpointInfo): ModelError {
  const words = endpointErrorText(error, at);
  const message = `${at.baseUrl} answered ${status}${words ? `: ${words}` : ''}`;
  const refused = contextOverflow(error);
  if (refused) return new ModelError('too_long', message, { retry: true, window: refused.tokens });
  const waitMs = resetDelayMs(error.headers, `${error.message} ${JSON.stringify(error.error ?? '')}`);
  // A quota that comes back at a known time is waited for; "in a second" is said of any refusal.
  const isKnown = waitMs !== undefined && waitMs >= LEAST_QUOTA_WAIT_MS;
  if (status === 429 && !isKnown && [error.code, error.type].includes('insufficient_quota'))
    return rejectedFault(`${message}. No quota is left.`);
  if (status === 429 || (status === 503 && waitMs !== undefined)) {
    return new ModelError('overloaded', message, { retry: true, waitMs });
  }
  if (status >= 500 || RETRYABLE_STATUSES.has(status))
    return new ModelError('unreachable', message, { retry: true, waitMs });
  if (status === 401 || status === 403) return rejectedFault(`${message}. ${keyAdvice(at)}`);
  if (status === 404) {
    return rejectedFault(`${message}. Check base_url (most end in /v1) and the model's name, "${at.model}".`);
  }
  return rejectedFault(message);
}

function keyAdvice({ apiKey, keyName, whyNoKey }: EndpointInfo): string {
  if (apiKey !== undefined) return `The key that was sent is the one in ${keyName}.`;
  return whyNoKey ?? `No key was sent: set ${keyName}.`;
}

/** An `error` object within a stream. */
function faultInStream(error: APIError, at: EndpointInfo): ModelError {
  return malformedFault(`the endpoint broke off with an error (${endpointErrorText(error, at)})`);
}

const rejectedFault = (text: string) => new ModelError('rejected', text, { retry: false });

const unreachableFault = (at: EndpointInfo, why: string) =>
  new ModelError('unreachable', `No answer from ${at.baseUrl}: ${why}.`, { retry: true });

/** The innermost reason: fetch wraps `connect ECONNREFUSED` in "fetch failed", and the client wraps that again. */
function networkReason(error: unknown): string {
  if (error instanceof Error && error.cause !== undefined) return networkReason(error.cause);
  return errorText(error) || errorCode(error) || 'connection failed';
}

/** The endpoint's error text, shortened, with web pages and our key removed. */
function endpointErrorText(error: APIError, { apiKey }: EndpointInfo): string {
  const body: unknown = error.error;
  const raw = body === undefined ? error.message.replace(/^\d+ (status code \(no body\))?/, '') : errorBodyText(body);
  if (/^\s*<(!doctype|html|head|\?xml)/i.test(raw)) return 'a web page';
  const safe = apiKey ? raw.replaceAll(apiKey, '***') : raw;
  const points = [...safe.trim()];
  return points.length > MAX_ERROR_CHARS ? `${points.slice(0, MAX_ERROR_CHARS).join('')}…` : points.join('');
}

function errorBodyText(body: unknown): string {
  if (typeof body === 'string') return body;
  if (typeof body === 'object' && body !== null) {
    if ('message' in body && typeof body.message === 'string') return body.message;
    if ('detail' in body && typeof body.detail === 'string') return body.detail;
  }
  return JSON.stringify(body);
}

/**
 * How endpoints report a request longer than the model's window: OpenAI, vLLM, llama.cpp, Anthropic's compatible API,
 * LM Studio, Ollama.
 */
const ABOUT_CONTEXT_LENGTH =
  /context[_ ](?:length|window|size)|maximum context|prompt is too long|exceeds? (?:the )?(?:model's |available )?context|too many (?:input |prompt )?tokens|reduce the length of/i;
const CONTEXT_SIZE =
  /(?:maximum context length (?:is|of)(?: only)?|context (?:size|window|length)(?: of| is)?(?: only)?) ?\(?(\d{3,8})|> ?(\d{3,8}) maximum/i;

/**
 * The window stated in a refusal: undefined if the refusal is not about length, else its size in tokens if stated.
 * llama.cpp has it as a field, `n_ctx`; the others in their text.
 */
function contextOverflow(error: APIError): { tokens: number | undefined } | undefined {
  if (![400, 413, 422, 500].includes(error.status ?? 0)) return undefined;
  const words = `${error.code ?? ''} ${error.type ?? ''} ${error.message} ${JSON.stringify(error.error ?? '')}`;
  if (!ABOUT_CONTEXT_LENGTH.test(words)) return undefined;
  const field = /"n_ctx":\s*(\d{3,8})/.exec(words)?.[1];
  const [, one, other] = CONTEXT_SIZE.exec(words) ?? [];
  const found = field ?? one ?? other;
  return { tokens: found === undefined ? undefined : Number(found) };
}
