import { expect, test } from 'vitest';
import { detectStepCompletion } from '../../src/core/completion/index.ts';
import { detectionCases } from './detection-cases.ts';

detectionCases('markers');

const closes = (text: string): boolean => detectStepCompletion(text, { iterationInStep: 0 }).tier === 'marker';

test('what the sentence before the marker says of other things does not reach it', () => {
  for (const text of [
    'Used sed to add the header. [Done]',
    'I used a script to add the header [Done]',
    'If a page failed it was fetched again. [Done]',
    'It does not fail any more. [Done]',
    'Nothing was missing, no errors [Done]',
    '没有遗漏，全部保存 [完成]',
    'I will write the summary next. [Done]',
    '[Done] When I ran the tests they passed.',
    '[Step 2 Done]',
    '步骤[完成]',
  ])
    expect(closes(text), text).toBe(true);
});

test('talk about the marker is not the marker', () => {
  for (const text of [
    'The [Done] marker comes later',
    'Reply with [Done] when you are ready',
    "I'll mark it [Done] tomorrow",
    'If all five exist: [Done]',
    '如果全部通过，[完成]',
    '[Done] once the tests pass',
    '[Done]? Not sure',
    '[完成]了吗',
    'status[done]',
    "Say '[Done]' at the end",
    '「[完成]」',
  ])
    expect(closes(text), text).toBe(false);
});
