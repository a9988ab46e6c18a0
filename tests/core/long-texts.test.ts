import { expect, test } from 'vitest';
import { filesOfStep } from '../../src/core/completion/files.ts';
import { detectStepCompletion } from '../../src/core/completion/index.ts';
import { parseStepDeclarations } from '../../src/core/declarations.ts';
import { readEdit } from '../../src/core/edit/read.ts';
import { classifyMessage } from '../../src/core/intent/index.ts';
import { namedFiles } from '../../src/core/offered.ts';
import { readSigns } from '../../src/core/signs.ts';
import { PLAN_BOUNDS } from '../../src/protocol/plan.ts';
import { filled } from '../../src/protocol/template/placeholders.ts';

/** Shapes on which a careless pattern takes the square of the length: hours for these, milliseconds for a sound one. */
const UNITS = [
  ' ',
  '*',
  '[',
  '`',
  '"',
  "'",
  '!',
  '_',
  ')',
  '# ',
  '> ',
  '- ',
  '1. ',
  '第一',
  'step 1 ',
  '[Done',
  'not ',
  '继续',
  '…"',
  '\t.',
  '1.',
  'a.b/',
  '1.a',
  '\\\\',
  '{{',
  '：',
  'now ',
  '|',
];

test.each(UNITS)('a text of a million %j is read to its end', (unit) => {
  const text = unit.repeat(1_000_000 / unit.length);
  const steps = ['Download the files', 'Extract the data'];
  expect(
    detectStepCompletion(text, { iterationInStep: 1, steps, stepIndex: 0, args: [text], tools: ['shell'], final: true })
      .tier,
  ).not.toBe('marker');
  expect(parseStepDeclarations(text)).toEqual([]);
  expect(readSigns(`${text}[Failed: ${text}] ${text}`)).toBeDefined();
  // A step is as hostile as who wrote it, and no longer than it may be.
  const long = text.slice(0, PLAN_BOUNDS.description);
  const hostile = { iterationInStep: 1, steps: [long, `${long}x`, long], stepIndex: 0, final: false };
  expect(detectStepCompletion(text.slice(0, 1000), { ...hostile, args: [], tools: [] })).toBeDefined();
  expect(filesOfStep(text)).toBeDefined();
  expect(readEdit(text)).toHaveProperty('fault');
  expect(filled(text, () => '')).toBeDefined();
  expect(namedFiles(text, undefined)).toBeDefined();
  expect(classifyMessage(text, { planStatus: 'paused' })).toBeDefined();
});
