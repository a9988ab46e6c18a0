import { expect, test } from 'vitest';
import { stepResultOf } from '../../src/core/detect/step-claims.ts';
import { readStatusTags } from '../../src/core/detect/step-tags.ts';

test.each([
  'Test results:\n- login [passed]\n- upload [failed]\nI will mend upload.',
  '- [failed] upload\n- [failed] login',
  '1. [Skipped] login',
  '[  FAILED  ] Suite.Upload (3 ms)\n[  PASSED  ] 12 tests.',
  'Compiling foo.c ... [done]\nLinking ... [failed]',
  'pytest: test_a [skipped], test_b ok.',
  '$ ./build.sh\n[Failed: 3 errors]\n\nI mend them now.',
])('the state of a test or a program in %j is no sign', (text) => {
  expect(readStatusTags(text)).toEqual([]);
});

test.each([
  'See [Failed](https://ci.example/1) for the log.',
  'Jump link [Skip](#main) is in the page.',
  'Set state[blocked] to false.',
  'The step is no longer [Blocked].',
  'I am no longer [Blocked: key missing].',
  '[Blocked: key missing] is not true any more.',
])('a link, an index and an obstacle that is gone, as in %j, are no signs', (text) => {
  expect(readStatusTags(text)).toEqual([]);
});

test.each([
  '[跳过：不需要]吗？',
  '[Skip: too slow]? Or shall I wait?',
  'Is [Done: step_2] right?',
  '[Done: step_2] once the tests pass.',
  '[Done: step_2] is not true yet.',
  '[Done: step_2] later.',
  '[Failed: mirror down] is not final.',
  '如果再失败就 [失败：没有权限]',
])('%j asks, promises or denies, so it is no sign', (text) => {
  expect(readStatusTags(text)).toEqual([]);
});

test('a reason stands in the tag or behind it', () => {
  expect(readStatusTags('[Failed] the site is gone')).toEqual([{ kind: 'failed', reason: 'the site is gone' }]);
  expect(readStatusTags('**[Skipped]** nothing to fetch')).toMatchObject([{ kind: 'skipped' }]);
  expect(readStatusTags('- [Blocked] the site wants a login')).toMatchObject([{ kind: 'blocked' }]);
  expect(readStatusTags('[Blocked] until there is a key')).toEqual([
    { kind: 'blocked', reason: 'until there is a key' },
  ]);
  expect(readStatusTags('I tried all three mirrors. [Failed]')).toEqual([{ kind: 'failed', reason: '' }]);
  expect(readStatusTags('- upload: [Failed: the API answered 403 [code: x]]')).toEqual([
    { kind: 'failed', reason: 'the API answered 403 [code: x]' },
  ]);
  expect(readStatusTags('失败【失败：没有权限】(见日志)')).toEqual([{ kind: 'failed', reason: '没有权限' }]);
});

test.each([
  ['[Step 2 Done]', 'step_2'],
  ['[步骤2完成]', 'step_2'],
  ['[第二步完成]', 'step_2'],
  ['[Done: step_2]', 'step_2'],
  ['[Done: step_2: five links]', 'step_2'],
  ['[Done: 2]', 'step_2'],
  ['[Done: 第2步]', 'step_2'],
  ['[完成：第二步]', 'step_2'],
  ['[Done: Draw the chart]', 'Draw the chart'],
])('%s names the step it closes', (text, step) => {
  expect(readStatusTags(text)).toEqual([{ kind: 'done', step }]);
});

test('a plain marker names no step', () => {
  expect(readStatusTags('[Done] [✅ Done] [完成]')).toEqual([]);
});

test.each(['[Not done] two files left', '[未完成] 缺两个文件', '[Not done: two files left]', '- [incomplete]'])(
  '%s is a sign of its own',
  (text) => {
    expect(readStatusTags(text)).toEqual([{ kind: 'not_done' }]);
  },
);

test.each([
  ['[Done] Five links found.', 'Five links found.'],
  ['Fünf Links gefunden. **[Fertig]**', 'Fünf Links gefunden.'],
  ['Five links found.\n[✅ Step 2 done]', 'Five links found.'],
  ['五つのリンクが見つかった。【完了】', '五つのリンクが見つかった。'],
  ['[Step 2 Done] Five links in [1].', 'Five links in [1].'],
  ['- [Step 3] Draw the chart\nFive links found. [Done]', 'Five links found.'],
  ['Fetch the pages: 5 fetched [Done: see pages.txt]', '5 fetched see pages.txt'],
])('the tag that closes a step, in any language and form, is no part of its result: %j', (text, result) => {
  expect(stepResultOf({ text, calls: [] }, { description: 'Fetch the pages' })).toBe(result);
});
