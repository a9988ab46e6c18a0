import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { findKnownPrices } from '../../src/models/answer/token-usage.ts';
import { PRICE_LIST } from '../../src/protocol/settings/budgets.ts';

test('common models at their own address have a list price; a model at an unknown address has none', async () => {
  const known = await findKnownPrices('https://api.openai.com/v1', 'gpt-4o-2024-08-06');
  expect(known).toEqual({ input: 2.5, output: 10, cached: 1.25 });
  expect(await findKnownPrices('http://127.0.0.1:11434/v1', 'gpt-4o')).toBeUndefined();
  expect(await findKnownPrices('https://api.openai.com/v1', 'no such model')).toBeUndefined();
});

test('the list of prices is the installed one, so that its date is true', () => {
  const { version } = JSON.parse(readFileSync(`node_modules/${PRICE_LIST.package}/package.json`, 'utf8'));
  expect(version).toBe(PRICE_LIST.version);
});
