import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { modeForWork } from '../../src/core/modes/mode-choice.ts';
import { ruleOnWorkKind, type WorkKind } from '../../src/core/modes/work-kind.ts';
import { MODES } from '../../src/protocol/settings/run-options.ts';
import { casesOf } from '../core/case-file.ts';
import { type Move, rig } from '../support/rig.ts';

const ALL = ['linear', 'plan-act', 'todo', 'dag', 'map-reduce'];

const Happening = z.looseObject({
  happens: z.enum(['message_dropped', 'model_chooses', 'model_failed', 'model_answers']),
  text: z.string().optional(),
  choice: z.string().optional(),
  error: z.string().optional(),
  options: z.object({ mode: z.string() }).optional(),
});
const Input = z.object({
  given: z.object({ mode: z.literal('auto'), plan: z.null(), modes_enabled: z.array(z.string()).optional() }),
  when: z.array(Happening),
});
const Expected = z.record(
  z.enum(['then']),
  z.strictObject({
    choice: z.string().optional(),
    mode: z.string().optional(),
    mode_one_of: z.array(z.string()).optional(),
    planner_asked: z.boolean().optional(),
    model_asked_to_choose: z.boolean().optional(),
    gives_reason: z.boolean().optional(),
    plan_file: z.boolean().optional(),
    reply: z.object({ status: z.string() }).optional(),
  }),
);

const PLAN = JSON.stringify({ steps: ['one', 'two'] });

/** What the model does: it chooses where the case says so, plans where it is asked to, and talks otherwise. */
function played(when: z.infer<typeof Happening>[]): Move {
  const choosing = when.find((one) => one.happens === 'model_chooses');
  const failing = when.find((one) => one.happens === 'model_failed');
  if (failing) return { fault: ['unreachable', failing.error ?? '', { retry: true }] };
  return { text: choosing?.choice ?? 'complex' };
}

describe('the cases of the choice of a mode', () => {
  for (const { fact, input, expect: wanted } of casesOf('mode-choice', Input, Expected)) {
    test(fact, async () => {
      const { when, given } = input;
      const dropped = when.find((one) => one.happens === 'message_dropped');
      const text = dropped?.text ?? '';
      const asked = dropped?.options?.mode;
      const mode = asked && (MODES.find((one) => one === asked) ?? 'plan-act');
      const on = await rig({
        config: { mode: 'auto' },
        script: ({ messages }) => {
          const question = messages.at(-1)?.content ?? '';
          if (/What kind of work|哪一类工作/.test(question)) return played(when);
          return /JSON/.test(question)
            ? { text: PLAN }
            : { text: when.find((one) => one.happens === 'model_answers')?.text ?? 'Here.' };
        },
      });
      on.drop('1.json', JSON.stringify({ text, ...(mode && { options: { mode } }) }));
      await on.settle();
      await on.pass(120_000);
      expect(on.faults).toEqual([]);
      const then = wanted.then;
      const consults = on.events().flatMap((event) => (event.type === 'model.answered' ? [event.planner_query] : []));
      const wasAsked = on.requests.some(({ messages }) =>
        /What kind of work|哪一类工作/.test(messages.at(-1)?.content ?? ''),
      );
      const reasons = on
        .events()
        .flatMap((event) =>
          (event.type === 'run.started' || event.type === 'mode.chosen') && event.mode_reason
            ? [event.mode_reason]
            : [],
        );
      if (then.model_asked_to_choose !== undefined) expect(wasAsked).toBe(then.model_asked_to_choose);
      if (then.mode !== undefined) {
        expect(reasons).toEqual([]);
        expect(on.events().find((event) => event.type === 'run.started')).toMatchObject({ mode });
      }
      if (then.planner_asked !== undefined) expect(consults.includes('plan')).toBe(then.planner_asked);
      if (then.plan_file === false) expect(on.plan()).toBeUndefined();
      if (then.reply) expect(on.reply('1.json')).toContain(`"status": "${then.reply.status}"`);
      if (then.gives_reason && consults.includes('plan')) expect(on.plan()?.mode_reason).toBe(reasons.at(-1));
      if (then.choice === undefined) return;
      expect(reasons).toHaveLength(1);
      const { choice, signals } = ruleOnWorkKind(text);
      const kind = choice ?? (/^auto: (\w+)/.exec(reasons[0] ?? '')?.[1] as WorkKind);
      const settled = modeForWork(kind, signals, given.modes_enabled ?? ALL);
      expect(settled.choice).toBe(then.choice);
      if (then.mode_one_of) expect(then.mode_one_of).toContain(settled.mode);
      // This build may lack a mode the rules would take: then the same work is done in the next best one.
      if (choice === null) expect(reasons[0]).toContain(`auto: ${then.choice}`);
    });
  }
});

test.each([
  ['hi there', 'simple'],
  ['What is the capital of France?', 'simple'],
  ['Why does the build fail?', 'simple'],
  ['strengthen the second paragraph', 'simple'],
  ['What happens in the next release?', 'simple'],
  ['rename a.txt to b.txt', 'simple'],
  ['Translate "first do this, then do that, finally rest" into French', 'simple'],
  ['1. Count: `wc -l a`\n2. Show: `cat a`\n3. Sort: `sort a`', 'simple'],
  ['先生你好', 'simple'],
  ['最后一次会议是什么时候？', 'simple'],
  ['三天后提醒我', 'simple'],
  ['Investigate why memory grows over night', 'emergent'],
  ['排查线上服务变慢的原因', 'emergent'],
  ['Please do:\n- fetch the list\n- ask Ann\n- tell Bob', 'complex'],
  ['download the csv, clean it and draw a chart', 'complex'],
  ['第一步收集数据，第二步写报告', 'complex'],
  ['Improve the service', null],
  ['Summarise each of the 40 files in docs', null],
  ['首先调研市场，然后写报告', null],
])('%j is %s by rules', (text, choice) => {
  expect(ruleOnWorkKind(text).choice).toBe(choice);
});

test('the best mode for a kind of work is taken among those that are switched on', () => {
  const { signals } = ruleOnWorkKind('Summarise each of the 40 files in docs');
  const plain = ruleOnWorkKind('download the csv, clean it and draw a chart').signals;
  expect(modeForWork('parts', plain, ALL).mode).toBe('map-reduce');
  expect(modeForWork('complex', signals, ALL).mode).toBe('map-reduce');
  expect(modeForWork('complex', ruleOnWorkKind('同时下载 A、整理 B、测试 C').signals, ALL).mode).toBe('dag');
  expect(modeForWork('complex', plain, ALL).mode).toBe('plan-act');
  expect(modeForWork('emergent', plain, ['linear', 'dag'])).toEqual({ choice: 'complex', mode: 'dag' });
  expect(modeForWork('emergent', plain, [])).toEqual({ choice: 'complex', mode: 'linear' });
});

const choosing = (answer: Move) =>
  rig({
    config: { mode: 'auto' },
    script: ({ messages }) => (/What kind of work/.test(messages.at(-1)?.content ?? '') ? answer : { text: 'Here.' }),
  });

test.each([
  ['simple', 'linear'],
  ['**Simple.**', 'linear'],
  ['```json\n{"choice": "simple", "reason": "one reminder"}\n```', 'linear'],
  ['It is not simple.', 'dag'],
  ['purple', 'dag'],
  ['{"choice": ["simple"', 'dag'],
  ['', 'dag'],
])('to the answer %j the mode is %s', async (text, mode) => {
  const on = await choosing({ text });
  on.drop('1.md', 'If it rains tomorrow, send me a reminder');
  await on.settle();
  expect(on.events().find((event) => event.type === 'mode.chosen')).toMatchObject({ mode });
});

test('a daemon that dies after the choice does not choose again', async () => {
  const on = await choosing({ text: 'simple' });
  on.drop('1.md', 'If it rains tomorrow, send me a reminder');
  await on.settle();
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
  on.drop('1.md', 'download the csv, clean it and draw a chart');
  await on.settle();
  expect(on.reply('1.md')).toContain('status: failed');
  broken = false;
  on.drop('2.md', 'continue');
  await on.settle();
  expect(on.plan()).toMatchObject({ mode: 'plan-act', mode_reason: expect.stringContaining('3 actions') });
});

describe('/mode', () => {
  const setup = () =>
    rig({
      config: { mode: 'linear' },
      script: ({ messages }) => ({ text: /JSON/.test(messages.at(-1)?.content ?? '') ? PLAN : 'Here.' }),
    });
  const say = async (on: Awaited<ReturnType<typeof setup>>, name: string, text: string) => {
    on.drop(name, text);
    await on.settle();
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
    on.drop('1.md', 'a task');
    await on.settle();
    on.drop('2.md', '/mode plan-act');
    await on.settle();
    expect(on.reply('2.md')).toContain('status: done');
    expect(on.reply('1.md')).toBeUndefined();
    on.release();
    await on.settle();
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
  on.drop('1.md', 'two steps');
  await on.settle();
  expect(on.plan()?.status).toBe('paused');
  on.drop('2.json', JSON.stringify({ text: '/mode plan-act another', options: { limits: { iterations: 3 } } }));
  await on.settle();
  expect(on.requests.length).toBeLessThan(6);
  expect(on.plan()).toMatchObject({ goal: 'another', mode: 'plan-act' });
  expect(on.archived()).toHaveLength(1);
});
