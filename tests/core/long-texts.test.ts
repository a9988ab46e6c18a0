import { expect, test } from 'vitest';
import { detectStepCompletion } from '../../src/core/completion/index.ts';
import { parseStepDeclarations } from '../../src/core/declarations.ts';
import { classifyMessage } from '../../src/core/intent/index.ts';
import { readSigns } from '../../src/core/signs.ts';

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
  expect(classifyMessage(text, { planStatus: 'paused' })).toBeDefined();
});
