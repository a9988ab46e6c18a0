import { expect, test } from 'vitest';
import { assertsPhrase } from '../../src/core/text/prose.ts';

test.each([
  ['stopped with an error on page two', 'error'],
  ['2 errors found', 'error'],
  ['Not sure about the rest, error on page two', 'error'],
  ['no data because of an error', 'error'],
  ['No warnings. One error.', 'error'],
  ['10 errors', 'errors'],
  ['errors: 12', 'errors'],
  ['数据有矛盾，需要深入研究', '需要深入'],
  ['第一页没有问题，第二页需要深入', '需要深入'],
  ['Status: PASSED', 'passed'],
  ['needs deep research', 'needs deep'],
])('"%s" says "%s"', (text, wanted) => {
  expect(assertsPhrase(text, wanted)).toBe(true);
});

test.each([
  ['finished without error', 'error'],
  ['no errors', 'error'],
  ['No fatal errors were found', 'error'],
  ['there were no warnings or errors', 'error'],
  ['did not find any errors', 'error'],
  ["didn't see an error", 'error'],
  ['0 errors', 'errors'],
  ['errors: 0', 'errors'],
  ['Errors: none', 'errors'],
  ['the error was not found', 'error'],
  ['error-free', 'error'],
  ['errors were not found', 'error'],
  ['if an error occurs, stop', 'error'],
  ['is there an error?', 'error'],
  ['terror in the streets', 'error'],
  ['不需要深入', '需要深入'],
  ['数据一致，无需深入', '需要深入'],
  ['并不需要深入研究', '需要深入'],
  ['是否需要深入还不清楚', '需要深入'],
  ['需要深入吗', '需要深入'],
  ['没有发现任何错误', '错误'],
  ['错误：无', '错误'],
  ['错误数：0', '错误'],
  ['', 'error'],
  ['anything', ' '],
])('"%s" does not say "%s"', (text, wanted) => {
  expect(assertsPhrase(text, wanted)).toBe(false);
});
