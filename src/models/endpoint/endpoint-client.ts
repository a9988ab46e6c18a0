import { propertyOf } from '../../base/collections.ts';
import { parseJson } from '../../base/json.ts';
import { ModelError, type TokenPrices } from '../../engine/ports/session-ports.ts';
import { DAEMON_AGENT } from '../../protocol/settings/model-settings.ts';
import { ConnectionFault, type EndpointInfo, EndpointRefusal } from '../answer/endpoint-errors.ts';
import { type RawResponse, sendHttp } from './http-transport.ts';

export type EndpointSettings = {
  /** The URL before `/chat/completions`, such as `http://127.0.0.1:11434/v1`. A query in it stays at the end. */
  baseUrl: string;
  /** If undefined, no Authorization header is sent. */
  apiKey: string | undefined;
  /** The environment variable that holds the key, for error messages. */
  keyName?: string;
  /** Why there is no key and what to do; undefined: it is not set. */
  whyNoKey?: string | undefined;
  /** The model for requests that name none. */
  name: string;
  /** The longest the endpoint may be silent. */
  timeoutMs: number;
  prices?: TokenPrices | undefined;
  /** Whether images are sent; undefined: they are, until a model refuses them. */
  images?: boolean | undefined;
  /** Which API it speaks; undefined: what is learned from its refusal. */
  api?: 'chat' | 'responses' | undefined;
  /** Whether the model calls tools in the format of the API, or in its text. */
  toolCalls?: 'native' | 'text' | undefined;
  /** Merged into the body of each request; null removes a key. */
  body?: Readonly<Record<string, unknown>> | undefined;
  /** Sent with each request; null removes a header. */
  headers?: Readonly<Record<string, string | null>> | undefined;
};

export const endpointInfo = (
  { baseUrl, apiKey, keyName = 'OPENAI_API_KEY', whyNoKey }: EndpointSettings,
  model: string,
): EndpointInfo => ({ baseUrl, apiKey, keyName, whyNoKey, model });

/**
 * Sends a request and returns the response once it has begun, if its status is 2xx. Throws `EndpointRefusal` for any
 * other, `ConnectionFault` without a connection, `ModelError` (unreachable) for a silent endpoint, and the signal's
 * reason.
 */
export async function postJson(
  settings: EndpointSettings,
  path: string,
  { body, signal }: { body: Uint8Array; signal: AbortSignal },
): Promise<RawResponse> {
  const silence = new AbortController();
  const timer = setTimeout(() => silence.abort(), settings.timeoutMs);
  try {
    const headers = requestHeaders(settings);
    const response = await sendHttp(endpointUrl(settings.baseUrl, path), {
      ...{ method: 'POST', headers, body },
      signal: AbortSignal.any([signal, silence.signal]),
    });
    if (response.status >= 200 && response.status < 300 && !NO_ANSWER.includes(response.status)) return response;
    throw await readRefusal(response);
  } catch (error) {
    signal.throwIfAborted();
    const { baseUrl, timeoutMs } = settings;
    if (silence.signal.aborted)
      throw unreachable(`No answer from ${baseUrl}: silent for ${timeoutMs / 1000} s (timeout_s).`);
    throw error instanceof EndpointRefusal || error instanceof ModelError ? error : new ConnectionFault(error, false);
  } finally {
    clearTimeout(timer);
  }
}

/** These come without a body. */
const NO_ANSWER = [204, 205];

const unreachable = (text: string) => new ModelError('unreachable', text, { retry: true });

/** What is read of an error's body. */
const MAX_REFUSAL_BYTES = 1_000_000;

async function readRefusal({ status, headers, body }: RawResponse): Promise<EndpointRefusal | ModelError> {
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of body) {
    pieces.push(piece);
    size += piece.length;
    if (size > MAX_REFUSAL_BYTES) break;
  }
  if (status < 400 || status > 599)
    return unreachable(`The endpoint answered with status ${status}, which comes without an answer.`);
  const text = Buffer.concat(pieces).toString('utf8');
  return new EndpointRefusal(status, parseJson(text) ?? text, headers);
}

/** The address with a path behind its own, and its query at the end. */
function endpointUrl(baseUrl: string, path: string): string {
  const url = new URL(baseUrl);
  url.pathname = url.pathname.replace(/\/+(?:(?:chat\/completions|responses)\/*)?$/, '') + path;
  return url.href;
}

function requestHeaders({ apiKey, headers = {} }: EndpointSettings): Record<string, string> {
  const all = new Map<string, string | null>([
    ['accept', 'application/json'],
    ['content-type', 'application/json'],
    ['user-agent', DAEMON_AGENT],
    ['authorization', apiKey === undefined ? null : `Bearer ${apiKey}`],
    ...Object.entries(headers).map(([name, value]): [string, string | null] => [name.toLowerCase(), value]),
  ]);
  return Object.fromEntries([...all].flatMap(([name, value]) => (value === null ? [] : [[name, value]])));
}

const LIST_MODELS_MS = 10_000;

/** The window of a model as its endpoint lists it, in tokens; null if it does not. */
export async function listedWindow(settings: EndpointSettings, model: string): Promise<number | null> {
  try {
    const signal = AbortSignal.timeout(LIST_MODELS_MS);
    const url = endpointUrl(settings.baseUrl, '/models');
    const { status, body } = await sendHttp(url, { method: 'GET', headers: requestHeaders(settings), signal });
    let text = '';
    for await (const piece of body.setEncoding('utf8')) text += piece;
    return status === 200 ? (listedContextWindow(parseJson(text), model) ?? null) : null;
  } catch {
    // The window is then learned from refusals.
    return null;
  }
}

/** The window of a model in the answer to `GET /models`, in tokens; undefined if it is not stated. */
export function listedContextWindow(answer: unknown, model: string): number | undefined {
  const list = propertyOf(answer, 'data');
  const entry = Array.isArray(list) ? list.find((one: unknown) => propertyOf(one, 'id') === model) : undefined;
  const candidates = [
    ...WINDOW_FIELDS.map((name) => propertyOf(entry, name)),
    propertyOf(propertyOf(entry, 'meta'), 'n_ctx'),
  ];
  return candidates.find(
    (value): value is number => typeof value === 'number' && Number.isSafeInteger(value) && value >= 256,
  );
}

/** Where endpoints state a model's window in their list of models: vLLM, OpenRouter, Groq, LM Studio, llama.cpp. */
const WINDOW_FIELDS = 'loaded_context_length max_model_len context_length context_window max_context_length'.split(' ');
