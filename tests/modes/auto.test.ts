import { describe, expect, test } from 'vitest';
import { MODES } from '../../src/protocol/settings/run-options.ts';
import { type Move, rig } from '../support/rig.ts';

const PLAN = JSON.stringify({ steps: ['one', 'two'] });

const choosing = (answer: Move) =>
  rig({
    config: { mode: 'auto' },
    script: ({ messages }) => (/What kind of work/.test(messages.at(-1)?.content ?? '') ? answer : { text: 'Here.' }),
  });

test.each([
  ['simple', 'linear'],
  ['**Simple.**', 'linear'],
  ['```json\n{"choice": "simple", "reason": "one reminder"}\n```', 'linear'],
  ['complex', 'plan-act'],
  ['branching', 'dag'],
  ['emergent', 'todo'],
  ['parts', 'map-reduce'],
  ['It is not simple.', 'plan-act'],
  ['purple', 'plan-act'],
  ['constructor', 'plan-act'],
  ['{"choice": ["simple"', 'plan-act'],
  ['', 'plan-act'],
])('to the answer %j the mode is %s', async (text, mode) => {
  const on = await choosing({ text });
  await on.say('1.md', 'If it rains tomorrow, send me a reminder');
  expect(on.events().find((event) => event.type === 'mode.chosen')).toMatchObject({ mode });
});

const wasAsked = (on: Awaited<ReturnType<typeof rig>>) =>
  on.requests.some(({ messages }) => /What kind of work/.test(messages.at(-1)?.content ?? ''));

test.each(['1. Count: `wc -l a`\n2. Show: `cat a`;', '请执行：\n- [ ] 统计 `wc -l a`。\n- [ ] 显示 `cat a`'])(
  'a list of commands is linear, and nobody is asked: %j',
  async (text) => {
    const on = await choosing({ text: 'complex' });
    await on.say('1.md', text);
    const mode_reason = 'auto: simple: the message brings its own steps';
    expect(on.events().find((event) => event.type === 'run.started')).toMatchObject({ mode: 'linear', mode_reason });
    expect(wasAsked(on)).toBe(false);
  },
);

test.each(['1. Count: `wc -l a`\n2. Tell Ann', 'What is `wc -l a`?', '你好'])(
  'the model is asked about any other message, once, with no tools: %j',
  async (text) => {
    const on = await rig({
      config: { mode: 'auto' },
      script: ({ messages }) => ({
        text: /哪一类工作|What kind of work/.test(messages.at(-1)?.content ?? '') ? 'simple' : 'Here.',
      }),
    });
    await on.say('1.md', text);
    expect(on.events().flatMap((event) => (event.type === 'model.answered' ? [event.planner_query] : []))).toEqual([
      'choose',
      undefined,
    ]);
    expect(on.requests[0]?.tools).toEqual([]);
    expect(on.reply('1.md')).toContain('Here.');
  },
);

test('a mode that is named applies without a question, and no answer counts as complex', async () => {
  const on = await choosing({ text: 'parts' });
  await on.say('1.json', JSON.stringify({ text: 'If it rains, tell me', options: { mode: 'linear' } }));
  expect(wasAsked(on)).toBe(false);

  const failing = await choosing({ fault: ['unreachable', 'no route', { retry: true }] });
  await failing.say('1.md', 'If it rains, tell me');
  const mode_reason = 'auto: complex: by default, since the model gave no answer (no route)';
  expect(failing.events().find((event) => event.type === 'mode.chosen')).toMatchObject({
    mode: 'plan-act',
    mode_reason,
  });
});

test('a daemon that dies after the choice does not choose again', async () => {
  const on = await choosing({ text: 'simple' });
  await on.say('1.md', 'If it rains tomorrow, send me a reminder');
  await on.restart({ powerCut: true });
  await on.settle();
  expect(on.types().filter((type) => type === 'mode.chosen')).toHaveLength(1);
  expect(on.reply('1.md')).toContain('Here.');
});

test('a run that ended before it had a plan goes on in the mode that was chosen', async () => {
  let broken = true;
  const on = await rig({
    config: { mode: 'auto' },
    script: ({ messages }) =>
      broken
        ? { fault: ['rejected', 'no such key', { retry: false }] }
        : { text: /JSON/.test(messages.at(-1)?.content ?? '') ? PLAN : 'Hm.' },
  });
  expect(await on.say('1.md', 'download the csv, clean it and draw a chart')).toContain('status: failed');
  broken = false;
  await on.say('2.md', 'continue');
  expect(on.plan()).toMatchObject({ mode: 'plan-act', mode_reason: expect.stringContaining('no such key') });
});

describe('/mode', () => {
  const setup = () =>
    rig({
      config: { mode: 'linear' },
      script: ({ messages }) => ({ text: /JSON/.test(messages.at(-1)?.content ?? '') ? PLAN : 'Here.' }),
    });
  const say = async (on: Awaited<ReturnType<typeof setup>>, name: string, text: string) => {
    await on.say(name, text);
  };
  const started = (on: Awaited<ReturnType<typeof setup>>) =>
    on.events().flatMap((event) => (event.type === 'run.started' ? [event.mode] : []));

  test('alone tells the mode, where it comes from, and the modes there are', async () => {
    const on = await setup();
    await say(on, '1.md', '/mode');
    expect(on.reply('1.md')).toContain('The mode is linear, from the settings');
    expect(on.reply('1.md')).toContain(`Modes: ${[...MODES, 'default'].join(', ')}`);
  });

  test('with a mode holds for every task to come, also after a crash, until it is set back', async () => {
    const on = await setup();
    await say(on, '1.md', '/mode Plan-Act');
    await on.restart({ powerCut: true });
    await say(on, '2.md', 'a report');
    await say(on, '3.md', '/mode');
    expect(on.reply('3.md')).toContain('The mode is plan-act, set by /mode');
    await say(on, '4.md', '/new');
    await say(on, '5.md', '/mode default');
    await say(on, '6.md', 'another');
    expect(started(on)).toEqual(['plan-act', 'linear']);
  });

  test("with a mode and a task runs that task in it; a message's own option wins over what was set", async () => {
    const on = await setup();
    await say(on, '1.md', '/mode plan-act');
    await say(on, '2.json', JSON.stringify({ text: 'hello', options: { mode: 'linear' } }));
    await say(on, '3.md', '/mode default');
    await say(on, '4.md', '/mode plan-act make a\nreport');
    expect(started(on)).toEqual(['linear', 'plan-act']);
    expect(on.plan()?.goal).toBe('make a\nreport');
    await say(on, '5.md', '/new');
    await say(on, '6.md', 'hello');
    expect(started(on).at(-1)).toBe('linear');
  });

  test('with a word that is no mode is rejected and names those there are', async () => {
    const on = await setup();
    await say(on, '1.md', '/mode purple do it');
    expect(on.reply('1.md')).toContain('status: rejected');
    expect(on.reply('1.md')).toContain('Unknown mode "purple". Modes: linear');
    expect(started(on)).toEqual([]);
  });

  test('is answered while a run is on, and changes that run in nothing', async () => {
    const on = await rig({ script: () => ({ hold: true, next: () => ({ text: 'Here.' }) }) });
    await on.say('1.md', 'a task');
    expect(await on.say('2.md', '/mode plan-act')).toContain('status: done');
    expect(on.reply('1.md')).toBeUndefined();
    await on.letGo();
    expect(on.reply('1.md')).toContain('Here.');
  });
});

test('a task in a planning mode that is sent while a plan is paused shelves that plan and is planned by itself', async () => {
  const on = await rig({
    config: { limits: { iterations: 1 } },
    script: ({ messages }, n) => {
      if (n === 0) return { text: '[Step] a\n[Step] b', calls: [{ name: 'shell', args: { command: 'true' } }] };
      return { text: /JSON/.test(messages.at(-1)?.content ?? '') ? PLAN : 'Hm.' };
    },
  });
  await on.say('1.md', 'two steps');
  expect(on.plan()?.status).toBe('paused');
  await on.say('2.json', JSON.stringify({ text: '/mode plan-act another', options: { limits: { iterations: 3 } } }));
  expect(on.requests.length).toBeLessThan(6);
  expect(on.plan()).toMatchObject({ goal: 'another', mode: 'plan-act' });
  expect(on.archived()).toHaveLength(1);
});
