import { expect, test } from 'vitest';
import { detectStepCompletion } from '../../src/core/detect/step-completion.ts';

const ENGLISH = ['Find the reports', 'Download them', 'Draw the chart'];
const CHINESE = ['查找报告', '下载报告', '绘制图表'];

const closes = (text: string, steps = ENGLISH, stepIndex = 2): boolean =>
  detectStepCompletion(text, {
    iterationInStep: 2,
    steps,
    stepIndex,
    tools: [],
    args: [],
    toolsInStep: [['shell'], ['write_file']],
    final: true,
  }).done;

test.each([
  'I was unable to draw the chart: the data file is empty.',
  'The chart could not be drawn because matplotlib is missing.',
  'The site needs a login.',
  'The site requires a login, so the numbers are not available.',
  'I need the password of the database to go on.',
  'Sorry, the build fails with 3 errors.',
  'The tests all passed successfully except two, which are not done.',
])('an obstacle reported on the last step does not complete the plan: %j', (text) => {
  expect(closes(text)).toBe(false);
});

test.each([
  'Let me draw the chart now.',
  'I will now draw the chart.',
  'Next, I need to run the script to draw the chart.',
  'Working on the chart.',
])('an intention stated on the last step does not complete the plan: %j', (text) => {
  expect(closes(text)).toBe(false);
});

test.each([
  '我需要数据库的密码才能继续。',
  '无法绘制图表：数据文件是空的。',
  '现在开始绘制图表。',
  '图表还没画好，缺少数据。',
])('nor do they in Chinese: %j', (text) => {
  expect(closes(text, CHINESE)).toBe(false);
});

test('a report completes it', () => {
  expect(closes('The chart is in chart.svg.')).toBe(true);
  expect(closes('The first run failed, so I mended the script.\nThen it ran.\nAll is well.\nIt is in chart.svg.')).toBe(
    true,
  );
  expect(closes('图表已绘制，保存在 chart.svg。', CHINESE)).toBe(true);
});

test('everything but a later step is not the end of this one', () => {
  expect(closes('All reports are downloaded. Everything is done except the chart.', ENGLISH, 1)).toBe(false);
});
