import { expect, test } from 'vitest';
import { unwrapDataBlock } from '../../src/protocol/session/prompt-tags.ts';
import { moves, type Rig, rig, shell } from '../support/rig.ts';

/** What the model got as results of its calls, in the last request. */
const toolResults = (on: Rig): string[] =>
  on.requests.at(-1)?.messages.flatMap((one) => (one.role === 'tool' ? [unwrapDataBlock(one.content)] : [])) ?? [];

const spawn = (task: string, more: object = {}) => ({ name: 'spawn', args: { task, ...more } });

test('a spawn call is a step of a child session, and ends with its answer', async () => {
  const on = await rig({ script: moves({ text: 'I ask for help.', calls: [spawn('Find x')] }, { text: 'x is 42.' }) });
  await on.say('1.md', 'What is x?');
  expect(on.children.sent).toMatchObject([
    { child: 'demo~step_1', message: { id: expect.stringMatching(/^step_1\.1-\d+$/), from: 'demo' } },
  ]);
  expect(on.children.sent[0]?.message.text).toContain('Find x');
  expect(on.plan()).toMatchObject({ steps: [{ description: 'Find x', status: 'running', child: 'demo~step_1' }] });
  on.children.answer('demo~step_1', 'step_1.1', { text: '42', attachments: ['work/x.md'] });
  await on.wake();
  expect(on.plan()).toMatchObject({ status: 'completed', steps: [{ status: 'completed', result: '42' }] });
  expect(toolResults(on)[0]).toBe('42\nFiles: work/x.md');
  expect(on.reply('1.md')).toContain('x is 42.');
});

test('spawn calls of one answer work side by side, as many as the limit allows, in folders of their own', async () => {
  const on = await rig({
    config: { limits: { steps: 2 } },
    script: moves({ text: '', calls: [spawn('A'), spawn('B'), spawn('C')] }, { text: 'Done.' }),
  });
  await on.say('1.md', 'three things');
  expect(on.children.sent.map((one) => one.child)).toEqual(['demo~step_1', 'demo~step_2']);
  expect(on.children.sent[0]?.message.options?.folder).toBe('step_1');
  on.children.answer('demo~step_2', 'step_2.1', { text: 'b' });
  await on.wake();
  expect(on.children.sent.map((one) => one.child)).toEqual(['demo~step_1', 'demo~step_2', 'demo~step_3']);
  on.children.answer('demo~step_1', 'step_1.1', { text: 'a' });
  on.children.answer('demo~step_3', 'step_3.1', { text: 'c' });
  await on.wake();
  expect(toolResults(on)).toEqual(['b', 'a', 'c']);
  expect(on.reply('1.md')).toContain('Done.');
});

test('the failure of a spawned step is reported to the model, and does not fail what it reaches by another way', async () => {
  const on = await rig({
    script: moves(
      { text: '', calls: [spawn('A')] },
      { text: '[Step] another way', calls: [shell()] },
      { text: 'Reached. [Done]' },
    ),
  });
  await on.say('1.md', 'reach it');
  on.children.answer('demo~step_1', 'step_1.1', { status: 'failed', text: 'no way' });
  await on.wake();
  expect(toolResults(on)[0]).toBe('step_1 is failed: demo~step_1: no way');
  expect(on.plan()).toMatchObject({ status: 'completed', steps: [{ status: 'failed' }, { status: 'completed' }] });
  expect(on.reply('1.md')).toContain('status: done');
  expect(on.reply('1.md')).toContain('Reached.\n\nNote: failed: A (demo~step_1: no way)');
});

test.each([
  ['no task', { name: 'spawn', args: {} }, 'task'],
  ['a text for an object', { name: 'spawn', args: 'find x' }, 'expected object, got "find x"'],
  ['an agent nobody has', spawn('x', { agent: 'ghost' }), 'There is no agent "ghost". Agents: search.'],
])('a spawn call with %s is refused in words that help to fix it', async (_, call, words) => {
  const on = await rig({
    config: { agents: { search: {} } },
    script: moves({ text: '', calls: [call] }, { text: 'Done.' }),
  });
  await on.say('1.md', 'x');
  expect(on.requests[1]?.messages.find((one) => one.role === 'tool')?.content).toContain(words);
  expect(on.children.sent).toEqual([]);
});

test('a session five deep has no spawn tool, and a call of it is refused', async () => {
  const on = await rig({
    name: 'demo~a~b~c~d~e',
    script: moves({ text: '', calls: [spawn('deeper')] }, { text: 'Done.' }),
  });
  await on.say('1.md', 'x');
  expect(on.requests[0]?.tools.map((tool) => tool.name)).not.toContain('spawn');
  expect(on.requests[1]?.messages.find((one) => one.role === 'tool')?.content).toContain('5 deep');
});

test('a stop reaches the child of a spawn call, and "continue" goes on with it', async () => {
  const on = await rig({ script: moves({ text: '', calls: [spawn('A')] }, { text: 'It found a.' }) });
  await on.say('1.md', 'x');
  on.drop('2.md', '/stop');
  await on.wake();
  expect(on.children.sent.at(-1)?.message).toMatchObject({ command: 'stop' });
  on.children.answer('demo~step_1', 'step_1.1', { status: 'paused', reason: 'stopped', text: 'stopped' });
  await on.wake();
  expect(on.reply('1.md')).toContain('status: paused');
  on.drop('3.md', 'continue');
  await on.wake();
  const reported = on.children.sent.at(-1)?.message;
  expect(reported).toMatchObject({ command: 'continue' });
  on.children.answer('demo~step_1', reported?.id ?? '', { text: 'a' });
  await on.wake();
  expect(on.plan()).toMatchObject({ status: 'completed', steps: [{ status: 'completed', result: 'a' }] });
  expect(on.reply('3.md')).toContain('It found a.');
});

test('a step that a person skips while its child works is let go, and the child is told to end', async () => {
  const on = await rig({ script: moves({ text: '', calls: [spawn('A')] }, { text: 'Then not.' }) });
  await on.say('1.md', 'x');
  on.store.hands.edit(
    on.store.hands.planText()?.replace('"status": "running",\n      "child"', '"status": "skipped",\n      "child"') ??
      '',
  );
  await on.wake();
  expect(on.children.sent.at(-1)?.message).toMatchObject({ command: 'cancel' });
  expect(on.reply('1.md')).toContain('Then not.');
});

test('a plan that made room for another goes on with its own child session, and the other has one of its own', async () => {
  const on = await rig({
    script: moves(
      { text: '', calls: [spawn('find x')] },
      { text: '', calls: [spawn('find y')] },
      { text: 'y is 2.' },
      { text: 'x is 1.' },
    ),
  });
  await on.say('1.md', 'What is x?');
  const first = on.plan()?.id;
  await on.say('2.md', '/stop');
  on.children.answer('demo~step_1', 'step_1.1', { status: 'paused', reason: 'stopped', text: 'stopped' });
  await on.wake();
  await on.say('3.md', 'New task: what is y?');
  expect(on.children.sent.at(-1)).toMatchObject({ child: 'demo~step_1+2' });
  expect(on.plan()?.steps[0]).toMatchObject({ child: 'demo~step_1+2' });
  on.children.answer('demo~step_1+2', 'step_1.1', { text: '2' });
  await on.wake();
  expect(on.reply('3.md')).toContain('y is 2.');
  await on.say('4.md', `/continue ${first}`);
  expect(on.children.sent.at(-1)).toMatchObject({ child: 'demo~step_1', message: { command: 'continue' } });
  on.children.answer('demo~step_1', on.children.sent.at(-1)?.message.id ?? '', { text: '1' });
  await on.wake();
  expect(on.reply('4.md')).toContain('x is 1.');
  expect(on.plan()).toMatchObject({ id: first, status: 'completed', steps: [{ result: '1' }] });
});

test.each(['/undo', 'not done yet, the blue one is missing'])(
  'after "%s" a step begun by spawn is open again, and its child is told why',
  async (words) => {
    const on = await rig({
      script: moves({ text: '', calls: [spawn('Find x')] }, { text: 'x is 42.' }, { text: 'x is 43.' }),
    });
    await on.say('1.md', 'What is x?');
    on.children.answer('demo~step_1', 'step_1.1', { text: '42' });
    await on.wake();
    expect(await on.say('2.md', words)).toContain('Find x');
    await on.say('3.md', '/continue');
    expect(on.children.sent.at(-1)?.message.text).toContain('opened it again');
    on.children.answer('demo~step_1', 'step_1.2', { text: '43' });
    await on.wake();
    expect(on.plan()).toMatchObject({ status: 'completed', steps: [{ status: 'completed', result: '43' }] });
    expect(on.reply('3.md')).toMatch(/status: done/);
  },
);

test('a plan whose only step was begun by spawn and failed is failed, and "continue" tries the step again', async () => {
  const on = await rig({
    script: moves({ text: '', calls: [spawn('A')] }, { text: 'It is over. [Done]' }, { text: 'Now it is there.' }),
  });
  await on.say('1.md', 'reach it');
  on.children.answer('demo~step_1', 'step_1.1', { status: 'failed', text: 'no way' });
  await on.wake();
  expect(on.reply('1.md')).toMatch(/status: failed/);
  expect(on.plan()).toMatchObject({ status: 'failed', steps: [{ status: 'failed' }] });
  await on.say('2.md', 'continue');
  on.children.answer('demo~step_1', 'step_1.2', { text: 'found' });
  await on.wake();
  expect(on.plan()).toMatchObject({ status: 'completed', steps: [{ status: 'completed', result: 'found' }] });
  expect(on.reply('2.md')).toMatch(/status: done/);
});
