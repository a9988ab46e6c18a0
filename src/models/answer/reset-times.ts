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
