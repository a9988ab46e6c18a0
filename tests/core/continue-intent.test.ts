import { expect, test } from 'vitest';
import { z } from 'zod';
import { classifyIntent } from '../../src/core/intent/intent.ts';
import { casesOf } from './case-file.ts';

const Input = z.strictObject({ text: z.string(), planStatus: z.string().nullable() });
const Expected = z.strictObject({ kind: z.enum(['continue', 'task']), rest: z.string().optional() });

for (const one of casesOf('continue-intent', Input, Expected)) {
  test(one.fact, () => {
    const { kind, rest } = classifyIntent(one.input.text, one.input);
    expect(kind === 'continue' ? kind : 'task').toBe(one.expect.kind);
    if (one.expect.kind === 'continue') expect(rest).toBe(one.expect.rest);
  });
}

const paused = { planStatus: 'paused' };

test('a waiting, failed or cancelled plan goes on at the word; other plans take it as a task', () => {
  for (const planStatus of ['waiting', 'failed', 'cancelled'])
    expect(classifyIntent('继续', { planStatus }).kind).toBe('continue');
  for (const planStatus of ['running', 'completed', undefined])
    expect(classifyIntent('继续', { planStatus }).kind).toBe('task');
});

test('the word with a link needs no comma before the instruction', () => {
  expect(classifyIntent('continue with the summary only', paused)).toMatchObject({
    kind: 'continue',
    rest: 'with the summary only',
  });
  expect(classifyIntent('請繼續，謝謝', paused)).toMatchObject({ kind: 'continue' });
});

test('the same letters in another phrase do not resume', () => {
  for (const text of [
    'resume.pdf is outdated',
    'continue-on-error is broken',
    'Resume writing tips',
    '恢复数据库',
    'continue?',
    '继续吗',
    'Proceedings of 2023',
  ])
    expect(classifyIntent(text, paused).kind, text).toBe('task');
});
