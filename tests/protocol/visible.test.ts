import { expect, test } from 'vitest';
import { escapeInvisible, escapeMisleading } from '../../src/base/strings.ts';

test.each([
  ['\u202e', '\\u202e'],
  ['\u2066', '\\u2066'],
  ['\u200b', '\\u200b'],
  ['\u00ad', '\\u00ad'],
  ['\u061c', '\\u061c'],
  ['\u3164', '\\u3164'],
  ['\u2800', '\\u2800'],
  ['\u2028', '\\u2028'],
  ['\ufeff', '\\ufeff'],
  ['\u{e0041}', '\\udb40\\udc41'],
  ['\ud800', '\\ud800'],
])('%j is written out wherever a text is shown', (char, written) => {
  expect(escapeInvisible(`rm ${char}x`)).toBe(`rm ${written}x`);
  expect(escapeMisleading(`rm ${char}x`)).toBe(`rm ${written}x`);
});

test('what a person decides about has no control, joiner or variant in it that they do not see', () => {
  expect(escapeInvisible('a\u001b[2Kb\rc\u0085')).toBe('a\\u001b[2Kb\\u000dc\\u0085');
  expect(escapeInvisible('pay\u200dpal ❤\ufe0f')).toBe('pay\\u200dpal ❤\\ufe0f');
  expect(escapeInvisible('a\tb\n名前 é 👍')).toBe('a\tb\n名前 é 👍');
});

test('what a person reads keeps its emoji, its scripts and the colours of a terminal', () => {
  const text = '\u001b[31m❤\ufe0f 👩\u200d💻 می\u200cخواهم\u001b[0m';
  expect(escapeMisleading(text)).toBe(text);
  expect(escapeMisleading('pay\u200dpal')).toBe('pay\\u200dpal');
});

test('JSON in which everything can be seen reads back as it was', () => {
  const value = { args: '{"command":"a\u202eb\u{e0041}\u007f\ud800"}' };
  const json = escapeInvisible(JSON.stringify(value, null, 2));
  expect(JSON.parse(json)).toEqual(value);
  expect(json).not.toMatch(/[\u202e\u007f]/u);
});
