import { expect, test } from 'vitest';
import { detectStepCompletion } from '../../src/core/detect/step-completion.ts';

const ENGLISH = ['Find the reports', 'Download them', 'Draw the chart'];
const CHINESE = ['查找报告', '下载报告', '绘制图表'];

/** A turn on the second step, with calls like those before it. */
const verdict = (text: string, steps: readonly string[] = ENGLISH) =>
  detectStepCompletion(text, {
    iterationInStep: 2,
    steps,
    stepIndex: 1,
    tools: ['shell'],
    args: ['curl -O x'],
    toolsInStep: [['shell'], ['write_file']],
    argsInStep: [['curl y'], ['z']],
  });

test.each([
  'Where we are:\n1. Find the reports [Done]\n2. Download them [In progress]\n3. Draw the chart [Pending]',
  'Where we are:\n1. Reports [Done]\n2. Download [In progress]',
  '| step | state |\n|---|---|\n| Find the reports | [Done] |\n| Download them | [Running] |',
  '| [Done] | Find the reports |\n| [Running] | Download them |',
  '- [done] Find the reports\n- [ ] Download them\n- [ ] Draw the chart\n\nStill downloading.',
  '[Step 1 Done] Step 2 is half way.',
  '[Done: step_1] Still downloading.',
  '[Done: Find the reports] Still downloading.',
  'Step 1: five links [Done]',
  '[Done: fetch_links] Still downloading.',
])('a marker that speaks of another step leaves this one open: %j', (text) => {
  expect(verdict(text).done).toBe(false);
});

test('the same holds in Chinese', () => {
  expect(verdict('【步骤1完成】 继续下载第二个文件', CHINESE).done).toBe(false);
  expect(verdict('1. 查找报告 [完成]\n2. 下载报告 [进行中]', CHINESE).done).toBe(false);
  expect(verdict('文件都下载好了。[完成]', CHINESE).tier).toBe('marker');
});

test.each([
  '| Download them | [Done] |',
  '2. Download them [Done]',
  '1. **[DONE]** – five links',
  '[Step 2 Done]',
  '- [Done] Download them',
  'Find the reports [Done]\nDownload them [Done]',
  '[Done] Five files. Next: Draw the chart',
  'Five files are here [Done], so the next step is to draw the chart.',
  '[Done: five links found]',
])('a marker of this step closes it, whatever else is named: %j', (text) => {
  expect(verdict(text).tier).toBe('marker');
});

test('a plan that carries its own numbers is called by them', () => {
  const steps = ['Task 4: Find the reports', 'Task 5: Download them'];
  expect(detectStepCompletion('[Step 5 Done]', { iterationInStep: 0, steps, stepIndex: 1 }).tier).toBe('marker');
  expect(detectStepCompletion('[Step 4 Done]', { iterationInStep: 0, steps, stepIndex: 1 }).done).toBe(false);
});
