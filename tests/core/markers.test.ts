import { expect, test } from 'vitest';
import { detectStepCompletion } from '../../src/core/detect/step-completion.ts';
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

test.each([
  'I have not yet reached [Done].',
  'I cannot honestly call this [Done].',
  'It would be wrong to mark this step [Done].',
  'This is almost [Done].',
  'We are nearly [Done] here, one file left.',
  'Partially [Done]; two files are left.',
  'Far from [Done].',
  'No [Done] yet: two files are missing.',
  '并没有真正[完成]',
  '不能算[完成]，还有两个文件',
  '离 [完成] 还差一个文件',
  '即将[完成]，还差一个文件',
  '部分[完成]，还剩两个',
])('what is denied or only near is not done: %j', (text) => {
  expect(closes(text)).toBe(false);
});

test.each([
  'Once everything is downloaded: [Done]',
  'When all five are here → [Done]',
  'After the tests pass, [Done].',
  '测试通过后：[完成]',
  '等所有文件下载后才算[完成]',
  '[Done] will follow once the last file is here.',
  '[Done] comes after the last file.',
  'Is it [Done] yet?',
  'Is this step [Done] or not? Let me check the folder.',
  '是否已[完成]，我再确认一下',
])('what is conditional, promised or asked is not done: %j', (text) => {
  expect(closes(text)).toBe(false);
});

test.each([
  'Definition of [Done]: all five files exist.',
  'The reviewer wrote [Done] in the issue, but the file is missing.',
  'The endpoint streams tokens and ends with\ndata: [DONE]\nso the parser must handle that.',
  'Compiling foo.c ... [done]',
  '$ ./build.sh\n[DONE] compiled 12 files\n\nThe second file is still missing.',
  'Tool output:\n[Done] 5 files',
  '{"tool_output":"[Done] built","answer":"Two files are still missing."}',
])('the marker of a program, a definition or another person is none: %j', (text) => {
  expect(closes(text)).toBe(false);
});

test.each([
  '[Done: five links found]',
  '[Done – all five]',
  '[✅ Done] five links',
  '\\[Done\\] five links',
  '[{"answer":"[Done] five files"}]',
  '[完成：五个链接]',
  '这部分[完成]',
  '总算[完成]',
  '最后：[完成]',
  'When I ran the tests they passed [Done]',
  '[Done] Shall I go on?',
  '[完成] 要我继续吗？',
])('a marker with its outcome, dress or an offer beside it counts: %j', (text) => {
  expect(closes(text)).toBe(true);
});

test.each(['[Done!]', '[Done: not yet]', '[Done: 3/5]', '[完成：部分]', '[❌ Done]', '[Done: ]'])(
  'a tag that takes its word back or is written otherwise is none: %s',
  (text) => {
    expect(closes(text)).toBe(false);
  },
);
