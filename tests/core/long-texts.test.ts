import { expect, test } from 'vitest';
import { filesInDescription } from '../../src/core/detect/plan-vocabulary.ts';
import { detectStepCompletion } from '../../src/core/detect/step-completion.ts';
import { parseStepDeclarations, readStatusTags } from '../../src/core/detect/step-tags.ts';
import { classifyIntent } from '../../src/core/intent/intent.ts';
import { filesNamedIn } from '../../src/core/messages/replies.ts';
import { parseEditedPlan } from '../../src/core/plan/edited-plan.ts';
import { PLAN_BOUNDS } from '../../src/protocol/session/plan-edit.ts';
import { fillPlaceholders } from '../../src/protocol/templates/template.ts';
import { everything } from '../support/all.ts';

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

/** The square of it is still minutes, which no test has. */
const LENGTH = everything ? 1_000_000 : 200_000;

test.each(UNITS)('a very long text of nothing but %j is read to its end', (unit) => {
  const text = unit.repeat(LENGTH / unit.length);
  const steps = ['Download the files', 'Extract the data'];
  expect(
    detectStepCompletion(text, { iterationInStep: 1, steps, stepIndex: 0, args: [text], tools: ['shell'], final: true })
      .tier,
  ).not.toBe('marker');
  expect(parseStepDeclarations(text)).toEqual([]);
  expect(readStatusTags(`${text}[Failed: ${text}] ${text}`)).toBeDefined();
  // A step is as hostile as who wrote it, and no longer than it may be.
  const long = text.slice(0, PLAN_BOUNDS.description);
  const hostile = { iterationInStep: 1, steps: [long, `${long}x`, long], stepIndex: 0, final: false };
  expect(detectStepCompletion(text.slice(0, 1000), { ...hostile, args: [], tools: [] })).toBeDefined();
  expect(filesInDescription(text)).toBeDefined();
  expect(parseEditedPlan(text)).toHaveProperty('fault');
  expect(fillPlaceholders(text, () => '')).toBeDefined();
  expect(filesNamedIn(text, undefined)).toBeDefined();
  expect(classifyIntent(text, { planStatus: 'paused' })).toBeDefined();
});
