import { describe, expect, test } from 'vitest';
import { detectStepCompletion, type StepTurn } from '../../src/core/detect/step-completion.ts';

/** The same scenes in three scripts: what is true in English must be true in Chinese. */
const SCRIPTS = [
  {
    script: 'English',
    steps: ['Download the PDF files', 'Extract the financial data', 'Draw the revenue chart'],
    next: 'All five files are here. Now let me extract the financial data.',
    own: 'Now let me download the remaining PDF files.',
    skips: 'Next, I will draw the revenue chart.',
    byNumber: 'Step 1 is done.',
    onward: 'Step 1 complete, moving on to step 2.',
    title: '## Step 2: Extract the financial data',
    announced: 'This part works. Moving on to the next step.',
    retry: 'Now let me retry the download.',
    denied: 'Not everything is here yet, so I cannot extract the data.',
    closed: 'The chart is drawn and saved as chart.svg. All three steps are complete.',
    asks: 'Which year should the chart show?',
    assent: 'ok',
  },
  {
    script: 'simplified Chinese',
    steps: ['下载PDF文件', '提取财务数据', '绘制收入图表'],
    next: '五个文件都在了。现在提取财务数据。',
    own: '现在下载剩下的PDF文件。',
    skips: '接下来绘制收入图表。',
    byNumber: '第一步完成。',
    onward: '步骤1完成，现在进入步骤2。',
    title: '## 步骤 2：提取财务数据',
    announced: '这部分没问题。现在开始下一步。',
    retry: '现在让我重试下载。',
    denied: '文件还没有齐，现在还不能提取数据。',
    closed: '图表已绘制并保存为 chart.svg。三个步骤全部完成。',
    asks: '图表应该显示哪一年？',
    assent: '好的',
  },
  {
    script: 'traditional Chinese',
    steps: ['下載PDF檔案', '擷取財務資料', '繪製收入圖表'],
    next: '五個檔案都在了。現在擷取財務資料。',
    own: '現在下載剩下的PDF檔案。',
    skips: '接下來繪製收入圖表。',
    byNumber: '第一步完成。',
    onward: '步驟1完成，現在進入步驟2。',
    title: '## 步驟 2：擷取財務資料',
    announced: '這部分沒問題。現在開始下一步。',
    retry: '現在讓我重試下載。',
    denied: '檔案還沒有齊，現在還不能擷取資料。',
    closed: '圖表已繪製並儲存為 chart.svg。三個步驟全部完成。',
    asks: '圖表應該顯示哪一年？',
    assent: '好的',
  },
];

describe.each(SCRIPTS)('in $script', (texts) => {
  const first: StepTurn = { iterationInStep: 2, steps: texts.steps, stepIndex: 0 };
  const last: StepTurn = { iterationInStep: 1, steps: texts.steps, stepIndex: 2, tools: [], final: true };

  test('an intention in the words of a later step closes this one and names that one', () => {
    expect(detectStepCompletion(texts.next, first)).toMatchObject({ done: true, tier: 'transition', advanceTo: 1 });
    expect(detectStepCompletion(texts.skips, first)).toMatchObject({ done: true, advanceTo: 2 });
  });

  test('an intention in its own words leaves the step open', () => {
    expect(detectStepCompletion(texts.own, first).done).toBe(false);
  });

  test('calling a step by its number or title is detected', () => {
    expect(detectStepCompletion(texts.onward, first)).toMatchObject({ done: true, advanceTo: 1 });
    expect(detectStepCompletion(texts.title, first)).toMatchObject({ done: true, advanceTo: 1 });
    expect(detectStepCompletion('[Step: 2]', first).isInDoubt).toBe(true);
  });

  test('announcing the next step needs none of its words', () => {
    expect(detectStepCompletion(texts.announced, first)).toMatchObject({ done: true, tier: 'transition' });
  });

  test('a report by number closes the step it names', () => {
    expect(detectStepCompletion(texts.byNumber, first).done).toBe(true);
    expect(detectStepCompletion(texts.byNumber, { ...first, stepIndex: 1 }).done).toBe(false);
  });

  test('a retry and a denial leave it open', () => {
    expect(detectStepCompletion(texts.retry, first).done).toBe(false);
    expect(detectStepCompletion(texts.denied, first).done).toBe(false);
  });

  test('a closing report ends the last step; a question and a bare assent do not', () => {
    expect(detectStepCompletion(texts.closed, last)).toMatchObject({ done: true, tier: 'transition' });
    expect(detectStepCompletion(texts.asks, last).done).toBe(false);
    expect(detectStepCompletion(texts.assent, last).done).toBe(false);
  });

  test('a failed tool outweighs every sign', () => {
    expect(detectStepCompletion(texts.next, { ...first, lastToolFailed: true })).toMatchObject({
      done: false,
      veto: 'tool_failed',
    });
    expect(detectStepCompletion(texts.closed, { ...last, lastToolFailed: true }).done).toBe(false);
  });
});

const steps = ['Add the parser in parser.ts', 'Add the printer in printer.ts', 'Run the tests'];

test('a silent turn on a file that only a later step names closes this one', () => {
  const facts = { iterationInStep: 2, steps, stepIndex: 0, toolsInStep: [['edit_file'], ['edit_file']] };
  const before = [['src/parser.ts'], ['src/parser.ts']];
  const moved = { ...facts, tools: ['write_file'], args: ['src/printer.ts'], argsInStep: before };
  expect(detectStepCompletion('', moved)).toMatchObject({
    done: true,
    tier: 'transition',
    advanceTo: 1,
    evidence: 'src/printer.ts',
  });
  expect(detectStepCompletion('', { ...moved, args: ['src/parser.ts'] }).done).toBe(false);
});

test('an agent that writes markers needs more than a hint without one', () => {
  const facts: StepTurn = { iterationInStep: 1, steps, stepIndex: 0, tools: ['edit_file'], args: ['src/output.ts'] };
  const text = 'Let me add the printer to the parser.';
  expect(detectStepCompletion(text, facts).done).toBe(true);
  expect(detectStepCompletion(text, { ...facts, markersInRun: true }).done).toBe(false);
});

test('where the calls are known, a step that moves does not time out and one that stands still does', () => {
  const past = (arg: (turn: number) => string): StepTurn => ({
    iterationInStep: 7,
    steps,
    stepIndex: 0,
    tools: ['shell'],
    args: [arg(7)],
    toolsInStep: Array.from({ length: 7 }, () => ['shell']),
    argsInStep: Array.from({ length: 7 }, (_, turn) => [arg(turn)]),
    textsInStep: Array.from({ length: 7 }, () => ''),
  });
  expect(
    detectStepCompletion(
      '',
      past((turn) => `cat part${turn}`),
    ).done,
  ).toBe(false);
  expect(
    detectStepCompletion(
      '',
      past(() => 'cat all'),
    ).tier,
  ).toBe('timeout');
});

test('a plan declared in the same breath is no work on its later steps', () => {
  const text = '[Step] Add the parser in parser.ts\n[Step] Add the printer in printer.ts\n[Step] Run the tests';
  expect(detectStepCompletion(text, { iterationInStep: 0, steps, stepIndex: 0 }).done).toBe(false);
});

test('a report on two steps by number counts for each as it is written', () => {
  const at = (text: string, stepIndex: number) =>
    detectStepCompletion(text, { iterationInStep: 2, steps, stepIndex }).done;
  expect(at('Step 1 is done, step 2 is half way.', 1)).toBe(false);
  expect(at('Step 1 and step 2 are done.', 0)).toBe(true);
  expect(at('Step 1 and step 2 are done.', 1)).toBe(true);
  expect(at('Completed step 2.', 1)).toBe(true);
});
