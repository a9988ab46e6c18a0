import { expect, test } from 'vitest';
import { resetDelayMs } from '../../src/models/answer/refusal-facts.ts';

const SENT = Date.parse('2030-03-05T10:00:00Z');
const DATED = { date: 'Tue, 05 Mar 2030 10:00:00 GMT' };

test.each<[string, Record<string, string>, string, number | undefined]>([
  ['seconds', { 'retry-after': '7' }, '', 7000],
  ['milliseconds', { 'retry-after-ms': '250', 'retry-after': '1' }, '', 250],
  ['a date', { 'retry-after': 'Tue, 05 Mar 2030 10:01:30 GMT' }, '', 90_000],
  [
    'OpenAI, the limit that is used up',
    {
      'x-ratelimit-remaining-requests': '0',
      'x-ratelimit-reset-requests': '6m0s',
      'x-ratelimit-remaining-tokens': '9',
      'x-ratelimit-reset-tokens': '1h',
    },
    '',
    360_000,
  ],
  [
    'OpenAI, none is used up',
    { 'x-ratelimit-remaining-requests': '3', 'x-ratelimit-reset-requests': '6m0s' },
    '',
    undefined,
  ],
  [
    'Anthropic',
    { 'anthropic-ratelimit-tokens-remaining': '0', 'anthropic-ratelimit-tokens-reset': '2030-03-05T15:10:00Z' },
    '',
    18_600_000,
  ],
  [
    'OpenRouter, ms since 1970',
    { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(SENT + 60_000) },
    '',
    60_000,
  ],
  ['seconds since 1970', { 'x-ratelimit-reset': String(SENT / 1000 + 60) }, '', 60_000],
  ['words', {}, 'Rate limit reached. Please try again in 1m12.5s. Visit x', 72_500],
  ['words of ms', {}, 'Please try again in 120ms.', 120],
  ['long words', {}, 'Your quota will be available in 3 hours 10 minutes', 11_400_000],
  ['a time in words', {}, 'Limit reached; resets at 2030-03-05 13:10:00 UTC', 11_400_000],
  ['Google', {}, '{"details":[{"@type":"…RetryInfo","retryDelay":"34s"}]}', 34_000],
  ['a field', {}, '{"type":"usage_limit_reached","resets_at":1898935800}', 1_898_935_800_000 - SENT],
  ['a field of seconds', {}, '{"resets_in_seconds": 90}', 90_000],
  ['a time that has passed', { 'x-ratelimit-reset': '2030-03-05T09:00:00Z' }, '', 0],
  ['more than a week', { 'retry-after': '9999999' }, '', 604_800_000],
  ['nothing', {}, 'You exceeded your current quota.', undefined],
])('%s: the wait is found', (_, headers, body, wanted) => {
  expect(resetDelayMs(new Headers({ ...DATED, ...headers }), body, SENT - 86_400_000)).toBe(wanted);
});
