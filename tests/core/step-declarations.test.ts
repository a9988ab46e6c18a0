import { expect, test } from 'vitest';
import { z } from 'zod';
import { MAX_OPEN_STEPS, parseStepDeclarations } from '../../src/core/detect/step-tags.ts';
import { casesOf } from './case-file.ts';

const Input = z.strictObject({ text: z.string(), existing: z.array(z.string()).optional() });
const Added = z.strictObject({ added: z.array(z.string()) });

for (const one of casesOf('step-declarations', Input, Added)) {
  test(one.fact, () => {
    expect(parseStepDeclarations(one.input.text, one.input.existing)).toEqual(one.expect.added);
  });
}

const many = (count: number): string => Array.from({ length: count }, (_, n) => `[Step] Number ${n}`).join('\n');

test('a plan takes fifty steps and not one more', () => {
  expect(parseStepDeclarations(many(80))).toHaveLength(MAX_OPEN_STEPS);
  expect(parseStepDeclarations(many(80), ['a', 'b'])).toHaveLength(MAX_OPEN_STEPS - 2);
});

test('a colon after the tag, a checkbox and a count are dress, not description', () => {
  expect(parseStepDeclarations('- [ ] [Step 1/3]: Find\n**[Step 2/3]:** Fetch\n[ステップ] 描く')).toEqual([
    'Find',
    'Fetch',
    '描く',
  ]);
});

test('a step quoted from someone else is not declared', () => {
  expect(parseStepDeclarations('> [Step] Find the reports')).toEqual([]);
});

test('code inside a description stays in it', () => {
  expect(parseStepDeclarations('[Step] Run `npm test`')).toEqual(['Run `npm test`']);
});

test('a step whose words stand in the brackets is declared; a status is none', () => {
  expect(parseStepDeclarations('[Step: Find the links]\n- **【步骤：下载文件】**\n[Step: Complete the form]')).toEqual([
    'Find the links',
    '下载文件',
    'Complete the form',
  ]);
  expect(parseStepDeclarations('[Step: 2] Fetch\n[Step: 3. Draw]\n[步骤：4、下载]')).toEqual(['Fetch', 'Draw', '下载']);
  const statuses =
    '[Step: 2]\n[Step: 2/3]\n[步骤：2]\n[Step: done]\n[Step 2: Done]\n[Step 2: Download]\n[Step: in progress]\n[步骤：已完成]\n[Step: ✅ Done]';
  expect(parseStepDeclarations(statuses)).toEqual([]);
});
