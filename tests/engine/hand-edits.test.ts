import { expect, test } from 'vitest';
import type { Plan } from '../../src/protocol/session/plan.ts';
import { givenRecord } from '../support/given.ts';
import { memoryStore } from '../support/memory-store.ts';
import { moves, type Rig, rig, shell } from '../support/rig.ts';

const GIVEN = {
  plan: {
    id: 'plan_1',
    goal: 'Report',
    status: 'paused',
    steps: [
      { id: 'step_1', status: 'completed', description: 'Find', result: '5 links' },
      { id: 'step_2', status: 'running', description: 'Fetch', iterations: 2 },
      { id: 'step_3', status: 'pending', description: 'Draw' },
    ],
  },
};

/** A paused plan on disk, as the daemon wrote it. */
async function paused(): Promise<Rig> {
  const it = await rig({ before: givenRecord(GIVEN), script: moves({ hold: true }) });
  await it.wake();
  return it;
}

async function edit(it: Rig, change: (plan: Plan) => unknown): Promise<void> {
  const plan = it.plan();
  if (!plan) throw new Error('no plan.json');
  it.store.hands.edit(JSON.stringify(change(structuredClone(plan)), null, 4));
  await it.wake();
}

const edited = (it: Rig) => it.events().findLast((event) => event.type === 'plan.edited');

test('a person rewords, adds, reorders and skips steps; the plan takes it and the model is told the difference', async () => {
  const it = await paused();
  await edit(it, (plan) => ({
    ...plan,
    goal: 'A shorter report',
    steps: [
      plan.steps[0],
      { ...plan.steps[2], status: 'skipped' },
      { ...plan.steps[1], description: 'Fetch two of them' },
      { description: 'Mail it' },
    ],
  }));
  expect(it.plan()).toMatchObject({ goal: 'A shorter report' });
  expect(it.plan()?.steps.map((step) => [step.id, step.description, step.status])).toEqual([
    ['step_1', 'Find', 'completed'],
    ['step_3', 'Draw', 'skipped'],
    ['step_2', 'Fetch two of them', 'running'],
    ['step_4', 'Mail it', 'pending'],
  ]);
  await it.say('c.md', 'continue');
  const block = String(it.requests.at(-1)?.messages.at(-1)?.content);
  for (const part of [
    'Fetch two of them',
    'step_4 was added: Mail it',
    'step_3 was set from pending to skipped',
    'the goal is now: A shorter report',
  ])
    expect(block).toContain(part);
});

test('a person closes a step, and may open it again', async () => {
  const it = await paused();
  await edit(it, (plan) => ({
    ...plan,
    steps: plan.steps.map((step) => (step.id === 'step_2' ? { ...step, status: 'completed' } : step)),
  }));
  expect(it.plan()?.steps[1]).toMatchObject({ status: 'completed', completed_by: 'person' });
  await edit(it, (plan) => ({
    ...plan,
    steps: plan.steps.map((step) => (step.id === 'step_1' ? { ...step, status: 'pending' } : step)),
  }));
  expect(it.plan()?.steps[0]?.status).toBe('pending');
  await it.say('c.md', 'continue');
  await it.pass(300);
  expect(it.plan()?.steps[0]?.status).toBe('running');
});

test.each(['failed', 'blocked'] as const)(
  'a completed plan is failed once a person says that a step of it is %s, and "continue" does that step again',
  async (status) => {
    const it = await rig({
      script: moves({ text: '[Step] Export', calls: [shell()] }, { text: '[Done]' }, { hold: true }),
    });
    await it.say('1.md', 'go');
    expect(it.plan()).toMatchObject({ status: 'completed' });
    await edit(it, ({ steps, ...plan }) => ({ ...plan, steps: steps.map((step) => ({ ...step, status })) }));
    expect(it.plan()).toMatchObject({ status: 'failed', reason: 'not reached: step_1' });
    if (status === 'blocked')
      await edit(it, ({ steps, ...plan }) => ({
        ...plan,
        steps: steps.map((step) => ({ ...step, status: 'pending' })),
      }));
    it.drop('2.md', 'continue');
    await it.pass(300);
    expect(it.plan()).toMatchObject({ status: 'running', steps: [{ status: 'running' }] });
  },
);

test('limits a person sets apply from the next budget window on', async () => {
  const it = await rig({ before: givenRecord(GIVEN), script: () => ({ text: '', calls: [shell()] }) });
  await it.wake();
  await edit(it, (plan) => ({ ...plan, limits: { iterations: 2, step_iterations: 20 } }));
  await it.say('c.md', 'continue');
  expect(it.requests).toHaveLength(2);
  await it.say('d.md', 'continue');
  expect(it.requests).toHaveLength(4);
});

test('an edit that closes no step ends no plan: "continue" resumes it, also where all of its steps are closed', async () => {
  const it = await rig({
    script: moves(
      { text: '[Step] A', calls: [shell()] },
      { text: '[Done] a ready', calls: [shell()] },
      { text: 'THE REPORT' },
    ),
  });
  await it.say('1.json', JSON.stringify({ text: 'make the report', options: { limits: { iterations: 2 } } }));
  expect(it.plan()).toMatchObject({ status: 'paused', steps: [{ status: 'completed' }] });
  await edit(it, (plan) => ({ ...plan, limits: { ...plan.limits, iterations: 9 } }));
  await it.say('2.md', 'continue');
  expect(it.plan()).toMatchObject({ status: 'completed', goal: 'make the report' });
  expect(it.reply('2.md')).toContain('THE REPORT');
});

test("status, index and counters of the plan are the daemon's own, and it says so", async () => {
  const it = await paused();
  await edit(it, (plan) => ({ ...plan, status: 'completed', iteration_count: 0 }));
  expect(it.plan()).toMatchObject({ status: 'paused', iteration_count: 2 });
  expect(edited(it)).toMatchObject({
    changes: [],
    ignored: [expect.stringContaining('"status"'), expect.stringContaining('"iteration_count"')],
  });
});

test('a save that does not parse is left alone, work goes on, and the next reply names line and column', async () => {
  const it = await rig({
    before: givenRecord(GIVEN),
    script: moves({ text: 'Fetched. [Done]', calls: [shell()] }, { text: 'Drawn. [Done]' }),
  });
  await it.wake();
  const broken = `${it.store.hands.planText()?.slice(0, 40)}\n  oops`;
  it.store.hands.edit(broken);
  it.worker.wake();
  await it.pass(400);
  await it.pass(400);
  it.drop('c.md', 'continue');
  await it.pass(400);
  expect(it.store.hands.planText()).toBe(broken);
  expect(it.reply('c.md')).toMatch(/line \d+, column \d+/);
  expect(it.types()).toContain('plan.ended');
  it.store.hands.deletePlan();
  await it.say('s.md', '/status');
  expect(it.plan()).toMatchObject({ status: 'completed' });
});

test('a save with a huge result is left alone unparsed, and the next reply says what came', async () => {
  const it = await rig({
    before: givenRecord(GIVEN),
    script: moves({ text: 'Fetched. [Done]' }, { text: 'Drawn. [Done]' }),
  });
  await it.wake();
  const plan = it.plan();
  const steps = plan?.steps.map((step) => ({ ...step, description: 'Other', result: 'x'.repeat(5_000_000) }));
  const save = JSON.stringify({ ...plan, steps });
  it.store.hands.edit(save);
  it.drop('c.md', '/plan');
  await it.pass(400);
  await it.pass(400);
  await it.say('d.md', '/status');
  expect(it.store.hands.planText() === save).toBe(true);
  expect([it.reply('c.md'), it.reply('d.md')].join()).toMatch(
    /at most 4194304 characters[^\n]*got 15\d{6}[^\n]*work continues/,
  );
});

test("a large plan of an earlier version in the file is known as the daemon's own, whatever its size", async () => {
  const result = 'x'.repeat(5_000_000);
  const steps = GIVEN.plan.steps.map((step) => (step.id === 'step_1' ? { ...step, result } : step));
  const before = givenRecord({ plan: { ...GIVEN.plan, steps } });
  const first = await rig({ before, script: moves({ hold: true }) });
  await first.wake();
  const old = first.store.hands.planText() ?? '';
  const removed = { what: 'removed', step: 'step_1', description: 'Find' } as const;
  const edit = { type: 'plan.edited', by: 'person', changes: [removed], ignored: [] } as const;
  const it = await rig({
    before: [...before, { ...edit, changes: [...edit.changes], ignored: [] }],
    script: moves({ hold: true }),
  });
  const events = it.events().length;
  it.store.hands.edit(old);
  await it.say('d.md', '/status');
  expect(old.length).toBeGreaterThan(5_000_000);
  expect(
    it
      .events()
      .slice(events)
      .filter((event) => event.type === 'plan.edited'),
  ).toEqual([]);
  expect(it.plan()?.steps.map((step) => step.id)).toEqual(['step_2', 'step_3']);
});

test('an edit made while the daemon was down is merged against the version it began from', async () => {
  const it = await paused();
  const old = it.plan();
  await it.restart();
  it.store.hands.edit(
    JSON.stringify({
      ...old,
      steps: old?.steps.map((step) => (step.id === 'step_3' ? { ...step, description: 'Draw in blue' } : step)),
    }),
  );
  await it.restart();
  expect(it.plan()?.steps[2]?.description).toBe('Draw in blue');
  expect(edited(it)).toMatchObject({
    changes: [{ what: 'step', step: 'step_3', set: { description: 'Draw in blue' } }],
  });
});

test('a stale copy of our own is no edit', async () => {
  const it = await rig({
    script: moves(
      { text: '[Step] a\n[Step] b', calls: [shell()] },
      { text: 'a is there [Done]', calls: [shell()] },
      { hold: true },
    ),
  });
  await it.say('1.md', 'go');
  await it.pass(300);
  await it.restart();
  expect(it.types()).not.toContain('plan.edited');
});

test('a plan that a person deleted is written again', async () => {
  const it = await paused();
  it.store.hands.deletePlan();
  await it.wake();
  expect(it.plan()).toMatchObject({ id: 'plan_1' });
});

test('another plan saved in its place changes nothing, and is kept', async () => {
  const it = await paused();
  await edit(it, (plan) => ({ ...plan, id: 'plan_other', steps: [] }));
  expect(it.plan()?.steps).toHaveLength(3);
  expect(edited(it)).toMatchObject({ changes: [], ignored: [expect.stringContaining('plan_other')] });
});

test('a plan that the disk refused to put away is put away with the next one', async () => {
  const store = memoryStore('demo', { now: () => new Date() });
  const { archive } = store.plan;
  let refusals = 1;
  store.plan.archive = async (id, content) => {
    if (refusals-- > 0) throw new Error('the disk is full');
    return await archive(id, content);
  };
  const it = await rig({
    store,
    before: givenRecord({ plan: { ...GIVEN.plan, status: 'completed' } }),
    script: moves({ text: '[Step] Say hello', calls: [shell()] }, { text: 'Hello. [Done]' }),
    tool: () => 'hold',
  });
  await it.say('1.md', 'Say hello');
  await it.pass(300);
  it.release();
  await it.pass(300);
  expect(refusals).toBeLessThan(1);
  expect([it.faults, it.archived()]).toEqual([[], ['plan_1']]);
});

/** A run with a call in flight, its plan on disk, and an editor that never reads its file again. */
async function inFlight() {
  const it = await rig({
    script: moves(
      { text: '[Step] Find\n[Step] Fetch', calls: [shell()] },
      { hold: true, next: () => ({ text: 'Found. [Done]' }) },
    ),
  });
  await it.say('1.md', 'go');
  await it.pass(300);
  const buffer = it.plan();
  if (!buffer) throw new Error('no plan.json');
  return {
    it,
    buffer,
    /** Saves the buffer with these steps behind its own. */
    async save(...more: unknown[]) {
      it.store.hands.edit(JSON.stringify({ ...buffer, steps: [...buffer.steps, ...more] }, null, 2));
      await it.wake();
    },
    words: () => it.plan()?.steps.map((step) => step.description),
  };
}

test('a buffer that is saved twice while a call is in flight adds its first step once', async () => {
  const { it, save, words } = await inFlight();
  await save({ description: 'FIRST' });
  await it.say('2.md', 'and hurry');
  await save({ description: 'FIRST' }, { description: 'SECOND' });
  await it.pass(300);
  expect(words()).toEqual(['Find', 'Fetch', 'FIRST', 'SECOND']);
  await save({ description: 'FIRST, in blue' }, { description: 'SECOND' });
  await it.pass(300);
  expect(words()).toEqual(['Find', 'Fetch', 'FIRST, in blue', 'SECOND']);
  expect(it.plan()?.steps.map((step) => step.id)).toEqual(['step_1', 'step_2', 'step_3', 'step_4']);
});

test('a step that was added and taken out again while a call is in flight is gone', async () => {
  const { it, save, words } = await inFlight();
  await save({ description: 'delete the production database' });
  await it.pass(300);
  expect(words()).toContain('delete the production database');
  await save();
  await it.pass(300);
  expect(words()).toEqual(['Find', 'Fetch']);
});

for (const powerCut of [false, true])
  test(`a save that is still in the file after ${powerCut ? 'a power cut' : 'kill -9'} is no second edit`, async () => {
    const { it, save, words } = await inFlight();
    await save({ description: 'FIRST' });
    await it.restart({ powerCut });
    await it.pass(300);
    expect(words()).toEqual(['Find', 'Fetch', 'FIRST']);
    await save({ description: 'FIRST' }, { description: 'SECOND' });
    await it.pass(300);
    expect(words()).toEqual(['Find', 'Fetch', 'FIRST', 'SECOND']);
  });

test('a step taken out of the file while the daemon is down is gone', async () => {
  const { it, buffer, save, words } = await inFlight();
  await save({ description: 'FIRST' });
  it.kill();
  it.store.hands.edit(JSON.stringify(buffer, null, 2));
  await it.restart();
  await it.pass(300);
  expect(words()).toEqual(['Find', 'Fetch']);
});

test('what a person wrote into plan.json is there with its id while the call goes on', async () => {
  const { it, save } = await inFlight();
  await save({ description: 'FIRST' });
  await it.pass(300);
  expect(JSON.parse(it.store.hands.planText() ?? '').steps.at(-1)).toMatchObject({
    id: 'step_3',
    description: 'FIRST',
  });
});

test('what a step of a saved buffer has come to meanwhile stays', async () => {
  const { it, save, buffer } = await inFlight();
  await save({ description: 'FIRST' });
  it.release();
  await it.pass(300);
  const done = it.plan()?.steps[0];
  expect(done?.status).toBe('completed');
  await save({ description: 'FIRST' }, { description: 'SECOND' });
  await it.pass(300);
  expect(it.plan()?.steps[0]).toEqual(done);
  expect(buffer.steps[0]?.status).toBe('running');
});

test('a step set back and forth in one buffer ends as it was saved last', async () => {
  const it = await paused();
  const buffer = it.plan();
  const save = async (status: string) => {
    it.store.hands.edit(
      JSON.stringify({
        ...buffer,
        steps: buffer?.steps.map((one) => (one.id === 'step_3' ? { ...one, status } : one)),
      }),
    );
    await it.wake();
    expect(it.plan()?.steps[2]?.status).toBe(status);
  };
  for (const status of ['completed', 'pending', 'skipped', 'completed', 'pending']) await save(status);
});

test('ids made by hand, changed ids and ids that are there twice stay what they are at the next save', async () => {
  const { it, buffer, save } = await inFlight();
  const [first] = buffer.steps;
  const mine = [
    { id: 'mine', description: 'MINE' },
    { ...first, description: 'COPY', status: 'pending' },
    { id: 'step_9', description: 'NINE' },
  ];
  await save(...mine);
  await it.pass(300);
  const ids = it.plan()?.steps.map((step) => step.id);
  expect(ids).toEqual(['step_1', 'step_2', 'mine', 'step_10', 'step_9']);
  await save(...mine, { description: 'MORE' });
  await it.pass(300);
  expect(it.plan()?.steps.map((step) => step.id)).toEqual([...(ids ?? []), 'step_11']);
  await save({ ...mine[0], id: 'theirs' }, ...mine.slice(1), { description: 'MORE' });
  await it.pass(300);
  expect(it.plan()?.steps.map((step) => [step.id, step.description])).toEqual([
    ['step_1', 'Find'],
    ['step_2', 'Fetch'],
    ['theirs', 'MINE'],
    ['step_10', 'COPY'],
    ['step_9', 'NINE'],
    ['step_11', 'MORE'],
  ]);
});

test('steps moved in one buffer, twice, end in the order that was saved last', async () => {
  const { it, buffer, save } = await inFlight();
  await save({ description: 'A' }, { description: 'B' });
  await it.pass(300);
  await save({ description: 'B' }, { description: 'A' });
  await it.pass(300);
  expect(it.plan()?.steps.map((step) => step.id)).toEqual(['step_1', 'step_2', 'step_4', 'step_3']);
  it.store.hands.edit(
    JSON.stringify({ ...buffer, steps: [{ description: 'A' }, ...buffer.steps, { description: 'B' }] }),
  );
  await it.wake();
  await it.pass(300);
  expect(it.plan()?.steps.map((step) => step.id)).toEqual(['step_3', 'step_1', 'step_2', 'step_4']);
});

test('a plan.json with a byte order mark is read; UTF-16 is named, and what is invisible in a fault is shown', async () => {
  const it = await paused();
  let saves = 0;
  const save = async (text: string) => {
    const name = `s${saves++}.md`;
    it.store.hands.edit(text);
    await it.say(name, '/status');
    return it.reply(name);
  };
  const text = (it.store.hands.planText() ?? '').replace('"Draw"', '"Draw it"');
  expect(await save(`\uFEFF${text}`)).not.toContain('plan.json');
  expect(it.plan()?.steps[2]?.description).toBe('Draw it');
  expect(await save(`\udcff\udcfe${[...text].join('\0')}`)).toContain('looks like UTF-16 text. Save it as UTF-8');
  expect(await save(`\u200b${text}`)).toContain('got "\\u200b"');
});

test.each([
  [
    'a TodoWrite list',
    [
      { content: 'Find', status: 'done' },
      { content: 'Fetch', status: 'in_progress' },
    ],
  ],
  [
    'its object',
    {
      todos: [
        { id: 1, title: 'Find', status: 'Completed' },
        { id: 2, title: 'Fetch', dependencies: [1] },
      ],
    },
  ],
  ['a check list', { tasks: [{ task: 'Find', done: true }, 'Fetch'] }],
])('a plan in the form of another program is read: %s', async (_, saved) => {
  const it = await paused();
  await edit(it, () => saved);
  const open = it.plan()?.steps.filter((step) => ['Find', 'Fetch'].includes(step.description));
  expect(open?.map((step) => step.status === 'completed')).toEqual([true, false]);
});

test('what no step has is said, with the field that may be meant; "done" and "open" are statuses', async () => {
  const it = await paused();
  await edit(it, (plan) => ({
    ...plan,
    steps: [
      { ...plan.steps[0], title: 'Read all' },
      { description: 'Find', status: 'done', nedes: ['step_1'] },
      { description: 'Fetch', status: 'open', nedes: [] },
    ],
  }));
  expect(edited(it)).toMatchObject({
    ignored: [
      '"title" is not a field of a step (step_1); did you mean "description"?',
      '"nedes" is not a field of a step (Find, Fetch); did you mean "needs"?',
    ],
  });
  expect(
    it
      .plan()
      ?.steps.slice(1)
      .map(({ status }) => status),
  ).toEqual(['completed', 'pending']);
});
