import { describe, expect, test } from 'vitest';
import { decide } from '../../src/core/decide/decide.ts';
import { describeBrokenNeeds, readySteps } from '../../src/core/plan/step-readiness.ts';
import { buildModelRequest } from '../../src/core/prompt/model-request.ts';
import type { Session } from '../../src/core/session/session-state.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import type { Step } from '../../src/protocol/session/plan.ts';
import { resolveRules } from '../../src/protocol/settings/effective-settings.ts';
import type { Mode } from '../../src/protocol/settings/run-options.ts';
import { DEFAULT_LIMITS } from '../../src/protocol/settings/run-options.ts';
import cases from '../cases/ready-steps.json' with { type: 'json' };
import { type Move, moves, type Rig, rig, shell } from '../support/rig.ts';
import { become, type GivenStep, played, recordOf } from './given-plan.ts';

type Given = {
  plan: { steps: GivenStep[] } | null;
  rounds?: number;
  rounds_since_completion?: number;
  message?: string;
};
type Happening = {
  happens: string;
  step?: string | { description: string; needs: string[] };
  needs?: string;
  count?: number;
  text?: string;
  add?: Array<{ description: string; needs: string[] }>;
  block?: string[];
  error?: string;
};
type Then = Record<string, unknown>;
type Case = { id: string; why: string; given: Given; when: Happening[]; then: Then };

const all: Case[] = (cases.cases as unknown as Array<{ id: string; why: string; input: Case; expect: Case }>).map(
  ({ id, why, input, expect: { then } }) => ({ id, why, given: input.given, when: input.when, then }),
);
const named = (...ids: string[]) => all.filter((one) => ids.includes(one.id));
const covered: string[] = [];
const each = (...ids: string[]) => {
  covered.push(...ids);
  return test.each(named(...ids).map((one) => [`${one.id}: ${one.why}`, one] as const));
};

const readyIn = (session: Session) => readySteps(session.plan?.steps ?? []).map((step) => step.id);
const plan = (args: object) => ({ name: 'plan', args });
const requestText = (it: Rig, n = -1) =>
  (it.requests.at(n)?.messages ?? []).map((message) => String(message.content ?? '')).join('\n');
const block = (it: Rig, n = -1) => String(it.requests.at(n)?.messages.at(-1)?.content);

/** A run that is on, with what the model does next; when it has no more to say, the call stays in flight. */
async function on(given: Given, list: Move[], mode: Mode = 'todo'): Promise<Rig> {
  const it = await rig({
    before: recordOf(given.plan?.steps ?? [], mode),
    config: { mode },
    script: (_request, n) => list[n] ?? { hold: true },
  });
  await it.wake();
  await it.pass(300);
  return it;
}

describe('what is ready', () => {
  each(
    'R1',
    'RN1',
    'RN2',
  )('%s', (_fact, { given, when, then }) => {
    let session = played(recordOf(given.plan?.steps ?? [], 'todo'));
    const after = when.map((it) => {
      if (it.happens === 'step_completed')
        session = played(become({ id: String(it.step), status: 'completed' }), session);
      return readyIn(session);
    });
    if (then['ready_after_each']) expect(after).toEqual(then['ready_after_each']);
    else expect(after.at(-1)).toEqual(then['ready']);
    expect(session.plan?.status).toBe('running');
  });

  each('R2a')('%s', async (_fact, { given, when, then }) => {
    const [it] = when;
    const set = { needs: [String(it?.needs)] };
    const edit: EventBody = {
      type: 'plan.edited',
      by: 'person',
      ignored: [],
      changes: [{ what: 'step', step: String(it?.step), set, unset: [] }],
    };
    const session = played([...recordOf(given.plan?.steps ?? [], 'todo'), edit]);
    expect(readyIn(session)).toEqual(then['ready']);
    const fault = session.plan ? describeBrokenNeeds(session.plan, 'en').join() : '';
    for (const id of then['cycle'] as string[]) expect(fault).toContain(id);
  });
});

test('what a person blocked may still be done: what needs it waits, and the reply says how it is unblocked', async () => {
  const steps = [{ id: 'one' }, { id: 'two', needs: ['one'] }].map((step) => ({ ...step, status: 'pending' as const }));
  const blocked = { what: 'status' as const, step: 'one', from: 'pending' as const, to: 'blocked' as const };
  const it = await rig({
    before: [...recordOf(steps, 'todo'), { type: 'plan.edited', by: 'person', ignored: [], changes: [blocked] }],
    config: { mode: 'todo' },
    script: moves({ text: 'sum' }),
  });
  await it.wake();
  expect(it.plan()).toMatchObject({ status: 'waiting', steps: [{ status: 'blocked' }, { status: 'pending' }] });
  expect(it.events().findLast((event) => event.type === 'run.ended')).toMatchObject({
    text: expect.stringMatching(/two needs one, which is blocked[\s\S]*set its "status" to "pending"/),
  });
});

describe('what may be added', () => {
  each(
    'R2b',
    'R3',
    'RN4',
  )('%s', async (_fact, { given, when, then }) => {
    // A run over a plan with a cycle in it ends before it asks; the tool is tried while another step is at work.
    const busy = { steps: [...(given.plan?.steps ?? []), { id: 'step_0', status: 'running' }] };
    const wish = when[0]?.step as { description: string; needs: string[] };
    const it = await on({ plan: busy }, [{ calls: [plan({ command: 'add_step', ...wish })] }]);
    expect(it.plan()?.steps).toHaveLength(Number(then['steps_total']) + 1);
    const reported = it.requests.at(-1)?.messages.findLast((message) => message.role === 'tool')?.content ?? '';
    const reasons = (then['reason_one_of'] ?? [then['reason']]) as string[];
    expect(reasons.some((reason) => reported.includes(reason))).toBe(true);
    for (const id of (then['named'] as string[] | undefined) ?? []) expect(reported).toContain(id);
    expect(it.events().findLast((event) => event.type === 'tool.finished')).toMatchObject({ ok: false });
    if (then['next_step_id']) expect(`step_${played(it.events()).lastStepNumber + 1}`).toBe(then['next_step_id']);
  });

  each(
    'R8a',
    'R8b',
    'R8c',
    'R8d',
  )('%s', async (_fact, { given, when, then }) => {
    const it = await on(given, [{ calls: [plan({ command: 'add_step', steps: when[0]?.add })] }]);
    expect(it.plan()?.steps).toHaveLength(Number(then['steps_total']));
    const reported = it.requests.at(-1)?.messages.findLast((message) => message.role === 'tool')?.content ?? '';
    for (const { reason } of (then['skipped'] as Array<{ reason: string }> | undefined) ?? [])
      expect(reported).toContain(reason);
    for (const step of then['added'] as Array<{ id: string; needs: string[] }>)
      expect(it.plan()?.steps.find((one) => one.id === step.id)).toMatchObject(step);
    for (const id of (then['dropped_needs'] as string[] | undefined) ?? []) expect(reported).toContain(id);
  });

  each('R10')('%s', async (_fact, { given, when }) => {
    const it = await on(given, [
      { calls: [plan({ command: 'mark_step', step: when[0]?.block?.[0], status: 'blocked' })] },
    ]);
    expect(it.plan()?.steps[0]).toMatchObject({ id: 'step_1', status: 'completed' });
    expect(requestText(it)).toContain('step_1 is completed and stays so');
  });
});

describe('how it comes to an end', () => {
  each('R4', 'R6')('%s', async (_fact, { given, when, then }) => {
    let rounds = 0;
    const it = await rig({
      before: recordOf(given.plan?.steps ?? [], 'todo'),
      config: { mode: 'todo' },
      script: ({ tools }) => {
        if (tools.length === 0) return { text: 'Nothing came of it.' };
        rounds += 1;
        return { text: `[Failed: ${when[0]?.error}]` };
      },
    });
    await it.wake();
    await it.pass(300);
    expect(rounds).toBe(3);
    expect(rounds).toBeLessThanOrEqual(Number(then['rounds_at_most'] ?? 20));
    expect(it.plan()).toMatchObject({ status: 'failed', steps: [{ status: 'blocked', attempts: 3, error: 'boom' }] });
    expect(it.types()).toContain('plan.ended');
    expect(it.reply('m0.md')).toMatch(/^status: failed$/m);
    expect(it.reply('m0.md')).toContain('Nothing came of it.');
    expect(it.reply('m0.md')).toContain('boom');
  });

  each('R5')('%s', async (_fact, { given, when }) => {
    const it = await rig({
      config: { mode: 'todo' },
      script: ({ tools }) => ({ text: tools.length === 0 ? (when[0]?.text ?? '') : '[失败：没有记录]' }),
    });
    await it.say('1.md', given.message ?? '');
    await it.pass(300);
    const planned = it.events().filter((event) => event.type === 'model.answered' && event.planner_query === 'plan');
    expect(planned).toHaveLength(2);
    expect(it.plan()?.planned_by).toMatch(/^fallback: /);
    expect(it.plan()?.steps).toMatchObject([{ id: 'step_1', status: 'blocked' }]);
    expect(it.plan()?.steps[0]?.description).toContain('整理会议记录');
    expect(it.plan()?.steps[0]?.attempts).toBeUndefined();
    expect(it.types().filter((type) => type === 'step.failed')).toHaveLength(1);
  });

  each(
    'R7a',
    'R7b',
    'R7c',
  )('%s', (_fact, { given, when, then }) => {
    const session = played(recordOf(given.plan?.steps ?? [], 'todo'));
    const rounds = { endedRounds: given.rounds ?? 0, idleRounds: given.rounds_since_completion ?? 0, iterations: 0 };
    const length = DEFAULT_LIMITS.step_iterations;
    // A round without an end of its item has as many iterations as a step may; the next one ends it.
    let after: Session = { ...session, workRounds: rounds };
    for (let n = 0; n < (when[0]?.count ?? 0) * length + 1; n++) after = played(iteration(after.seq + 1), after);
    const runEnd = nextRunEnd(after);
    if (!then['rests']) return expect(runEnd).toBeUndefined();
    expect(runEnd).toMatchObject({ status: 'paused', reason: then['reason'] });
    expect(runEnd?.text).toContain('"step_2": attempt 1, 21 iterations; tried: shell look');
  });

  each('R9', 'RN3')('%s', async (_fact, { given, then }) => {
    const it = await on(given, [{ text: 'This came of it.' }]);
    expect(it.events().filter((event) => event.type === 'step.started')).toHaveLength(
      recordOf(given.plan?.steps ?? [], 'todo').filter((event) => event.type === 'step.started').length,
    );
    expect(it.plan()?.status).toBe('failed');
    for (const step of (then['steps'] as Step[] | undefined) ?? [])
      expect(it.plan()?.steps.find((one) => one.id === step.id)).toMatchObject(step);
  });

  each('R12')('%s', async (_fact, { given, then }) => {
    const it = await on(given, [{ text: 'A and C, but not B.' }]);
    for (const part of then['summary_prompt_contains'] as string[]) expect(block(it, 0)).toContain(part);
    expect(it.reply('m0.md')).toContain('Error: boom');
  });
});

/** How a run ends where no further call is made; undefined where the next thing is a call. */
function nextRunEnd(session: Session): Extract<EventBody, { type: 'run.ended' }> | undefined {
  const decision = decide(session, resolveRules({ mode: 'todo', limits: { iterations: 500 } }));
  if (decision.do !== 'record') return undefined;
  const runEnd = decision.events.find((event) => event.type === 'run.ended');
  return runEnd?.type === 'run.ended' ? runEnd : nextRunEnd(played(decision.events, session));
}

/** An answer with a call like no other, and its end. */
const iteration = (seq: number): EventBody[] => [
  {
    type: 'model.answered',
    text: `looking further ${seq}`,
    calls: [{ id: `c${seq}`, name: 'shell', args: `{"command":"look ${seq}"}` }],
    usage: { tokens: 1, cost: null },
    model: 'm',
    ms: 1,
    delivered: [],
    seen: 0,
  },
  { type: 'tool.started', call: `${seq}.0`, name: 'shell', args: '{}', replay: 'never' },
  { type: 'tool.finished', call: `${seq}.0`, ok: true, output: { text: `saw ${seq}` }, ms: 1 },
];

describe('the first items', () => {
  each('R11')('%s', async (_fact, { given, then }) => {
    const it = await rig({ config: { mode: 'todo' }, script: () => ({ hold: true }) });
    await it.say('1.md', given.message ?? '');
    expect(block(it)).toContain('第一个事项就是把它查清，或者询问对方');
    expect(block(it)).toContain('绝不编造默认值');
    for (const text of then['no_step_contains'] as string[]) expect(block(it)).not.toContain(text);
    expect(it.requests[0]?.tools).toEqual([]);
  });

  test('more than three are asked for again; then the first three that can do without the rest are taken, and the rest is reported', async () => {
    const steps = ['look', { id: 'b', description: 'draw', needs: ['d'] }, 'ask', { id: 'd', description: 'fetch' }];
    const it = await rig({
      config: { mode: 'todo' },
      script: moves({ text: JSON.stringify({ steps }) }, { text: JSON.stringify({ steps }) }, { hold: true }),
    });
    await it.say('1.md', 'A report');
    await it.pass(300);
    expect(block(it, 1)).toContain('4 steps; 3 are the most');
    expect(it.plan()?.planned_by).toBe('planner; the first 3 of 4 steps');
    expect(it.plan()?.steps.map((step) => step.description)).toEqual(['look', 'ask', 'fetch']);
    expect(it.plan()?.steps[2]?.notes).toContain('draw');
  });

  test('an item whose tag names an agent is done by a child session', async () => {
    const it = await rig({
      config: { mode: 'todo', agents: { search: {} } },
      script: moves({ text: JSON.stringify({ steps: ['[SEARCH] find x'] }) }, { text: 'x is 42' }),
    });
    await it.say('1.md', 'find x');
    it.children.answer('demo~step_1', 'step_1.1', { text: '42' });
    await it.wake();
    await it.pass(300);
    expect(it.plan()).toMatchObject({ status: 'completed', steps: [{ completed_by: 'child', result: '42' }] });
    expect(it.reply('1.md')).toContain('x is 42');
  });
});

describe('the list while it is worked on', () => {
  const two = {
    plan: {
      steps: [
        { id: 'step_1', status: 'running' },
        { id: 'step_2', status: 'pending', needs: ['step_1'] },
      ],
    },
  };

  test('work that is discovered is added, the first ready item is next, and the answer ends it', async () => {
    const it = await on(two, [
      { text: 'Found 3 files.\n[Step] Read the third file\n[Step] Read the fourth file', calls: [shell()] },
      { text: 'Read. [Done]' },
      { text: 'Second. [Done]' },
      { text: 'Third. [Done]' },
      { text: 'Fourth. [Done]' },
      { text: 'All of it.' },
    ]);
    expect(it.plan()).toMatchObject({ status: 'completed' });
    expect(it.plan()?.steps.map((step) => `${step.id} ${step.result}`)).toEqual([
      'step_1 Read.',
      'step_2 Second.',
      'step_3 Third.',
      'step_4 Fourth.',
    ]);
    expect(it.reply('m0.md')).toContain('All of it.');
  });

  test('a failed item is tried again, and the model is told what the last try failed of', async () => {
    const it = await on(two, [{ text: '[Failed: no access]' }]);
    expect(it.plan()?.steps[0]).toMatchObject({ status: 'running', attempts: 2, error: 'no access' });
    expect(block(it)).toContain('failed and is tried again (attempt 2): no access');
  });

  test('an item with an unfinished need is not begun when its need is blocked; undoing the need brings it back', async () => {
    const it = await on(two, [
      { text: '[Failed: a]' },
      { text: '[Failed: b]' },
      { text: '[Failed: c]' },
      { text: 'It did not work.' },
    ]);
    expect(it.plan()?.steps).toMatchObject([
      { status: 'blocked', error: 'c' },
      { status: 'blocked', error: 'needs step_1, which is blocked' },
    ]);
    await it.say('2.md', '/continue');
    await it.pass(300);
    expect(it.plan()).toMatchObject({ status: 'running', steps: [{ status: 'running' }, { status: 'pending' }] });
  });

  test('a model that says it is blocked asks the person, and everything stays as it is', async () => {
    const it = await on(two, [{ text: '[Blocked: which year?]' }]);
    expect(it.plan()).toMatchObject({ status: 'waiting', steps: [{ status: 'blocked' }, { status: 'pending' }] });
    expect(it.reply('m0.md')).toContain('which year?');
  });

  test('what a person calls failed is not tried again', async () => {
    const it = await on(two, []);
    const file = it.plan();
    const steps = file?.steps.map((step) => (step.id === 'step_1' ? { ...step, status: 'failed' } : step));
    it.store.hands.edit(JSON.stringify({ ...file, steps }));
    it.release();
    await it.pass(300);
    expect(it.types()).not.toContain('step.reopened');
    expect(it.plan()?.steps[0]).toMatchObject({ status: 'failed' });
  });

  const many = (n: number) => ({
    plan: {
      steps: Array.from({ length: n }, (_, k) => ({ id: `step_${k + 1}`, status: k === 0 ? 'running' : 'pending' })),
    },
  });

  test('at four fifths of the most the model is asked to merge or close, not before', async () => {
    const asks = '16 of at most 20 items are open';
    expect(block(await on(many(16), []))).toContain(asks);
    expect(block(await on(many(15), []))).not.toContain('items are open');
  });

  test('an item declared beyond the most is left out, and the model is told which', async () => {
    const it = await on(many(19), [{ text: '[Step] Twentieth\n[Step] Twenty-first', calls: [shell()] }]);
    expect(it.plan()?.steps).toHaveLength(20);
    expect(block(it)).toContain('too_many): "Twenty-first"');
  });

  test('it ends after more than three rounds that completed nothing, and names the items and what was tried', async () => {
    const it = await on(
      {
        plan: {
          steps: ['a', 'b', 'c'].map((id, n) => ({
            id: `step_${n + 1}`,
            description: `Fetch ${id}`,
            status: 'pending',
          })),
        },
      },
      Array.from({ length: 9 }, (_, n) => ({ text: `[Failed: no ${n}]` })),
    );
    expect(it.plan()).toMatchObject({ status: 'paused', reason: 'stagnation' });
    const reply = it.reply('m0.md') ?? '';
    expect(reply).toMatch(/^status: paused$/m);
    expect(reply).toContain('6 rounds of work in a row completed nothing');
    expect(reply).toContain('"Fetch c"');
    await it.say('2.md', 'continue with the mirror');
    await it.pass(300);
    expect(it.plan()?.steps.filter((step) => step.status === 'running')).toHaveLength(1);
  });
});

describe('needs that a person broke', () => {
  const three = {
    plan: { steps: [1, 2, 3].map((n) => ({ id: `step_${n}`, status: n === 1 ? 'running' : 'pending' })) },
  };
  const modes: Mode[] = ['linear', 'plan-act', 'todo'];

  async function broken(mode: Mode, needs: Record<string, string[]>): Promise<Rig> {
    const it = await on(
      three,
      [{ hold: true, next: () => ({ text: 'One.', calls: [shell()] }) }, { text: '[Done]' }],
      mode,
    );
    const file = it.plan();
    const steps = file?.steps.map((step) => ({ ...step, ...(needs[step.id] && { needs: needs[step.id] }) }));
    it.store.hands.edit(JSON.stringify({ ...file, steps }));
    it.release();
    await it.pass(300);
    return it;
  }

  test.each(modes)(
    'in %s a cycle is named in the prompt, in the reply and in the summary, and the run waits',
    async (mode) => {
      const it = await broken(mode, { step_2: ['step_3'], step_3: ['step_2'] });
      const cycle = 'step_2 → step_3 → step_2 need each other in a cycle';
      expect(block(it)).toContain(cycle);
      expect(it.plan()).toMatchObject({ status: 'waiting', reason: 'needs' });
      expect(it.plan()?.steps.map((step) => step.status)).toEqual(['completed', 'pending', 'pending']);
      expect(it.reply('m0.md')).toMatch(/^status: waiting$/m);
      expect(it.reply('m0.md')).toContain(cycle);
      const asked = it.requests.length;
      it.drop('2.md', '/status');
      await it.say('3.md', '/continue');
      await it.pass(300);
      expect(it.reply('2.md')).toContain(cycle);
      expect(it.reply('3.md')).toContain(cycle);
      expect(it.requests).toHaveLength(asked);
    },
  );

  test.each(modes)(
    'in %s a need of a step that is not there is named, and the run goes on once it is fixed',
    async (mode) => {
      const it = await broken(mode, { step_2: ['step_9'], step_3: ['step_2'] });
      expect(it.reply('m0.md')).toContain('step_2 needs step_9, and no step has that id');
      const file = it.plan();
      const steps = file?.steps.map((step) => (step.id === 'step_2' ? { ...step, needs: ['step_1'] } : step));
      it.store.hands.edit(JSON.stringify({ ...file, steps }));
      await it.say('2.md', 'continue');
      await it.pass(300);
      expect(it.plan()?.steps[1]).toMatchObject({ status: 'running' });
    },
  );
});

test('a run that is cut after any event ends as it would have', async () => {
  const list: Move[] = [
    { text: 'at it\n[Step] Check it', calls: [shell()] },
    { text: '[Failed: no access]' },
    { text: 'from the mirror', calls: [shell()] },
    { text: 'There. [Done]' },
    { text: '[Failed: a]' },
    { text: '[Failed: b]' },
    { text: '[Failed: c]' },
    { text: 'Fetched, not checked.' },
  ];
  // What is said next depends on what was said before, as with a model; a plan is no turn of the conversation.
  const script = ({
    tools,
    messages,
  }: {
    tools: unknown[];
    messages: Array<{ role: string; content: unknown }>;
  }): Move =>
    tools.length === 0 && !String(messages.at(-1)?.content).includes('All steps have ended')
      ? { text: '{"steps": ["Fetch it"]}' }
      : (list[messages.filter((message) => message.role === 'assistant').length] ?? { text: 'over' });
  const whole = await rig({ config: { mode: 'todo' }, script });
  await whole.say('1.md', 'Fetch and check');
  await whole.pass(300);
  const story = (it: Rig) => [
    it.plan()?.status,
    ...(it.plan()?.steps ?? []).map(({ status, attempts, error, result }) => ({ status, attempts, error, result })),
  ];
  expect(story(whole)).toEqual([
    'failed',
    { status: 'completed', attempts: 2, error: undefined, result: 'There.' },
    { status: 'blocked', attempts: 3, error: 'c', result: undefined },
  ]);
  const events = whole.events().map(({ v: _, seq: __, epoch: ___, at: ____, ...body }) => body as EventBody);
  const received = events.findIndex((event) => event.type === 'message.received') + 1;
  for (let cut = received; cut < events.length; cut++) {
    const it = await rig({ before: events.slice(0, cut), config: { mode: 'todo' }, script });
    await it.wake();
    await it.pass(300);
    expect([cut, ...story(it)]).toEqual([cut, ...story(whole)]);
  }
});

test('every case of ready-steps is looked at', () => {
  expect([...covered].sort()).toEqual(all.map((one) => one.id).sort());
});

test('what is decided on a todo list stays the same when it is decided again', () => {
  const session = played(recordOf([{ id: 'step_1', status: 'failed' }], 'todo'));
  const rules = resolveRules({ mode: 'todo' });
  expect(decide(session, rules)).toEqual(decide(session, rules));
  expect(buildModelRequest(session, rules, [])).toEqual(buildModelRequest(session, rules, []));
});
