/** What a refusal says: that the request is longer than the model's window, how large that is, how long to wait. */

/**
 * How endpoints say it: OpenAI, vLLM, SGLang, llama.cpp, Ollama, LM Studio, Anthropic, Bedrock, Gemini, xAI, Mistral,
 * Moonshot, MiniMax, DashScope, Groq, Copilot, Fireworks, Cerebras, TGI, z.ai.
 */
const ABOUT_LENGTH: readonly RegExp[] = [
  /context[_ -]?(?:length|window|size|limit)|maximum context|model_context_window/i,
  /(?:prompt|input|request|conversation|messages?|text|query)\b.{0,40}\b(?:is|are|was|were)? ?too (?:long|large)/i,
  /too many (?:input |prompt |total )?tokens|too large for model|token limit exceeded|exceeded (?:the )?(?:model )?token limit/i,
  /(?:maximum|max|allowed).{0,20}\b(?:prompt|input|sequence)[_ ]?(?:length|tokens?)|input length|prompt length|input_tokens.{0,20}exceed/i,
  /(?:token count|tokens?|length).{0,60}(?:exceed|longer than|greater than|larger than|more than).{0,60}(?:limit|maximum|allowed|length|\d{4,})/i,
  /reduce (?:the length of|your (?:message|prompt|input)|the (?:message|prompt|input))|(?:shorten|truncate) (?:the|your) (?:prompt|input|messages)/i,
  /inputs? tokens \+|`?max_new_tokens`? must be|range of input length|上下文|输入(?:长度|过长)|超过.{0,12}(?:最大|限制)/i,
];
/** Limits on the answer, or on how many tokens a minute, say similar things. */
const ABOUT_ANSWER = /max_(?:completion_|output_)?tokens|maximum (?:number of )?(?:output|completion) tokens/i;
const PER_MINUTE = /per (?:min|minute|hour|day)\b|\b(?:TPM|RPM)\b|rate.?limit/i;

/** Whether a refusal with this status, or this implied one, is about the length of the request. */
export function isAboutLength(words: string, status: number | undefined): boolean {
  if (status === 413) return true;
  if (status === 429) return /request too large/i.test(words);
  if (status !== undefined && ![400, 422, 500, 503].includes(status)) return false;
  if (PER_MINUTE.test(words)) return /request too large/i.test(words);
  if (ABOUT_ANSWER.test(words) && !/context|prompt|\binputs?\b/i.test(words)) return false;
  return ABOUT_LENGTH.some((about) => about.test(words));
}

const NUMBER = String.raw`\(?\[?(?:\d{1,5}, ?)?(\d[\d,_]{2,10})`;
const WINDOW: readonly RegExp[] = [
  /"n_ctx":\s*(\d{3,9})/,
  new RegExp(
    `(?:context (?:length|window|size|limit)|prompt length|input length|number of tokens allowed|token limit|maximum context)(?: (?:is|of|should be|exceeded))*(?: only)?:? ?${NUMBER}`,
    'i',
  ),
  new RegExp(`(?:limit of|limit:?|> ?|at most|no more than|up to|must be <=) ?${NUMBER}`, 'i'),
  new RegExp(String.raw`${NUMBER} (?:maximum|max)\b`, 'i'),
];
/** A smaller number is no window. */
const SMALLEST_WINDOW = 256;

/** The window in tokens that a refusal states; else, of two large numbers in it, the smaller one. */
export function statedWindow(words: string): number | undefined {
  for (const form of WINDOW) {
    const found = toNumber(form.exec(words)?.[1]);
    if (found >= SMALLEST_WINDOW) return found;
  }
  const numbers = [...words.matchAll(/(?<![\w.-])\d[\d,_]{3,10}(?![\w.-])/g)].map(([text]) => toNumber(text));
  const large = numbers.filter((one) => one >= 1000);
  return large.length >= 2 ? Math.min(...large) : undefined;
}

const toNumber = (text: string | undefined): number => Number((text ?? '').replace(/[,_]/g, '') || Number.NaN);

/** The longest wait that is believed, in ms: a week. */
const MAX_WAIT_MS = 7 * 86_400_000;

/**
 * How long an endpoint that refuses for a limit asks to wait, in ms; undefined if it does not say. It is looked for in
 * the headers, whatever their form, then in the body. A date is compared with the answer's own `Date`, so that a wrong
 * clock on either side does no harm.
 */
export function resetDelayMs(headers: Headers | undefined, body: string, now = Date.now()): number | undefined {
  const sent = Date.parse(headers?.get('date') ?? '');
  const at = Number.isNaN(sent) ? now : sent;
  const wait = retryAfterMs(headers, at) ?? usedUpLimitMs(headers, at) ?? waitInBody(body, at);
  return wait === undefined ? undefined : Math.min(Math.max(0, wait), MAX_WAIT_MS);
}

/** `Retry-After`: seconds or a date. `retry-after-ms` is OpenAI's more precise form. */
function retryAfterMs(headers: Headers | undefined, at: number): number | undefined {
  const fine = Number.parseFloat(headers?.get('retry-after-ms') ?? '');
  return fine >= 0 ? fine : waitOf(headers?.get('retry-after') ?? '', at);
}

/** Limits that come with what remains of them (OpenAI, Anthropic, Groq); the reset of one that is used up counts. */
function usedUpLimitMs(headers: Headers | undefined, at: number): number | undefined {
  const waits: number[] = [];
  headers?.forEach((value, name) => {
    if (!/ratelimit/i.test(name) || !/reset/i.test(name)) return;
    const remaining = headers.get(name.replace(/reset/i, 'remaining'));
    const wait = remaining === null || Number(remaining) <= 0 ? waitOf(value, at) : undefined;
    if (wait !== undefined) waits.push(wait);
  });
  return waits.length > 0 ? Math.max(...waits) : undefined;
}

const DURATION = '(?:\\d+(?:\\.\\d+)?\\s*(?:milliseconds?|ms|days?|d|hours?|h|minutes?|min|m|seconds?|sec|s)\\s*)+';
const DATE = '\\d{4}-\\d\\d-\\d\\d[T ]\\d\\d:\\d\\d(?::\\d\\d(?:\\.\\d+)?)?(?:Z|[+-]\\d\\d:?\\d\\d)?';
/** Google's `retryDelay`, the fields of several proxies, and words such as "Please try again in 6m0s." */
const IN_BODY = [
  new RegExp(`"(?:retry_?delay|retry_?after|resets?_in)(?:_seconds)?"\\s*:\\s*"?(${DURATION}|\\d+(?:\\.\\d+)?)`, 'i'),
  new RegExp(`"resets?_?(?:at|time)"\\s*:\\s*"?(${DATE}|\\d{9,13})`, 'i'),
  new RegExp(`(?:again|retry|resets?|available|wait)(?: \\w+)? (?:in|after|for):? (${DURATION})`, 'i'),
  new RegExp(`(?:again|resets?|available|until)(?: (?:at|on))?:? (${DATE})`, 'i'),
];

function waitInBody(body: string, at: number): number | undefined {
  for (const form of IN_BODY) {
    const found = form.exec(body)?.[1];
    const wait = found === undefined ? undefined : waitOf(found, at);
    if (wait !== undefined) return wait;
  }
  return undefined;
}

/** A length of time (`7`, `6m0s`, `120ms`) or a time (a date, seconds or milliseconds since 1970), as a wait in ms. */
function waitOf(text: string, at: number): number | undefined {
  const given = text.trim();
  if (/^\d+(?:\.\d+)?$/.test(given)) {
    const value = Number(given);
    // No limit lasts for ten years: such a number is a time.
    if (value > 1e11) return value - at;
    return value > 3e8 ? value * 1000 - at : value * 1000;
  }
  if (new RegExp(`^(?:${DURATION})$`, 'i').test(given)) return durationOf(given);
  // Without an offset it is most likely UTC.
  const time = Date.parse(/^\d{4}-\d\d-\d\d[T ][\d:.]+$/.test(given) ? `${given.replace(' ', 'T')}Z` : given);
  return Number.isNaN(time) ? undefined : time - at;
}

function durationOf(text: string): number {
  const parts = text.matchAll(/(\d+(?:\.\d+)?)\s*(ms|mill|d|h|m|s)/gi);
  const unitMs = (unit: string) =>
    ({ ms: 1, mill: 1, d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000 })[unit.toLowerCase()] ?? 0;
  return Array.from(parts, ([, value, unit = '']) => Number(value) * unitMs(unit)).reduce((sum, ms) => sum + ms, 0);
}
