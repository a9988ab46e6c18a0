import { getOwn, isRecord } from '../../base/collections.ts';
import { parseJson } from '../../base/json.ts';
import { errorCode, errorText } from '../../base/user-error.ts';
import { ModelError } from '../../engine/ports/session-ports.ts';
import { isAboutLength, resetDelayMs, statedWindow } from './refusal-facts.ts';

/** What an error message may say about the endpoint, and the key it must not reveal. */
export type EndpointInfo = {
  baseUrl: string;
  model: string;
  keyName: string;
  whyNoKey?: string | undefined;
  apiKey: string | undefined;
};

/** The endpoint answered with an error: as a status (undefined: within an answer with status 200) and a body. */
export class EndpointRefusal extends Error {
  readonly status: number | undefined;
  /** The status, or the one that its words stand for. */
  readonly meaning: number | undefined;
  readonly headers: Headers | undefined;
  /** All that it says, to be searched for what it is about. */
  readonly words: string;
  /** Its message for people, with the reason of the provider behind a gateway. */
  readonly said: string;

  constructor(status: number | undefined, body: unknown, headers?: Headers) {
    const said = bodyText(body);
    super(said);
    this.status = status;
    this.headers = headers;
    this.said = said;
    this.words = typeof body === 'string' ? body : JSON.stringify(body);
    this.meaning = status === undefined ? impliedStatus(this.words) : (innerStatus(status, this.words) ?? status);
  }
}

/** There is no connection, or it broke `inside` an answer. */
export class ConnectionFault extends Error {
  readonly inside: boolean;

  constructor(cause: unknown, inside: boolean) {
    super(errorText(cause) || errorCode(cause) || 'connection failed', { cause });
    this.inside = inside;
  }
}

/** Converts a thrown error to a fault; undefined for a bug of ours, which keeps its stack. */
export function toModelFault(error: unknown, at: EndpointInfo): ModelError | undefined {
  if (error instanceof ModelError) return error;
  if (error instanceof EndpointRefusal) return faultOf(error, at);
  return error instanceof ConnectionFault ? connectionFault(error, at) : undefined;
}

/** Whether a piece of a stream is an error that is not called one: words, and no part of an answer. */
export function isErrorPiece(piece: unknown): boolean {
  if (!isRecord(piece) || Array.isArray(piece['choices']) || piece['usage']) return false;
  const { success, base_resp: inner } = piece;
  const isFault = isRecord(inner) && Boolean(inner['status_code']);
  return isFault || success === false || MESSAGE_KEYS.some((key) => typeof piece[key] === 'string');
}

/** An HTTP error that a built-in model simulates. */
export type PlayedError = { status: number; message: string; retryAfter?: number | undefined };

/** The fault for such an error. */
export function toPlayedFault({ status, message, retryAfter }: PlayedError, model: string): ModelError {
  const headers = new Headers(retryAfter === undefined ? {} : { 'retry-after': String(retryAfter) });
  const at = { baseUrl: model, model, keyName: 'OPENAI_API_KEY', apiKey: undefined };
  return faultOf(new EndpointRefusal(status, { message }, headers), at);
}

/**
 * The fault for a refusal, whichever way it came: its own words first, then its status, then the code or the type that
 * stands for one.
 */
function faultOf(refusal: EndpointRefusal, at: EndpointInfo): ModelError {
  const { words, headers, meaning: status } = refusal;
  const message = refusalMessage(refusal, at);
  if (isAboutLength(words, status))
    return new ModelError('too_long', withAdvice(message, LENGTH_ADVICE), {
      ...{ retry: true, window: statedWindow(words) },
    });
  if (ABOUT_BROKEN_CALL.test(words)) {
    const why = 'the endpoint could not read the call that its model wrote';
    return new ModelError('malformed', `${message} (${why})`, { retry: true, hint: 'call' });
  }
  const waitMs = resetDelayMs(headers, `${refusal.said} ${words}`);
  // A quota that comes back at a known time is waited for; "in a second" is said of any refusal.
  const isKnown = status === 429 && waitMs !== undefined && waitMs >= LEAST_QUOTA_WAIT_MS;
  if (status === undefined) return new ModelError('malformed', message, { retry: true });
  if (ABOUT_QUOTA.test(words) && status < 500 && !isKnown) return rejected(withAdvice(message, 'No quota is left.'));
  if (status === 429 || status === 529 || (status === 503 && waitMs !== undefined))
    return new ModelError('overloaded', message, { retry: true, waitMs });
  if (status >= 500 || RETRYABLE_STATUSES.has(status))
    return new ModelError('unreachable', message, { retry: true, waitMs });
  return rejected(withAdvice(message, adviceFor(status, refusal, at)));
}

const LENGTH_ADVICE =
  'If it stays too long: put long texts into files of work/, or use a model or a server setting with a larger context.';

const rejected = (text: string) => new ModelError('rejected', text, { retry: false });

const withAdvice = (message: string, advice: string): string =>
  advice === '' ? message : `${message}${/[.!?…]$/.test(message) ? '' : '.'} ${advice}`;

/** Timeout, conflict, too early: the request itself was fine. */
const RETRYABLE_STATUSES = new Set([408, 409, 425]);
const LEAST_QUOTA_WAIT_MS = 60_000;
const ABOUT_QUOTA = /insufficient_quota|billing_not_active|billing_hard_limit/i;
/** Groq, Ollama, llama.cpp and vLLM, about what their own model wrote: it only has to be asked again. */
const ABOUT_BROKEN_CALL =
  /tool_use_failed|failed_generation|failed to call a function|error parsing tool call|failed to parse (?:tool call|input at pos)|could not parse (?:the )?tool call/i;

/** What an error in a stream, or behind a gateway, would be as a status. */
const IMPLIED_STATUSES: ReadonlyArray<[status: number, about: RegExp]> = [
  [402, /insufficient.?(?:balance|funds|credits?)|payment.?required|arrears|余额/i],
  [429, /rate.?limit|too.?many.?requests|resource.?exhausted|overloaded|engine_overloaded|throttl/i],
  [401, /authentication|invalid.?api.?key|unauthenticated|unauthorized|permission.?denied|permission_error/i],
  [404, /not.?found/i],
  [503, /server_error|internal.?(?:server)?.?error|api_error|unavailable|bad.?gateway|timed?.?out|timeout_error/i],
  [400, /invalid_request|bad.?request|invalid.?argument|invalid_parameter/i],
];

function impliedStatus(words: string): number | undefined {
  const [, code] = /"(?:code|status|status_code|http_status)":\s*"?([45]\d\d)\b/.exec(words) ?? [];
  if (code !== undefined) return Number(code);
  return IMPLIED_STATUSES.find(([, about]) => about.test(words))?.[0];
}

/** A gateway's 400 or 500 for an overload of the provider behind it. */
function innerStatus(status: number, words: string): number | undefined {
  if (status !== 400 || !/provider returned error|upstream/i.test(words)) return undefined;
  return /"(?:code|status)\\*":\s*\\*"?(429|5\d\d)\b/.exec(words) ? 429 : undefined;
}

/** What a person can do about it, if the endpoint does not say it itself. */
function adviceFor(status: number, { said, words }: EndpointRefusal, at: EndpointInfo): string {
  const isPage = said === PAGE;
  if (isPage && (status === 401 || status === 403))
    return 'Something before the endpoint, such as a firewall or a login page, answered.';
  // LiteLLM's proxy without a database, about a key that it does not know.
  if (status === 401 || status === 403 || /no connected db/i.test(words)) return keyAdvice(at);
  if (status === 407)
    return 'A proxy of the environment (HTTPS_PROXY, HTTP_PROXY) wants a name and a password: http://NAME:PASSWORD@HOST:PORT.';
  if (status === 402 && /max_tokens/.test(words)) return 'Lower model.max_tokens.';
  if (/max_(?:completion_)?tokens.{0,20}(?:required|missing)/i.test(words)) return 'Set model.max_tokens.';
  if (/tool/i.test(said) && /not support|unsupported|no endpoints found/i.test(said))
    return 'Choose a model that calls tools, or set model.tool_calls to "text": agentctl help models';
  if (status !== 404) return '';
  if (isPage || said.length < 20 || /model/i.test(said))
    return `Check base_url (most end in /v1) and the model's name, "${at.model}".`;
  return '';
}

function keyAdvice({ apiKey, keyName, whyNoKey }: EndpointInfo): string {
  const how = `Set the right one in ${keyName} where the daemon starts, then: agentctl restart`;
  if (apiKey !== undefined) return `The key that was sent is the one in ${keyName}. ${how}`;
  return whyNoKey ?? `No key was sent. ${how}`;
}

const MAX_ERROR_CHARS = 500;
const PAGE = 'a web page';

/** What the endpoint answered, shortened, without our key. */
function refusalMessage({ status, said }: EndpointRefusal, { baseUrl, apiKey }: EndpointInfo): string {
  const safe = apiKey ? said.replaceAll(apiKey, '***') : said;
  const points = [...safe.trim()];
  const short = points.length > MAX_ERROR_CHARS ? `${points.slice(0, MAX_ERROR_CHARS).join('')}…` : points.join('');
  const words = short === '' ? '' : `: ${short}`;
  const how = status === undefined ? 'broke off with an error' : `answered ${status}`;
  return `${baseUrl} ${how}${words}`;
}

/** The message in an error's body, in the form of one of many endpoints. */
function bodyText(body: unknown): string {
  if (typeof body === 'string') return /^\s*<(!doctype|html|head|\?xml)/i.test(body) ? PAGE : body;
  // Gemini sends a list of one error.
  if (Array.isArray(body)) return body.length === 1 ? bodyText(body[0]) : JSON.stringify(body);
  if (!isRecord(body)) return '';
  const { error, base_resp: inner } = body;
  if (typeof error === 'string' && error !== '') return error;
  if (isRecord(error)) return [bodyText(error), ...behindGateway(error['metadata'])].join(' ');
  const message = MESSAGE_KEYS.map((key) => getOwn(body, key)).find((one) => typeof one === 'string' && one !== '');
  if (typeof message === 'string') return message;
  return isRecord(inner) ? bodyText(inner) : JSON.stringify(body);
}

const MESSAGE_KEYS = ['message', 'detail', 'msg', 'error_msg', 'error_message', 'status_msg'] as const;

/** OpenRouter's `metadata`: which provider refused, and its own words. */
function behindGateway(metadata: unknown): string[] {
  if (!isRecord(metadata)) return [];
  const { provider_name: provider, raw } = metadata;
  const inner = typeof raw === 'string' ? (parseJson(raw) ?? raw) : raw;
  const text = inner === undefined ? '' : bodyText(inner);
  return text === '' ? [] : [`(${typeof provider === 'string' ? `${provider}: ` : ''}${text})`];
}

/** No wait helps against these, so the run ends with what helps. */
const TLS_ADVICE: ReadonlyArray<[code: RegExp, advice: string]> = [
  [
    /self.signed|UNABLE_TO_(?:VERIFY|GET)|CERT_|unable to (?:verify|get)|certificate/i,
    'Its certificate is not trusted here: name the file of its authority in NODE_EXTRA_CA_CERTS before the daemon starts.',
  ],
  [/wrong version number|EPROTO|packet length too long/i, 'This address seems to speak http, not https.'],
  [/HPE_INVALID|Parse Error: Expected HTTP/i, 'This address seems to speak https, not http.'],
];

function connectionFault({ message, cause, inside }: ConnectionFault, { baseUrl }: EndpointInfo): ModelError {
  const advice = TLS_ADVICE.find(([about]) => about.test(`${errorCode(cause) ?? ''} ${message}`))?.[1];
  if (advice !== undefined && !inside) return rejected(`No answer from ${baseUrl}: ${message.trim()}. ${advice}`);
  const what = inside ? `the connection broke inside the answer (${message})` : message;
  return new ModelError('unreachable', `No answer from ${baseUrl}: ${what}.`, { retry: true });
}
