import { expect, test } from 'vitest';
import { textOfJsonAnswer } from '../../src/core/detect/answer-reading.ts';

test('an answer that is JSON as a whole is read as its texts', () => {
  expect(textOfJsonAnswer('{"thought":"all here","answer":"[Done] five files"}')).toBe('all here\n[Done] five files');
  expect(textOfJsonAnswer('[{"answer":"[Done] five files"}]')).toBe('[Done] five files');
  expect(textOfJsonAnswer('{"result":"[Done] five files"}')).toBe('[Done] five files');
});

test('what a tool said in it is not read', () => {
  expect(textOfJsonAnswer('{"tool_output":"[Done] built","answer":"Two are missing."}')).toBe('Two are missing.');
  expect(textOfJsonAnswer('{"output":"[Done] built","message":"Two are missing."}')).toBe('Two are missing.');
  expect(textOfJsonAnswer('{"observation":"[Done] built"}')).toBe('');
});

test('brackets at both ends make no JSON', () => {
  expect(textOfJsonAnswer('[Done]')).toBe('[Done]');
});
