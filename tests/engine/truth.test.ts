import { describe, expect, test } from 'vitest';
import { type Move, moves, type Rig, type RigOptions, rig, shell } from '../support/rig.ts';

/** A run with declared steps; then what the model says; then it is silent. */
async function run(answers: Move[], options: Partial<RigOptions> & { steps?: string } = {}): Promise<Rig> {
  const steps = options.steps ?? '[Step] Fetch\n[Step] Draw\n[Step] Mail';
  const it = await rig({ script: moves({ text: steps, calls: [shell()] }, ...answers, { hold: true }), ...options });
  await it.say('1.md', 'Fetch, draw and mail');
  await it.pass(300);
  return it;
}

async function say(it: Rig, name: string, text: string): Promise<void> {
  await it.say(name, text);
  await it.pass(300);
}

const statuses = (it: Rig) => it.plan()?.steps.map((step) => step.status);
const plan = (args: object) => ({ name: 'plan', args });
const statusOf = (reply: string | undefined) => /^status: (\w+)$/m.exec(reply ?? '')?.[1];
const check = (what: object): Move => ({
  text: '',
  calls: [plan({ command: 'update', step: 'step_1', done_when: [what] })],
});
const failing: Partial<RigOptions> = { tool: (call) => ({ ok: !call.args.includes('fail'), text: call.args }) };
const broken = { name: 'shell', args: { command: 'fail' } };

describe('an answer speaks of the step the model was asked about', () => {
  test.each(['/plan done step_1', '/plan skip step_1'])(
    '%s while a call is in flight: its [Done] closes no other step',
    async (order) => {
      const it = await run([{ hold: true, next: () => ({ text: 'Fetched all five. [Done]', calls: [shell()] }) }]);
      await say(it, 'p.md', order);
      it.release();
      await it.pass(300);
      expect(statuses(it)?.slice(1)).toEqual(['running', 'pending']);
    },
  );

  test('closed by the tool, then said once more, closes one step', async () => {
    const it = await run([
      { text: '', calls: [plan({ command: 'complete_step', result: 'five links' })] },
      { text: 'All five are fetched. [Done]' },
      { text: 'Drawn as well. [Done]', calls: [shell()] },
    ]);
    expect(statuses(it)).toEqual(['completed', 'completed', 'running']);
    expect(
      it
        .events()
        .filter((event) => event.type === 'step.completed')
        .map((event) => event.type === 'step.completed' && event.result),
    ).toEqual(['five links', 'Drawn as well.']);
  });
});

describe('a failing tool speaks against a claim on either road', () => {
  test.each<[string, Move]>([
    ['complete_step after it', { text: '', calls: [broken, plan({ command: 'complete_step' })] }],
    ['complete_step before it', { text: '', calls: [plan({ command: 'complete_step' }), broken] }],
    [
      '[Done] with a look at the plan behind it',
      { text: 'Fetched. [Done]', calls: [broken, plan({ command: 'get' })] },
    ],
  ])('%s', async (_, move) => {
    const it = await run([move], failing);
    expect(statuses(it)).toEqual(['running', 'pending', 'pending']);
  });

  test('a refused call of the plan tool is no failing tool', async () => {
    const it = await run([
      { text: 'Fetched. [Done]', calls: [shell(), plan({ command: 'complete_step', step: 'step_9' })] },
    ]);
    expect(statuses(it)).toEqual(['completed', 'running', 'pending']);
  });
});

test.each([
  ['[Failed: no access to it]', 'failed', 'not reached: no access to it'],
  ['[Blocked: which account?]', 'waiting', 'blocked'],
  ['`[Failed: x]` is how a failure is marked.', 'done', 'answered'],
])('a run without steps that says %s is %s', async (text, status, reason) => {
  for (const calls of [[], [shell()]]) {
    const it = await rig({ script: moves(...(calls.length > 0 ? [{ calls }] : []), { text }, { text: 'There.' }) });
    await it.say('1.json', '{"text":"get it"}');
    expect(JSON.parse(it.reply('1.json') ?? '')).toMatchObject({ status, reason });
    if (calls.length > 0) expect(it.plan()?.status).toBe(status === 'done' ? 'completed' : status);
    await it.say('2.json', '{"text":"continue"}');
    expect(JSON.parse(it.reply('2.json') ?? '')).toMatchObject({ status: 'done' });
  }
});

describe('the timeout', () => {
  const working = (n: number): Move => ({ text: `[Progress ${n}/9]`, calls: [shell()] });
  test('a step that moves is not assumed done', async () => {
    const it = await run(
      Array.from({ length: 8 }, (_, n) => working(n + 1)),
      { config: { limits: { step_iterations: 3 } } },
    );
    expect(it.types()).not.toContain('step.completed');
  });

  test('a step whose question is answered by writing files is asked again, not assumed done', async () => {
    const writes = (n: number): Move => ({
      text: 'on it',
      calls: [{ name: 'write_file', args: { path: `f${n}`, content: '' } }],
    });
    const it = await run(
      Array.from({ length: 8 }, (_, n) => writes(n)),
      { config: { limits: { step_iterations: 3 } } },
    );
    expect(it.types()).toContain('step.asked');
    expect(it.types()).not.toContain('step.completed');
  });

  test('a step of the session itself that takes longer than limits.step_minutes fails; the others go on', async () => {
    const it = await run([{ text: 'Drawing.', calls: [shell()] }], {
      config: { limits: { step_minutes: 1 } },
      tool: (_call, n) => (n === 0 ? 'hold' : { ok: true, text: 'x' }),
    });
    await it.pass(61_000);
    it.release();
    await it.pass(300);
    expect(it.plan()?.steps[0]?.error).toContain('longer than limits.step_minutes (1), which is 60 s');
    expect(statuses(it)).toEqual(['failed', 'running', 'pending']);
  });

  test('after an undo it is not assumed done again at once', async () => {
    const it = await rig({
      script: (_request, n) =>
        n === 0
          ? { text: '[Step] Fetch\n[Step] Draw', calls: [shell()] }
          : n < 7
            ? { text: 'on it', calls: [shell()] }
            : n === 7
              ? { hold: true, next: () => ({ text: 'on it', calls: [shell()] }) }
              : n < 10
                ? { text: 'on it', calls: [shell()] }
                : { hold: true },
      config: { limits: { step_iterations: 4 } },
    });
    await it.say('1.md', 'go');
    expect(it.events().findLast((event) => event.type === 'step.completed')).toMatchObject({ by: 'timeout' });
    await say(it, 'u.md', 'not done yet');
    it.release();
    await it.pass(300);
    expect(it.plan()?.steps[0]?.status).toBe('running');
  });
});

describe('a check that a person answers', () => {
  const asked = () => run([check({ person: 'Is the chart right?' }), { text: 'Drawn. [Done]', calls: [shell()] }]);

  test.each(['yes', 'Yes.', 'looks good', 'ok, thanks', '正确', '好了', '可以', '👍', 'correct'])(
    '%s passes it',
    async (answer) => {
      const it = await asked();
      await say(it, '2.md', answer);
      expect(it.plan()?.steps[0]).toMatchObject({ status: 'completed', completed_by: 'person' });
    },
  );

  test.each([
    'yes, but the axis is wrong',
    '是的，不过颜色错了',
    'ok, no',
    'yes?',
    'fine-tune the axis first',
    'not done yet',
    '还没完成',
    '/undo',
  ])('%s does not', async (answer) => {
    const it = await asked();
    await say(it, '2.md', answer);
    expect(it.plan()?.steps[0]?.status).toBe('running');
    expect(it.plan()?.status).toBe('running');
  });

  test('a bare "continue" has it asked again', async () => {
    const it = await asked();
    await say(it, '2.md', 'continue');
    expect(it.plan()).toMatchObject({ status: 'waiting', reason: 'check' });
    expect(it.reply('2.md')).toContain('Is the chart right?');
  });

  test('every question is asked, one after the other', async () => {
    const it = await run([
      {
        text: '',
        calls: [
          plan({ command: 'update', step: 'step_1', done_when: [{ person: 'Right?' }, { person: 'And blue?' }] }),
        ],
      },
      { text: 'Drawn. [Done]', calls: [shell()] },
    ]);
    await say(it, '2.md', 'yes');
    expect(it.reply('2.md')).toContain('And blue?');
    await say(it, '3.md', 'yes');
    expect(it.plan()?.steps[0]?.status).toBe('completed');
  });
});

describe('/plan', () => {
  test('undo with a step opens that one again, whichever was closed last', async () => {
    const it = await run([{ text: 'Fetched. [Done]', calls: [shell()] }]);
    await say(it, '2.md', '/plan skip 2');
    await say(it, '3.md', '/plan undo 1');
    expect(it.reply('3.md')).toContain('Fetch');
    expect(statuses(it)).toEqual(['running', 'skipped', 'pending']);
    await say(it, '4.md', '/plan undo 1');
    expect(it.reply('4.md')).toContain('step_1 is running: only a step that has ended is undone.');
  });

  test('with a word that it does not know names the nearest, and all there are', async () => {
    const it = await run([]);
    await say(it, '2.md', '/plan skpi 2');
    expect(it.reply('2.md')).toContain('There is no /plan skpi. Did you mean "skip"? There are: done <step>');
  });
});

describe("what is a person's stays a person's", () => {
  test('the model cannot take off a check that a person wrote', async () => {
    const it = await run([
      { hold: true, next: () => ({ text: '', calls: [plan({ command: 'update', step: 'step_1', done_when: [] })] }) },
    ]);
    const now = it.plan();
    it.store.hands.edit(
      JSON.stringify({
        ...now,
        steps: now?.steps.map((step) =>
          step.id === 'step_1' ? { ...step, done_when: [{ command: 'npm test' }] } : step,
        ),
      }),
    );
    await it.wake();
    it.release();
    await it.pass(300);
    expect(it.plan()?.steps[0]?.done_when).toEqual([{ command: 'npm test', exit: 0 }]);
  });

  test("the model's own change of the plan is not told back to it as a person's", async () => {
    const it = await run([{ text: '', calls: [plan({ command: 'update', step: 'step_2', notes: 'in blue' })] }]);
    expect(String(it.requests.at(-1)?.messages.at(-1)?.content)).not.toContain('A person edited');
  });
});

describe('reply and plan say the same', () => {
  test('a failed step makes the run failed, and "continue" tries it again', async () => {
    const it = await run([{ text: '[Failed: gone]' }, { text: 'Without the fetching there is nothing more to do.' }], {
      steps: '[Step] Fetch',
    });
    expect(statusOf(it.reply('1.md'))).toBe('failed');
    expect(it.reply('1.md')).toContain('✗ Fetch');
    expect(it.plan()).toMatchObject({ status: 'failed', reason: 'not reached: step_1' });
    await say(it, '2.md', 'continue');
    expect(statuses(it)).toEqual(['running']);
  });

  test('a failed plan whose steps a person closes is completed', async () => {
    const it = await run([{ text: '[Failed: gone]' }, { text: 'Nothing more to do.' }], { steps: '[Step] Fetch' });
    await say(it, '2.md', '/plan done step_1');
    expect(it.plan()).toMatchObject({ status: 'completed', reason: 'closed by hand' });
    expect(it.reply('2.md')).toContain('"completed":1');
  });

  test('a blocked step is asked about, also where the tool said so', async () => {
    const it = await run(
      [
        { text: '', calls: [plan({ command: 'mark_step', status: 'blocked', reason: 'no login' })] },
        { text: 'I need the login.' },
      ],
      { steps: '[Step] Fetch' },
    );
    expect(it.plan()).toMatchObject({ status: 'waiting', reason: 'blocked' });
  });

  test('the reply to an undo tells the plan as it is after it', async () => {
    const it = await run([{ text: 'Fetched. [Done]' }, { text: 'That was all.' }], { steps: '[Step] Fetch' });
    await say(it, 'u.md', '/undo');
    expect(it.reply('u.md')).toContain('"completed":0,"total":1,"current":"Fetch"');
  });

  test('a claim that failed its check is not passed off as done', async () => {
    const it = await run(
      [check({ file: 'x' }), { text: 'All done. [Done]' }, { text: 'All done. [Done]' }, { text: 'All done. [Done]' }],
      {
        tool: (call) => ({
          ok: call.name !== 'check',
          text: call.name === 'check' ? 'work/x: there is no such file' : call.args,
        }),
      },
    );
    expect(statusOf(it.reply('1.md'))).toBe('waiting');
    expect(it.reply('1.md')).toContain('there is no such file');
  });
});

describe('undo finds the right step', () => {
  test('a step skipped by hand', async () => {
    const it = await run([{ text: 'Fetched. [Done]', calls: [shell()] }]);
    await say(it, 'a.md', '/plan skip step_3');
    await say(it, 'u.md', '/plan undo');
    expect(statuses(it)).toEqual(['completed', 'pending', 'running']);
  });

  test('what was skipped because of a failed step comes back with it', async () => {
    const it = await run([
      { text: '', calls: [plan({ command: 'update', step: 'step_2', needs: ['step_1'] })] },
      { text: '[Failed: gone]', calls: [shell()] },
    ]);
    expect(statuses(it)).toEqual(['failed', 'skipped', 'running']);
    await it.say('u.md', '/undo');
    it.release();
    await it.pass(300);
    expect(statuses(it)).toEqual(['running', 'pending', 'pending']);
  });
});

describe("results and files are the step's own", () => {
  const write = (path: string): { name: string; args: unknown } => ({
    name: 'write_file',
    args: { content: 'hello', path },
  });
  test('files of the step, without failed writes, also where it has checks', async () => {
    const it = await run(
      [
        check({ file: 'a.txt' }),
        { text: '', calls: [write('fail.txt'), write('a.txt')] },
        { text: 'Written. [Done]', calls: [write('b.txt')] },
        { text: 'Drawn. [Done]', calls: [shell()] },
      ],
      failing,
    );
    expect(it.plan()?.steps.map((step) => step.attachments)).toEqual([['work/a.txt'], ['work/b.txt'], undefined]);
  });

  test('a check that was changed while another one ran is tried as it is now', async () => {
    const it = await run(
      [
        { text: '', calls: [plan({ command: 'update', step: 'step_1', done_when: [{ file: 'a' }, { file: 'b' }] })] },
        { text: 'There. [Done]', calls: [shell()] },
      ],
      { tool: (call) => (call.args.includes('"b"') ? 'hold' : { ok: !call.args.includes('other'), text: call.args }) },
    );
    const now = it.plan();
    it.store.hands.edit(
      JSON.stringify({
        ...now,
        steps: now?.steps.map((step) =>
          step.id === 'step_1' ? { ...step, done_when: [{ file: 'other' }, { file: 'b' }] } : step,
        ),
      }),
    );
    await it.wake();
    it.release();
    await it.pass(300);
    expect(it.plan()?.steps[0]?.status).toBe('running');
  });
});

test.each([
  ['/plan move 1 9', 'move 需要 1 到 2 之间的位置。'],
  ['/plan reword 1', 'reword 需要内容：reword <步骤> <内容>'],
  ['/plan done step_9', '没有步骤“step_9”。现有步骤：step_1, step_2。'],
  ['/plan skip 2', 'step_2 已跳过：写报告'],
  ['/plan dance', 'done <步骤> [结果]'],
])('in a Chinese session %s is answered in Chinese', async (command, said) => {
  const it = await rig({
    config: { language: 'zh' },
    script: () => ({ text: '[Step] 查资料\n[Step] 写报告\n[Blocked: 没有密码]', calls: [] }),
  });
  await it.say('1.md', '写一份报告');
  expect(await it.say('2.md', command)).toContain(said);
});
