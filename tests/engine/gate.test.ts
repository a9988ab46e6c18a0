import { expect, test } from 'vitest';
import type { Permission, ToolContext } from '../../src/engine/ports/tool-ports.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import { unwrapDataBlock } from '../../src/protocol/session/prompt-tags.ts';
import { NO_NOTES } from '../../src/protocol/workspace/memory-notes.ts';
import { type Move, moves, type Rig, type RigOptions, rig } from '../support/rig.ts';

const ALLOW: Permission = { is: 'allow' };
const DENY: Permission = { is: 'deny', why: 'a rule of the settings denies it' };
const ASK: Permission = { is: 'ask', why: 'a rule says so', rule: true, display: 'the call', always: 'spawn' };
const call = (name: string, args: object = {}): Move => ({ calls: [{ name, args }] });
const spawn = (task: string) => ({ name: 'spawn', args: { task } });
/** The call that a permission was asked for, by the name of its tool. */
const only =
  (name: string, permit: Permission): NonNullable<RigOptions['permit']> =>
  (one) =>
    one.name === name ? permit : ALLOW;

async function reported(options: RigOptions, message = 'do it'): Promise<Rig> {
  const it = await rig(options);
  await it.say('1.md', message);
  return it;
}

const received = (it: Rig): string[] =>
  it.requests.at(-1)?.messages.flatMap((one) => (one.role === 'tool' ? [unwrapDataBlock(one.content)] : [])) ?? [];
const starts = (it: Rig) => it.events().filter((event) => event.type === 'tool.started');

test.each([
  ['spawn', { task: 'find x' }],
  ['plan', { command: 'add_step', description: 'a step' }],
  ['ask_user', { question: 'which?' }],
  ['shell', { command: 'ls' }],
])('a call of %s that a rule denies is not begun, and the model is told', async (name, args) => {
  const it = await reported({ script: moves(call(name, args), { text: 'Then not.' }), permit: only(name, DENY) });
  expect(received(it)).toEqual(['denied: a rule of the settings denies it']);
  expect(starts(it)).toEqual([]);
  expect(it.children.sent).toEqual([]);
  expect(it.plan()?.steps ?? []).toEqual([]);
  expect(it.reply('1.md')).toContain('Then not.');
});

test.each([
  [{ folder: 'part' }, { work: '/nowhere/demo/work/part', top: '/nowhere/demo/work' }],
  [{}, { work: '/nowhere/demo/work', top: undefined }],
])('a call of a run with the options %j can see the rules for all of work/', async (options, folders) => {
  const seen: ToolContext[] = [];
  const it = await rig({
    script: moves(call('read_file', { path: 'x' }), { text: 'Read.' }),
    around: (world) => ({
      ...world,
      tools: {
        ...world.tools,
        run(one, context) {
          seen.push(context);
          return world.tools.run(one, context);
        },
      },
    }),
  });
  await it.say('1.json', JSON.stringify({ text: 'do it', options }));
  expect(seen.map(({ work, top }) => ({ work, top }))).toEqual([folders]);
});

test('of several spawn calls one that is denied is told so, and the others work', async () => {
  const it = await reported({
    script: moves({ calls: [spawn('a'), spawn('b'), spawn('c')] }, { text: 'Two of three.' }),
    permit: ({ args }) => (args.includes('"b"') ? DENY : ALLOW),
  });
  expect(it.children.sent.map(({ child }) => child)).toEqual(['demo~step_1', 'demo~step_2']);
  for (const [child, id] of [
    ['demo~step_1', 'step_1.1'],
    ['demo~step_2', 'step_2.1'],
  ] as const)
    it.children.answer(child, id, { text: child });
  await it.wake();
  expect(received(it)).toEqual(['denied: a rule of the settings denies it', 'demo~step_1', 'demo~step_2']);
  expect(it.reply('1.md')).toContain('Two of three.');
});

test('a spawn call that is asked about waits for a person, and begins with their yes', async () => {
  const it = await reported({
    script: moves({ calls: [spawn('find x')] }, { text: 'Found.' }),
    permit: only('spawn', ASK),
  });
  expect(it.reply('1.md')).toContain('status: waiting');
  expect(it.children.sent).toEqual([]);
  await it.say('2.md', 'yes');
  expect(it.children.sent).toHaveLength(1);
  it.children.answer('demo~step_1', 'step_1.1', { text: '42' });
  await it.wake();
  expect(it.reply('2.md')).toContain('Found.');
});

test('a list of parts that a rule denies fails its step, and is not asked for again and again', async () => {
  const steps = [{ id: 'each', description: 'Read them', each: { folder: 'secret' } }];
  const it = await reported({
    config: { mode: 'map-reduce' },
    script: moves({ text: JSON.stringify({ steps }) }, { text: 'It cannot be done.' }),
    permit: only('parts', DENY),
  });
  expect(it.toolRuns).toEqual([]);
  expect(it.plan()?.steps[0]).toMatchObject({ status: 'failed', error: expect.stringContaining('denied') });
});

const clerk = { agents: { clerk: { tools: ['read_file', 'spawn'] } } };
const asClerk = JSON.stringify({ text: 'do it', options: { agent: 'clerk' } });

async function byClerk(first: Move, more: Partial<RigOptions> = {}): Promise<Rig> {
  const it = await rig({
    tools: ['shell', 'read_file', 'web_fetch'],
    config: clerk,
    script: moves(first, { text: 'Then not.' }),
    ...more,
  });
  await it.say('1.json', asClerk);
  return it;
}

test('a tool that the profile of an agent does not name is not run, and the model is told what it has', async () => {
  const it = await byClerk(call('shell', { command: 'ls' }));
  expect(it.toolRuns).toEqual([]);
  expect(received(it)).toEqual(['The agent "clerk" has no tool `shell`. It has: plan, spawn, read_file.']);
  expect((await byClerk(call('read_file', { path: 'a' }))).toolRuns).toHaveLength(1);
});

test('a tool that settings withhold, and those of the daemon itself, are not run where a model names them', async () => {
  const withheld = { ...NO_NOTES, withheldTools: ['recall'] };
  for (const name of ['recall', 'check', 'parts']) {
    const it = await reported({
      tools: ['shell', 'recall'],
      notes: () => withheld,
      script: moves(call(name, { command: 'ls' }), { text: 'Then not.' }),
    });
    expect(it.toolRuns).toEqual([]);
    expect(received(it)).toEqual([`No tool \`${name}\`. There are: plan, ask_user, spawn, shell.`]);
  }
});

test('the toolbox is told what the model may call, for the answer to a call of what there is not', async () => {
  const told: unknown[] = [];
  const it = await rig({
    tools: ['shell'],
    script: moves(call('nope', {}), { text: 'Then not.' }),
    around: (ports) => ({
      ...ports,
      tools: {
        ...ports.tools,
        run: async (_call, { offered }) => {
          told.push(offered);
          return { ok: false, text: 'none' };
        },
      },
    }),
  });
  await it.say('1.md', 'do it');
  expect(told).toEqual([['plan', 'ask_user', 'spawn', 'shell']]);
});

test.each(['nobody', 'constructor'])('a run of the agent %s, whom no settings know, has no tools', async (agent) => {
  const it = await rig({ tools: ['shell'], script: moves(call('shell', { command: 'ls' }), { text: 'Then not.' }) });
  await it.say('1.json', JSON.stringify({ text: 'do it', options: { agent } }));
  expect(it.requests[0]?.tools.map(({ name }) => name)).toEqual(['plan']);
  expect(it.toolRuns).toEqual([]);
  expect(received(it)[0]).toContain(`The agent "${agent}", which this run is to be done by, is not in the settings`);
});

test('the name of an agent means the same profile in any case', async () => {
  const it = await rig({ tools: ['shell'], config: clerk, script: moves(call('shell'), { text: 'no' }) });
  await it.say('1.json', JSON.stringify({ text: 'do it', options: { agent: 'CLERK' } }));
  expect(it.toolRuns).toEqual([]);
});

test('a child session has no more tools than the agent that gave it its work', async () => {
  const it = await byClerk({ calls: [spawn('list the files')] });
  expect(it.children.sent[0]?.message.options?.agent).toBe('clerk');
});

test.each([
  ['a command', { command: 'rm -rf x' }, 'shell'],
  ['an address', { url: 'https://example.org/x' }, 'web_fetch'],
  ['the content of a file', { file: 'a', matches: 'x' }, 'read_file'],
])('%s in a check takes the tool that would do the same, unless a person wrote it', async (_, check, tool) => {
  const script = moves(
    { text: '[Step] look', calls: [{ name: 'list_files', args: {} }] },
    call('plan', { command: 'update', step: 'step_1', done_when: [check] }),
    { text: '[Done]' },
    { text: 'I stop here.' },
  );
  const config = { agents: { clerk: { tools: ['list_files'] } } };
  const it = await byClerk({}, { script, config });
  expect(it.toolRuns.map(({ name }) => name)).toEqual(['list_files']);
  expect(it.events().find((event) => event.type === 'step.claimed' && event.veto)).toMatchObject({
    evidence: expect.stringContaining(`has no tool \`${tool}\``),
  });

  const scripted = moves(
    { text: '[Step] look', calls: [{ name: 'list_files', args: {} }] },
    { hold: true, next: () => ({ text: '[Done]' }) },
    { text: 'Looked.' },
  );
  const theirs = await byClerk({}, { script: scripted, config });
  await byHand(theirs, [check]);
  await theirs.letGo();
  expect(theirs.toolRuns.map(({ name }) => name)).toEqual(['list_files', 'check']);
});

test.each([
  [false, ['read_file', 'check']],
  [true, ['read_file']],
])('the check of a person is their own word, unless a rule says that it is asked about (%s)', async (rule, ran) => {
  const script = moves(
    { text: '[Step] look', calls: [{ name: 'read_file', args: { path: 'a' } }] },
    { hold: true, next: () => ({ text: '[Done]' }) },
    { text: 'Looked.' },
  );
  const it = await reported({ script, permit: only('check', { ...ASK, rule }) });
  await byHand(it, [{ command: 'make test' }]);
  await it.letGo();
  expect(it.toolRuns.map(({ name }) => name)).toEqual(ran);
  expect(it.types().includes('approval.asked')).toBe(rule);
});

async function byHand(it: Rig, done_when: object[]): Promise<void> {
  await it.pass(5000);
  const plan = it.plan();
  const steps = plan?.steps.map((step) => (step.id === 'step_1' ? { ...step, done_when } : step));
  it.store.hands.edit(JSON.stringify({ ...plan, steps }));
  await it.wake();
  expect(it.events().at(-1)).toMatchObject({ type: 'plan.edited', ignored: [] });
}

const record = (it: Rig): EventBody[] =>
  it.events().map(({ v: _, seq: __, epoch: ___, at: ____, ...body }) => body as EventBody);

test('an approval of another call, by its hash, opens nothing', async () => {
  const options: RigOptions = {
    script: moves(call('shell', { command: 'git push' }), { text: 'It is pushed.' }),
    permit: only('shell', ASK),
  };
  const first = await reported(options);
  const before = record(first).map((event) =>
    event.type === 'approval.asked' ? { ...event, hash: '0'.repeat(64) } : event,
  );
  const it = await rig({ ...options, script: moves({ text: 'It is pushed.' }), before });
  await it.say('2.md', 'yes');
  expect(it.toolRuns).toEqual([]);
  expect(it.events().filter((event) => event.type === 'approval.asked')).toHaveLength(2);
});

test('a call that a crash left open runs again only where the rules still let it', async () => {
  const script = moves(call('web_fetch', { url: 'https://example.org' }), { text: 'Then not.' });
  for (const [replay, rule] of [
    ['safe', DENY],
    ['safe', ASK],
    ['never', DENY],
    ['never', ASK],
  ] as const) {
    const first = await reported({ script, replay: () => replay, tool: () => 'hold' });
    expect(first.types().at(-1)).toBe('tool.started');
    const it = await rig({
      script: moves({ text: 'ok' }),
      replay: () => replay,
      permit: () => rule,
      before: record(first),
    });
    await it.wake();
    expect(it.toolRuns).toEqual([]);
    expect(it.resumed).toMatchObject([{ name: 'web_fetch', mayBegin: false }]);
    expect(it.events().find((event) => event.type === 'tool.interrupted')).toMatchObject({ outcome: 'unknown' });
  }
});

test('a call that was approved before the crash runs again without being asked about', async () => {
  const script = moves(call('web_fetch', { url: 'https://example.org' }), { text: 'Fetched.' });
  const options: RigOptions = { script, replay: () => 'safe', permit: () => ASK, tool: () => 'hold' };
  const first = await reported(options);
  await first.say('2.md', 'yes');
  const { tool: _, ...again } = options;
  const it = await rig({ ...again, script: moves({ text: 'Fetched.' }), before: record(first) });
  await it.wake();
  expect(it.toolRuns).toHaveLength(1);
  expect(it.reply('2.md')).toContain('Fetched.');
});

test('the check of a step that got the id of one a person had checks for asks like any other', async () => {
  const first = await reported({
    script: moves({ text: '[Step] look', calls: [{ name: 'read_file' }] }, { hold: true }),
  });
  await byHand(first, [{ command: 'make test' }]);
  const before: EventBody[] = [
    ...record(first),
    {
      type: 'plan.revised',
      reason: 'again',
      changes: [
        { what: 'removed', step: 'step_1', description: 'look' },
        {
          what: 'added',
          step: {
            id: 'step_1',
            description: 'clean',
            status: 'pending',
            done_when: [{ command: 'rm -rf x', exit: 0 }],
          },
          at: 0,
        },
      ],
    },
  ];
  const it = await rig({
    script: moves({ text: '[Done]' }, { text: 'no' }),
    permit: only('check', { ...ASK, rule: false }),
    before,
  });
  await it.wake();
  expect(it.toolRuns).toEqual([]);
  expect(it.events().find((event) => event.type === 'approval.asked')).toMatchObject({ name: 'check' });
});
