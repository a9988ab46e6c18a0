import { describe, expect, test } from 'vitest';
import { formatPlanSummary } from '../../src/core/messages/status-report.ts';
import { executorOf } from '../../src/core/plan/plan-steps.ts';
import { buildModelRequest } from '../../src/core/prompt/model-request.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import type { Step } from '../../src/protocol/session/plan.ts';
import type { Config } from '../../src/protocol/settings/config.ts';
import { resolveRules } from '../../src/protocol/settings/effective-settings.ts';
import acting from '../cases/plan-act.json' with { type: 'json' };
import planning from '../cases/planner.json' with { type: 'json' };
import { type Move, moves, type Rig, rig, shell } from '../support/rig.ts';
import { type GivenStep, played, recordOf, stepOf } from './given-plan.ts';

type Happening = { happens: string; times?: number; text?: string; plan?: object | null; [key: string]: unknown };
type Given = {
  message?: string;
  mode: 'linear' | 'plan-act';
  plan: { steps: GivenStep[] } | null;
  [key: string]: unknown;
};
type Raw = {
  id: string;
  why: string;
  input: { given: Given; when: Happening[] };
  expect: { then: Record<string, unknown> };
};

const cases = [...planning.cases, ...acting.cases] as unknown as Raw[];
const covered: string[] = [];
const each = (...ids: string[]) => {
  covered.push(...ids);
  const found = cases.filter((one) => ids.includes(one.id));
  return test.each(found.map(({ id, why, input, expect: { then } }) => [`${id}: ${why}`, { ...input, then }] as const));
};

const tool = (args: object) => ({ name: 'plan', args });
const work: Move = { text: 'at it', calls: [shell()] };
const isPlanner = (it: Rig, ask: string) =>
  it.events().filter((e) => e.type === 'model.answered' && e.planner_query === ask);
const reported = (it: Rig) => it.requests.flatMap((r) => r.messages).findLast((m) => m.role === 'tool')?.content ?? '';
const block = (it: Rig, n = -1) => String(it.requests.at(n)?.messages.at(-1)?.content);
const statuses = (it: Rig) => it.plan()?.steps.map((step) => step.status);

async function settled(it: Rig): Promise<Rig> {
  await it.pass(300);
  return it;
}

/** A task from its beginning; when the model has no more to say, the call stays in flight. */
async function fresh(message: string, list: Move[], config: Config = {}): Promise<Rig> {
  const it = await rig({ config: { mode: 'plan-act', ...config }, script: (_r, n) => list[n] ?? { hold: true } });
  it.drop('1.md', message);
  return settled(it);
}

/** A run that is on, from a plan as given. */
async function on(steps: GivenStep[], list: Move[], config: Config = {}): Promise<Rig> {
  const it = await rig({
    before: recordOf(steps, 'plan-act'),
    config: { mode: 'plan-act', ...config },
    script: (_r, n) => list[n] ?? { hold: true },
  });
  it.worker.wake();
  return settled(it);
}

/** What a planner said in the words of a case, as ours says it: JSON in its text. */
const saying = ({ plan, text }: Happening): Move => ({ text: plan ? JSON.stringify(plan) : (text ?? '') });
/** The planner's steps in place of those that have not begun. */
const revising = ({ plan }: Happening, remove: string[] = []): Move => ({
  text: JSON.stringify({ remove, add: (plan as { steps?: string[] } | undefined)?.steps }),
});
const answers = (when: Happening[]): Move[] =>
  when.flatMap((it) => Array.from({ length: it.times ?? 1 }, () => saying(it)));

describe('how a plan comes to be', () => {
  each(
    'E1a',
    'E1b',
    'E2',
    'E3',
    'E12',
    'E13',
    'EN1',
    'EN2',
  )('%s', async (_fact, { given, when, then }) => {
    const it = await fresh(given.message ?? '', answers(when));
    const plan = it.plan();
    expect(isPlanner(it, 'plan')).toHaveLength(Number(then['planner_calls']));
    expect(plan).toMatchObject({ goal: given.message, status: 'running' });
    expect(plan?.id).toMatch(/^plan_/);
    expect(plan?.steps).toHaveLength(Number(then['steps_total']));
    if (then['plan_from'] === 'planner') expect(plan?.planned_by).toBe('planner');
    else {
      expect(plan?.planned_by).toMatch(/^fallback: \S/);
      expect(plan && formatPlanSummary(plan, 'en')).toContain(plan?.planned_by);
      expect(plan?.steps.map((step) => step.description.split(' ')[0])).toEqual(['Understand', 'Do', 'Check']);
    }
    for (let n = 1; n < Number(then['planner_calls']); n++) expect(block(it, n)).toContain('could not be used: ');
    const short = then['short_title'] as { text: string; cut: boolean } | undefined;
    if (short) expect(plan?.title).toBe(short.cut ? `${short.text}…` : short.text);
  });

  each('E14', 'S14')('%s', async (_fact, { given, when, then }) => {
    const it = await fresh(given.message ?? '', [{ text: JSON.stringify({ steps: [], answer: when[0]?.text }) }]);
    expect(it.plan()).toBeUndefined();
    expect(it.requests).toHaveLength(1);
    for (const part of (then['reply'] as { text_contains: string[] }).text_contains)
      expect(it.reply('1.md')).toContain(part);
    expect(it.reply('1.md')).toMatch(/^status: done$/m);
  });

  each('E17')('%s', async (_fact, { given, then }) => {
    const it = await fresh(given.message ?? '', []);
    const sent = it.requests[0]?.messages.map((message) => message.content).join('\n');
    for (const part of then['planner_prompt_contains'] as string[]) expect(sent).toContain(part);
  });

  each('P7s', 'P9')('%s', async (_fact, { given, when, then }) => {
    const it = await fresh(given.message ?? '', [{ text: when[0]?.text ?? '', calls: [shell()] }], { mode: 'linear' });
    expect(it.plan()?.current_step_index).toBe(0);
    for (const [n, step] of (then['steps'] as Array<Step & { has?: string[]; has_not?: string[] }>).entries()) {
      const { has = [], has_not = [], ...same } = step;
      expect(it.plan()?.steps[n]).toMatchObject(same);
      for (const key of has) expect(it.plan()?.steps[n]).toHaveProperty(key);
      for (const key of has_not) expect(it.plan()?.steps[n]).not.toHaveProperty(key);
    }
  });

  const bad: Array<[what: string, text: string, why: string]> = [
    ['prose', 'I would look around first.', 'holds no JSON object'],
    ['half a JSON', '{"steps": ["a", ', 'JSON breaks off'],
    ['500 steps', JSON.stringify({ steps: Array.from({ length: 500 }, (_, n) => `step ${n}`) }), '500 steps; 50 are'],
    [
      'a step that needs itself',
      '{"steps": [{"id": "a", "description": "x", "needs": ["a"]}]}',
      'names itself in "needs"',
    ],
    [
      'a cycle',
      '{"steps": [{"id": "a", "description": "x", "needs": ["b"]}, {"id": "b", "description": "y", "needs": ["a"]}]}',
      'a → b need each other in a cycle',
    ],
    ['an unknown need', '{"steps": [{"description": "x", "needs": ["z"]}]}', 'no step has that id'],
    ['an unknown agent', '{"steps": [{"description": "x", "agent": "pilot"}]}', 'the agent "pilot". Agents: none'],
    ['an unknown tool', '{"steps": [{"description": "x", "tools": ["teleport"]}]}', 'Unrecognized key: "tools"'],
    ['a number for a step', '{"steps": [7]}', 'steps.0'],
  ];
  test.each(bad)(
    '%s: told what was wrong, tried three times, then three plain steps with the reason',
    async (_w, text, why) => {
      const it = await fresh('Do it', [{ text }, { text }, { text }]);
      expect(isPlanner(it, 'plan')).toHaveLength(3);
      expect(block(it, 1)).toContain(why);
      expect(block(it, 2)).toContain(why);
      expect(it.plan()?.planned_by).toContain(why);
      expect(it.plan()?.steps).toHaveLength(3);
      it.drop('2.md', '/plan');
      await settled(it);
      expect(it.reply('2.md')).toContain(why);
    },
  );

  test('an old plan of the session does not hide what is wrong with the new one', async () => {
    const it = await rig({
      before: [...recordOf([{ id: 'step_1', status: 'completed' }], 'plan-act')],
      config: { mode: 'plan-act' },
      script: moves(
        { text: 'All there.' },
        { text: '{"steps": [{"description": "x", "needs": ["step_1b"]}]}' },
        { hold: true },
      ),
    });
    it.worker.wake();
    await settled(it);
    it.drop('2.md', 'Another task');
    await settled(it);
    expect(block(it)).toContain('no step has that id');
  });
});

describe('who does a step', () => {
  each(
    'E5a',
    'E5b',
    'E5c',
    'E6a',
    'E6b',
    'E6c',
    'E6d',
    'E16a',
    'E16b',
  )('%s', (_fact, { given, then }) => {
    const { primary, agents, unknown_agent, executor_order } = given as unknown as {
      primary: string;
      agents: string[];
      unknown_agent?: string;
      executor_order?: string[];
    };
    // The primary agent is the session itself; the executors are the agents in their order.
    const others = (executor_order ?? agents).filter((name) => name !== primary);
    const names = [...others, ...agents.filter((name) => name !== primary && !others.includes(name))];
    const rules = resolveRules({
      agents: Object.fromEntries(names.map((name) => [name, {}])),
      ...(unknown_agent === 'first_executor' && { unknown_agent: 'first' as const }),
    });
    const [step] = given.plan?.steps ?? [];
    expect(executorOf(stepOf(step ?? { id: '', status: '' }), rules).agent ?? primary).toBe(then['executor']);
  });

  each('E16c')('%s', async (_fact, { given, then }) => {
    const agents = { BROWSER_AGENT: {}, DEFAULT_AGENT: {} };
    const it = await on(
      given.plan?.steps ?? [],
      [{ text: 'no' }, { text: 'no' }, { text: 'no' }, { text: 'It failed.' }],
      { agents, unknown_agent: 'fail' },
    );
    expect(it.plan()).toMatchObject({ status: 'failed', steps: [{ status: 'failed' }] });
    expect(it.plan()?.steps[0]?.error).toContain(
      (then['steps'] as Array<{ error_mentions: string[] }>)[0]?.error_mentions[0],
    );
    expect(it.reply('m0.md')).toMatch(/^status: failed$/m);
  });

  test('a tag that nobody has is done by the session itself, and the reply says so', async () => {
    const it = await on(
      [{ id: 'step_1', description: '[CODE] write x', status: 'pending' }],
      [work, { text: 'written [Done]' }, { text: 'x is there.' }],
      { agents: { search: {} } },
    );
    expect(it.plan()?.status).toBe('completed');
    expect(it.reply('m0.md')).toContain('there is no agent "CODE"');
  });
});

describe('the plan tool, called wrongly or twice', () => {
  const four: GivenStep[] = [
    { id: 'step_1', description: 'Find', status: 'completed' },
    { id: 'step_2', description: 'Fetch', status: 'completed' },
    { id: 'step_3', description: 'Extract', status: 'running' },
    { id: 'step_4', description: 'Draw', status: 'pending' },
  ];

  each('E4')('%s', (_fact, { given, then }) => {
    const plan = played(recordOf(given.plan?.steps ?? [], 'plan-act')).plan;
    const text = plan ? formatPlanSummary(plan, 'en') : '';
    const { completed, total } = then['progress'] as { completed: number; total: number };
    expect(text).toContain(`${completed}/${total} steps done`);
    expect(text.split('\n').slice(-4)).toEqual(['1. ✓ Find', '2. ✓ Fetch', '3. ▶ Extract', '4. ○ Draw']);
  });

  each('E7')('%s', async (_fact, { given }) => {
    const it = await on(given.plan?.steps ?? [], [{ calls: [tool({ command: 'complete_step', step: '9' })] }]);
    expect(reported(it)).toContain('There is no step "9". Steps: step_1, step_2, step_3, step_4.');
    expect(statuses(it)).toEqual(['completed', 'completed', 'running', 'pending']);
  });

  each('E8')('%s', async (_fact, { given, then }) => {
    const it = await on(given.plan?.steps ?? [], [
      { calls: [tool({ command: 'update', step: 'step_2', description: 'Fetch from the archive' })] },
    ]);
    for (const [n, { notes, ...step }] of (then['steps'] as Array<Step & { notes: string | null }>).entries()) {
      // The run is on, so the pending step has begun.
      expect(it.plan()?.steps[n]).toMatchObject({ ...step, ...(step.status === 'pending' && { status: 'running' }) });
      expect(it.plan()?.steps[n]?.notes ?? null).toBe(notes);
    }
  });

  each('E9')('%s', async () => {
    const it = await on(four, [{ calls: [tool({ command: 'create', steps: ['Begin', 'Anew'] })] }]);
    expect(it.events().findLast((event) => event.type === 'tool.finished')).toMatchObject({ ok: false });
    expect(reported(it)).toContain('plan_1 already exists');
    expect(it.plan()?.steps.map((step) => step.description)).toEqual(['Find', 'Fetch', 'Extract', 'Draw']);
    expect(it.plan()?.status).toBe('running');
  });

  each('E15a', 'E15b')('%s', async (_fact, { when }) => {
    const it = await on(four, [
      { calls: [tool({ command: 'create' }), tool((when[0] as unknown as { arguments: object }).arguments)] },
    ]);
    const results = it.requests.at(-1)?.messages.filter((message) => message.role === 'tool') ?? [];
    // A title is not wanted here; what is wanted and missing is named.
    expect(results[0]?.content).toContain('create needs "steps"');
    expect(results[1]?.content).toMatch(
      /plan_1 already exists|there is no key `title`.* Expected one JSON object: { command, steps\?,/,
    );
    expect(it.plan()?.steps).toHaveLength(4);
  });
});

describe('a step that fails, and a plan that is revised', () => {
  each('E10')('%s', async () => {
    const it = await on(
      [{ id: 'step_1', description: '[SEARCH] fetch', status: 'pending' }],
      [{ text: 'no plan' }, { text: 'no plan' }, { text: 'no plan' }, { text: 'It could not be fetched.' }],
      { agents: { search: {} } },
    );
    for (const attempt of [1, 2, 3]) {
      it.children.answer('demo~step_1', `step_1.${attempt}`, { status: 'failed', text: 'boom' });
      it.worker.wake();
      await settled(it);
    }
    expect(it.plan()).toMatchObject({ status: 'failed', steps: [{ status: 'failed', attempts: 3 }] });
    expect(it.children.sent).toHaveLength(3);
  });

  each('S4')('%s', async (_fact, { given, when, then }) => {
    const it = await on(given.plan?.steps ?? [], [
      { calls: [tool({ command: 'mark_step', status: 'failed', reason: 'no access' })] },
      revising(when[1] ?? { happens: '' }, ['step_3']),
    ]);
    expect(it.plan()?.steps).toMatchObject([
      { id: 'step_1', status: 'completed' },
      { id: 'step_2', status: 'failed', error: 'no access' },
      { description: 'Fetch from the archive', status: 'running' },
      { description: 'Draw', status: 'pending' },
    ]);
    const ids = it.plan()?.steps.map((step) => step.id) ?? [];
    expect(new Set(ids).size).toBe(4);
    expect(ids).not.toContain('step_3');
    expect(it.types().filter((type) => type === 'plan.revised')).toHaveLength(Number(then['replans']));
  });

  each('S13')('%s', async (_fact, { when }) => {
    const it = await on(
      [
        { id: 'step_1', status: 'completed' },
        { id: 'step_2', status: 'running' },
      ],
      [
        work,
        { text: 'There. [Done]', calls: [tool({ command: 'replan', reason: 'a chart is missing' })] },
        revising(when[1] ?? { happens: '' }),
      ],
    );
    expect(it.plan()?.steps).toMatchObject([
      { id: 'step_1', status: 'completed' },
      { id: 'step_2', status: 'completed' },
      { id: 'step_3', description: 'Draw', status: 'running' },
    ]);
    expect(it.events().find((event) => event.type === 'plan.revised')).toMatchObject({
      reason: 'asked for: a chart is missing',
    });
  });

  each('SN2')('%s', async (_fact, { then }) => {
    let plans = 0;
    const it = await rig({
      before: recordOf([{ id: 'step_1', status: 'running' }], 'plan-act'),
      config: { mode: 'plan-act' },
      script: (request) => {
        if (request.tools.length > 0) return { text: '[Failed: boom]' };
        const revise = String(request.messages.at(-1)?.content).includes('Look at the results of the plan');
        return revise ? { text: JSON.stringify({ add: [`Try again ${++plans}`] }) } : { text: 'It failed.' };
      },
    });
    it.worker.wake();
    await settled(it);
    expect(it.types().filter((type) => type === 'plan.revised')).toHaveLength(Number(then['replans']));
    expect(it.plan()).toMatchObject({ status: 'failed' });
    expect(new Set(it.plan()?.steps.map((step) => step.id)).size).toBe(4);
  });

  test('what a planner adds comes before what has not begun, and a step that a person wrote stays', async () => {
    const before: EventBody[] = [
      ...recordOf(
        [
          { id: 'step_1', status: 'running' },
          { id: 'step_2', status: 'pending', needs: ['step_1'] },
          { id: 'step_3', status: 'pending' },
        ],
        'plan-act',
      ),
      {
        type: 'plan.edited',
        by: 'person',
        ignored: [],
        changes: [{ what: 'step', step: 'step_3', set: { description: 'Mine' }, unset: [] }],
      },
    ];
    const add = [{ id: 'again', description: 'Another way' }];
    const list = [
      { text: '[Failed: boom]' },
      { text: JSON.stringify({ remove: ['step_3'], add }) },
      { text: JSON.stringify({ plan: ['Another way'] }) },
      { text: JSON.stringify({ add, change: [{ id: 'step_2', needs: ['again'] }], reason: 'it can be reached' }) },
    ];
    const it = await rig({ before, config: { mode: 'plan-act' }, script: (_r, n) => list[n] ?? { hold: true } });
    it.worker.wake();
    await settled(it);
    expect(block(it, 2)).toContain('step_3 was written by a person and stays');
    expect(block(it, 3)).toContain('none of "keep", "remove", "change" and "add"');
    expect(it.plan()?.steps).toMatchObject([
      { id: 'step_1', status: 'failed' },
      { id: 'again', status: 'running' },
      { id: 'step_2', needs: ['again'], status: 'pending' },
      { id: 'step_3', description: 'Mine' },
    ]);
    expect(it.events().find((event) => event.type === 'plan.revised')).toMatchObject({
      reason: 'step_1 failed; it can be reached',
    });
  });

  test('a planner that cannot be read when a step has failed is told why, and the run ends on what it has', async () => {
    const text = '{"remove": ["step_2"], "add": [{"description": "y", "needs": ["step_2"]}]}';
    const it = await on(
      [
        { id: 'step_1', status: 'running' },
        { id: 'step_2', status: 'pending', needs: ['step_1'] },
      ],
      [{ text: '[Failed: boom]' }, { text }, { text }, { text }, { text: 'It failed.' }],
    );
    // The open step it names is one that it removes.
    expect(block(it, 2)).toContain('names step_2 in "needs", and no step has that id');
    expect(it.plan()).toMatchObject({ status: 'failed', steps: [{ status: 'failed' }, { status: 'skipped' }] });
    expect(it.reply('m0.md')).toContain('boom');
  });
});

describe('from the first step to the answer', () => {
  const done = (result: string) => tool({ command: 'complete_step', result });
  const ofSteps = (it: Rig) =>
    it.events().flatMap((event) => {
      const step = 'step' in event && typeof event.step === 'string' ? `:${event.step}` : '';
      return /^(?:plan\.|step\.(?:started|completed)|run\.ended|reply\.committed)/.test(event.type)
        ? [event.type + step]
        : [];
    });

  each('S1')('%s', async (_fact, { given }) => {
    const it = await fresh(given.message ?? '', [
      { text: '{"steps": ["Step 1"]}' },
      work,
      { calls: [done('done')] },
      { text: 'There it is.' },
    ]);
    expect(ofSteps(it)).toEqual([
      'plan.started',
      'step.started:step_1',
      'step.completed:step_1',
      'run.ended',
      'plan.ended',
      'reply.committed',
    ]);
    expect(it.plan()?.status).toBe('completed');
  });

  each('S2')('%s', async (_fact, { given }) => {
    const it = await fresh(given.message ?? '', [
      { text: '{"steps": ["Step 1", "Step 2"]}' },
      work,
      { calls: [done('a')] },
      { text: 'at it', calls: [shell()] },
      { calls: [done('b')] },
      { text: 'There it is.' },
    ]);
    expect(isPlanner(it, 'plan')).toHaveLength(1);
    expect(isPlanner(it, 'revise')).toHaveLength(0);
    expect(it.plan()?.status).toBe('completed');
  });

  each(
    'S3a',
    'S3b',
    'S3c',
  )('%s', async (_fact, { given, when, then }) => {
    const list = when.map((it): Move => {
      if (it.happens === 'model_answers') return { text: 'at it', calls: [shell()] };
      return {
        calls: [it['success'] ? done('') : tool({ command: 'mark_step', status: 'failed', reason: 'no access' })],
      };
    });
    const it = await on(given.plan?.steps ?? [], list);
    const [first] = it.requests.flatMap((r) => r.messages).filter((message) => message.role === 'tool');
    if (then['refused'] || then['refused_first']) expect(first?.content).toContain('Do the work first');
    expect(it.plan()?.steps[0]).toMatchObject((then['steps'] as object[])[0] ?? {});
  });

  each('S5')('%s', async (_fact, { given }) => {
    const it = await on(given.plan?.steps ?? [], [{ text: 'Which year?' }, { text: 'Which year?' }]);
    expect(it.plan()?.status).toBe('waiting');
    expect(it.reply('m0.md')).toMatch(/^status: waiting$/m);
    expect(it.reply('m0.md')).toContain('Which year?');
    it.drop('2.md', '2023');
    await settled(it);
    expect(it.plan()).toMatchObject({ status: 'running', steps: [{ status: 'running' }, { status: 'pending' }] });
    expect(isPlanner(it, 'plan')).toHaveLength(0);
  });

  each('S7')('%s', async (_fact, { given, then }) => {
    const it = await on(given.plan?.steps ?? [], [work, { calls: [done('five links found')] }]);
    expect(ofSteps(it).slice(-2)).toEqual(['step.completed:step_1', 'step.started:step_2']);
    expect(it.plan()?.steps).toMatchObject(then['steps'] as object[]);
  });

  each('S15')('%s', async () => {
    const it = await fresh('Report', [{ text: '{"steps": ["Find", "Draw"]}' }, work, { calls: [done('x')] }]);
    expect(ofSteps(it)).toEqual([
      'plan.started',
      'step.started:step_1',
      'step.completed:step_1',
      'step.started:step_2',
    ]);
  });

  each('S6', 'SN1')('%s', async (_fact, { given, when }) => {
    // There is no report of the whole plan: a step is named alone, which is taken back by no report and begins by its turn.
    const steps = given.plan?.steps ?? [];
    const reported = when[0]?.['steps'] as Array<{ id: string }>;
    const it = await on(steps, [
      { calls: reported.map(({ id }) => tool({ command: 'update', step: id, status: 'blocked' })) },
    ]);
    expect(statuses(it)?.filter((status) => status === 'running')).toHaveLength(1);
    for (const [n, { status }] of steps.entries())
      if (status === 'completed') expect(statuses(it)?.[n]).toBe('completed');
  });

  each(
    'S8a',
    'S8b',
    'S8c',
    'S9d',
    'SN3',
  )('%s', async (_fact, { given, then }) => {
    const it = await on(given.plan?.steps ?? [], [
      ...answers(Array.from({ length: 6 }, () => ({ happens: '', text: 'so it is' }))),
    ]);
    const open = then['finished'] === false;
    const status = given.plan?.steps.some((step) => step.status === 'failed') ? 'failed' : 'completed';
    expect(it.plan()?.status).toBe(open ? 'waiting' : status);
  });

  each(
    'S9a',
    'S9b',
    'S9c',
  )('%s', async (_fact, { when, given, then }) => {
    const asks = when[0]?.happens === 'person_asked';
    const it = await on(
      given.plan?.steps ?? [],
      asks
        ? [{ text: 'Which year?' }, { text: 'Which year?' }]
        : [{ fault: ['rejected', 'boom', { retry: false }] as never }],
    );
    // Late news has no road in: a run that has ended is moved by a message alone.
    it.worker.wake();
    await settled(it);
    expect(it.plan()?.status).toBe(then['status']);
  });

  each('S10a')('%s', async (_fact, { given }) => {
    const it = await on(given.plan?.steps ?? [], [
      work,
      { calls: [tool({ command: 'complete_step', success: 'maybe' })] },
      { calls: [done('x')] },
    ]);
    expect(JSON.stringify(it.requests.at(-2)?.messages)).toContain('success');
    expect(it.plan()?.steps[0]?.status).toBe('completed');
  });

  each('S10b')('%s', async (_fact, { given }) => {
    const it = await on(given.plan?.steps ?? [], [work, { text: 'I am done here.' }]);
    expect(block(it)).toContain('plan complete_step');
    expect(it.plan()?.steps[0]?.status).toBe('running');
  });

  each('S11')('%s', async (_fact, { given, then }) => {
    const it = await rig({
      before: recordOf(given.plan?.steps ?? [], 'plan-act'),
      config: { mode: 'plan-act' },
      script: moves({ calls: [{ name: 'teleport' }] }, { hold: true }),
      // What the toolbox answers to a name it does not have (tests/tools/toolbox.test.ts).
      tool: ({ name }) => ({ ok: false, text: `No tool \`${name}\`.` }),
    });
    it.worker.wake();
    await settled(it);
    for (const part of then['error_mentions'] as string[]) expect(reported(it)).toContain(part);
    expect(it.plan()).toMatchObject({ status: 'running', steps: [{ status: 'running' }] });
  });

  each('S12a', 'S12b')('%s', async (_fact, { when, then }) => {
    const characters = Number(when[0]?.['characters']);
    const it = await rig({
      script: moves(work, { hold: true }),
      tool: () => ({ ok: true, text: 'x'.repeat(characters) }),
    });
    it.drop('1.md', 'look');
    await settled(it);
    const shown = reported(it);
    expect([...shown].filter((sign) => sign === 'x')).toHaveLength(Number(then['shown_characters']));
    expect(shown.includes('left out')).toBe(then['says_cut'] === 1);
  });

  each('E11')('%s', async (_fact, { given, then }) => {
    const reply = then['reply'] as { text_contains: string[] };
    for (const last of [{ text: '' }, { fault: ['rejected', 'no such model', { retry: false }] as never }] as Move[]) {
      const it = await on(given.plan?.steps ?? [], [last]);
      expect(it.plan()?.status).toBe('completed');
      expect(it.reply('m0.md')).toMatch(/^status: done$/m);
      expect(it.reply('m0.md')).toContain('The model gave no summary');
      for (const part of reply.text_contains) expect(it.reply('m0.md')).toContain(part);
    }
  });

  test('files that steps wrote are attached to the reply', async () => {
    const list: Move[] = [
      { text: 'writing', calls: [{ name: 'write_file', args: { path: 'report.md', content: 'x' } }] },
      { text: 'Written. [Done]' },
      { text: 'See the report.' },
    ];
    const it = await rig({
      before: recordOf([{ id: 'step_1', status: 'running' }], 'plan-act'),
      config: { mode: 'plan-act' },
      script: (_r, n) => list[n] ?? { hold: true },
    });
    it.store.hands.make('work/report.md');
    it.worker.wake();
    await settled(it);
    expect(it.reply('m0.md')).toContain('work/report.md');
  });
});

test('every case of planner and plan-act is looked at', () => {
  expect([...covered].sort()).toEqual(cases.map((one) => one.id).sort());
});

test('the agents are named to the planner', () => {
  const session = played(recordOf([], 'plan-act').slice(0, 3));
  const rules = resolveRules({ agents: { search: { description: 'finds pages' } } });
  expect(buildModelRequest(session, rules, [], { plannerQuery: 'plan' }).at(-1)?.content).toContain(
    '- [search] finds pages',
  );
});
