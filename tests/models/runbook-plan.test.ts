import { expect, test } from 'vitest';
import { answerRunbook } from '../../src/models/built-in/runbook-model.ts';
import { type Rig, type RigOptions, rig } from '../support/rig.ts';

/** A session whose model is the runbook; `exits` are the codes of commands that fail. */
const setup = (exits: Record<string, number>, tool?: RigOptions['tool']) =>
  rig({
    script: ({ messages }) => {
      const { text, calls } = answerRunbook({ messages, tools: ['shell', 'plan'] });
      return { text, calls: calls.map(({ name, args }) => ({ name, args: JSON.parse(args) })) };
    },
    tool:
      tool ??
      (({ args }) => {
        const { command } = JSON.parse(args);
        const code = exits[command] ?? 0;
        return { ok: code === 0, text: `exit ${code}\nout of ${command}` };
      }),
  });

async function send(at: Rig, name: string, text: string) {
  await at.say(name, text);
  await at.settle();
}

const steps = (at: Rig) => at.plan()?.steps.map(({ description, status, result }) => [description, status, result]);
const commands = (at: Rig) => at.toolRuns.map(({ args }) => JSON.parse(args).command);

/** A step by the event log: the last command that ended before its completion, and how it ended. */
function lastCommandBefore(at: Rig, description: string) {
  const events = at.events();
  const id = at.plan()?.steps.find((step) => step.description === description)?.id;
  const end = events.findIndex((event) => event.type === 'step.completed' && event.step === id);
  const last = events.slice(0, end).findLast((event) => event.type === 'tool.finished');
  return end >= 0 && last?.type === 'tool.finished' && 'text' in last.output ? last.output.text : undefined;
}

test('a changed list sent after a failure ends each of its own steps, and none of the old list by mistake', async () => {
  const at = await setup({ 'make old': 2 });
  await send(at, '1.md', '1. Prepare: `prep`\n2. Build: `make old`\n3. Test: `test old`');
  expect(steps(at)?.map(([, status]) => status)).toEqual(['completed', 'blocked', 'pending']);
  await send(at, '2.md', '1. Prepare: `prep more`\n2. Build: `make new`\n3. Ship: `ship`');
  expect(commands(at)).toEqual(['prep', 'make old', 'prep more', 'make new', 'ship']);
  expect(steps(at)).toEqual([
    ['Prepare', 'completed', 'out of prep'],
    ['Build', 'skipped', undefined],
    ['Test', 'skipped', undefined],
    ['Prepare (2)', 'completed', 'out of prep more'],
    ['Build (2)', 'completed', 'out of make new'],
    ['Ship', 'completed', 'out of ship'],
  ]);
  expect(at.plan()?.status).toBe('completed');
  for (const [name, command] of [
    ['Prepare (2)', 'prep more'],
    ['Build (2)', 'make new'],
    ['Ship', 'ship'],
  ] as const)
    expect(lastCommandBefore(at, name)).toBe(`exit 0\nout of ${command}`);
  expect(at.faults).toEqual([]);
});

test('a changed list whose build fails again completes no build, and after "continue" the same command is run', async () => {
  const exits: Record<string, number> = { 'make old': 2, 'make new': 1 };
  const at = await setup(exits);
  await send(at, '1.md', '1. Prepare: `prep`\n2. Build: `make old`');
  await send(at, '2.md', '1. Clean: `clean`\n2. Build: `make new`');
  expect(steps(at)?.map(([name, status]) => [name, status])).toEqual([
    ['Prepare', 'completed'],
    ['Build', 'skipped'],
    ['Clean', 'completed'],
    ['Build (2)', 'blocked'],
  ]);
  exits['make new'] = 0;
  await send(at, '3.md', 'continue');
  expect(commands(at).slice(-3)).toEqual(['clean', 'make new', 'make new']);
  expect(steps(at)?.at(-1)).toEqual(['Build (2)', 'completed', 'out of make new']);
});

test('a third list, and descriptions that do not fit into a tag, keep their own outcomes', async () => {
  const at = await setup({ b1: 1, b2: 1 });
  const list = (b: string) => `- Write [x]: \`a\`\n- Say "hi": \`${b}\`\n- step_1: \`c\``;
  for (const n of [1, 2, 3]) await send(at, `${n}.md`, list(`b${n}`));
  expect(commands(at)).toEqual(['a', 'b1', 'a', 'b2', 'a', 'b3', 'c']);
  const closed = steps(at) ?? [];
  expect(
    closed.filter(([, status]) => status === 'completed').map(([, , result]) => result?.replace(/^.*out/, 'out')),
  ).toEqual(['out of a', 'out of a', 'out of a', 'out of b3', 'out of c']);
  expect(at.plan()?.status).toBe('completed');
});

test('a newer list is worked through although a person added a step in front', async () => {
  const at = await setup({ two: 1 });
  await send(at, '1.md', '1. One: `one`\n2. Two: `two`\n3. Three: `three`');
  const plan = at.plan();
  const mine = { id: 'mine', description: 'Ask the boss', status: 'running' };
  const theirs = plan?.steps.map((step) => (step.status === 'blocked' ? { ...step, status: 'pending' } : step)) ?? [];
  at.store.hands.edit(JSON.stringify({ ...plan, steps: [mine, ...theirs] }));
  await send(at, '2.md', '1. Four: `four`');
  expect(steps(at)?.find(([name]) => name === 'Four')).toEqual(['Four', 'completed', 'out of four']);
});

test('a list that is sent after a finished one keeps its names', async () => {
  const at = await setup({});
  for (const n of [1, 2]) await send(at, `${n}.md`, '1. Count: `count`\n2. Sort: `sort`');
  expect(steps(at)).toEqual([
    ['Count', 'completed', 'out of count'],
    ['Sort', 'completed', 'out of sort'],
  ]);
});

test('after a failure the bare command /continue runs the failed step again', async () => {
  const exits: Record<string, number> = { build: 1 };
  const at = await setup(exits);
  await send(at, '1.md', '1. Prepare: `prep`\n2. Build: `build`\n3. Test: `test`');
  await send(at, '2.md', '/continue');
  expect(commands(at)).toEqual(['prep', 'build', 'build']);
  exits.build = 0;
  await send(at, '3.md', '/continue');
  expect(commands(at)).toEqual(['prep', 'build', 'build', 'build', 'test']);
  expect(at.plan()?.status).toBe('completed');
});

test('a failed step that a person closes is skipped: the next one runs, and no other step is marked as failed', async () => {
  const at = await setup({ build: 1 });
  await send(at, '1.md', '1. Prepare: `prep`\n2. Build: `build`\n3. Test: `test`\n4. Ship: `ship`');
  await send(at, '2.md', '/plan done 2');
  await send(at, '3.md', '/continue');
  expect(commands(at)).toEqual(['prep', 'build', 'test', 'ship']);
  expect(steps(at)?.map(([, status]) => status)).toEqual(['completed', 'completed', 'completed', 'completed']);
  expect(at.plan()?.steps[3]?.evidence).toContain('2. Build: ended by someone else');
});

test('steps that a person reopens or moves run in the order of the plan', async () => {
  const at = await setup({ build: 1 });
  await send(at, '1.md', '1. Prepare: `prep`\n2. Build: `build`\n3. Test: `test`\n4. Ship: `ship`');
  await send(at, '2.md', '/plan move 4 2');
  await send(at, '3.md', '/plan undo');
  await send(at, '4.md', '/continue');
  expect(commands(at).slice(2)).toEqual(['prep', 'ship', 'build']);
});

test.each([
  ['Count', 'Sort', '/undo'],
  ['数一数', '排序', '/undo'],
  ['Count', 'Sort', 'plan.json'],
])('%s, %s: a step reopened by %s runs again after one bare /continue, whichever it is', async (first, last, how) => {
  const at = await setup({});
  await send(at, '1.md', `1. ${first}: \`count\`\n2. ${last}: \`sort\``);
  for (const [name, steps, again] of [
    ['last', [last], ['sort']],
    ['both', [last, first], ['count', 'sort']],
  ] as const) {
    const before = commands(at).length;
    for (const step of steps) if (how === '/undo') await send(at, `${name} ${step}.md`, how);
    if (how === 'plan.json') {
      const plan = at.plan();
      const reopened = plan?.steps.map((one) =>
        (steps as readonly string[]).includes(one.description) ? { ...one, status: 'pending' } : one,
      );
      at.store.hands.edit(JSON.stringify({ ...plan, steps: reopened }));
    }
    await send(at, `${name}.md`, '/continue');
    expect(commands(at).slice(before)).toEqual(again);
    expect(at.plan()?.status).toBe('completed');
  }
});

test('a command that a person cancelled says nothing about an earlier step that they reopen', async () => {
  const at = await setup({}, ({ args }, n) => (n === 1 ? 'hold' : { ok: true, text: `exit 0\nout of ${args}` }));
  at.drop('1.md', '1. Count: `count`\n2. Sort: `sort`');
  await at.pass(300);
  await send(at, '2.md', '/cancel');
  await send(at, '3.md', '/undo');
  await send(at, '4.md', '/continue');
  expect(commands(at)).toEqual(['count', 'sort', 'count', 'sort']);
  expect(at.plan()?.status).toBe('completed');
});

test('a step whose check fails is not rerun automatically: the list waits, and one /continue runs it', async () => {
  // The check is a call without a command.
  const exits: Record<string, number> = { count: 1, undefined: 1 };
  const at = await setup(exits);
  const ran = () => commands(at).filter((command) => command !== undefined);
  await send(at, '1.md', '1. Count: `count`\n2. Sort: `sort`');
  const plan = at.plan();
  const steps = plan?.steps.map((one) => (one.id === 'step_2' ? { ...one, done_when: [{ file: 'work/x' }] } : one));
  at.store.hands.edit(JSON.stringify({ ...plan, steps }));
  exits.count = 0;
  await send(at, '2.md', '/continue');
  expect(ran()).toEqual(['count', 'count', 'sort']);
  expect(at.reply('2.md')).toContain('Its command succeeded, but a check failed: exit 1.');
  await send(at, '3.md', '/continue');
  expect(ran()).toEqual(['count', 'count', 'sort', 'sort']);
});

test('a question during a paused list, and a message after a cancelled one, run none of its commands', async () => {
  const at = await setup({ build: 1 });
  await send(at, '1.md', '1. Prepare: `prep`\n2. Build: `build`\n3. Test: `test`');
  await send(at, '2.md', '/pause');
  await send(at, '3.md', 'How is it going?');
  expect(at.reply('3.md')).toContain('no AI, so it cannot answer questions');
  await send(at, '4.md', '/continue');
  expect(commands(at)).toEqual(['prep', 'build', 'build']);
  await send(at, '5.md', '/cancel');
  await send(at, '6.md', 'hello');
  expect(commands(at)).toEqual(['prep', 'build', 'build']);
});
