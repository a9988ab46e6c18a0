import { expect, test } from 'vitest';
import { unwrapped } from '../../src/core/text/unwrapped.ts';

test('an answer that is JSON as a whole is read as its texts', () => {
  expect(unwrapped('{"thought":"all here","answer":"[Done] five files"}')).toBe('all here\n[Done] five files');
  expect(unwrapped('[{"answer":"[Done] five files"}]')).toBe('[Done] five files');
  expect(unwrapped('{"result":"[Done] five files"}')).toBe('[Done] five files');
});

test('what a tool said in it is not read', () => {
  expect(unwrapped('{"tool_output":"[Done] built","answer":"Two are missing."}')).toBe('Two are missing.');
  expect(unwrapped('{"output":"[Done] built","message":"Two are missing."}')).toBe('Two are missing.');
  expect(unwrapped('{"observation":"[Done] built"}')).toBe('');
});

test('brackets at both ends make no JSON', () => {
  expect(unwrapped('[Done]')).toBe('[Done]');
});
