import { expect, test } from 'vitest';
import { elideOldOutputs } from '../../src/core/prompt/context-window.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import { isDaemonBlock, unwrapDataBlock } from '../../src/protocol/session/prompt-tags.ts';
import { type Move, moves, type Rig, type RigOptions, rig, shell } from '../support/rig.ts';

const ask = (question: string, choices?: string[]) => ({
  name: 'ask_user',
  args: { question, ...(choices && { choices }) },
});
const FORMAT = ask('Which format?', ['CSV', 'JSON']);

/** A run that has asked, and what the model says after the answer. */
async function asked(options: Partial<RigOptions> = {}, call = FORMAT) {
  const it = await rig({
    script: moves(
      { text: '[Step] Export\n[Step] Send', calls: [call] },
      { text: 'Exported. [Done]' },
      { text: 'Sent. [Done]' },
    ),
    ...options,
  });
  await it.say('1.json', '{"text":"export the table"}');
  return it;
}
const reported = (it: Rig) => {
  const last = it.requests.at(-1)?.messages ?? [];
  return last.findLast((message) => message.role === 'tool')?.content;
};
const people = (it: Rig) =>
  (it.requests.at(-1)?.messages ?? []).filter((one) => one.role === 'user' && !isDaemonBlock(one.content));
const results = (it: Rig) => it.events().filter((event) => event.type === 'tool.finished');

test('a question ends the run, with its choices numbered for people and as data', async () => {
  const it = await asked();
  const reply = JSON.parse(it.reply('1.json') ?? '');
  expect(reply).toMatchObject({
    status: 'waiting',
    reason: 'question',
    text: 'Which format?\n\n1. CSV\n2. JSON',
    question: { text: 'Which format?', choices: ['CSV', 'JSON'] },
  });
  expect(it.plan()).toMatchObject({ status: 'waiting', reason: 'Which format?' });
  expect(it.requests).toHaveLength(1);
  expect(results(it)).toEqual([]);
});

test('the answer is the result of the call and no new task, and the same step goes on', async () => {
  const it = await asked();
  await it.say('2.md', 'as a table, please\n');
  expect(reported(it)).toMatch(/^The person answered:\nas a table, please/);
  expect(people(it)).toHaveLength(1);
  expect(it.requests).toHaveLength(3);
  expect(it.events().filter((event) => event.type === 'plan.started')).toHaveLength(1);
  expect(it.plan()).toMatchObject({ status: 'completed', iteration_count: 3 });
  expect(it.reply('2.md')).toContain('status: done');
});

test.each([
  ['2', 'The person chose 2: JSON'],
  [' json. ', 'The person chose 2: JSON'],
  ['“CSV”', 'The person chose 1: CSV'],
  ['２。', 'The person chose 2: JSON'],
  ['7', 'The person answered:\n7\n[The choices were shown numbered from 1, in your order.]'],
  ['/continue csv, with a header', 'The person answered:\ncsv, with a header\n[The choices were'],
  ['/continue', 'No answer was given; the person said "continue"'],
  ['go on', 'No answer was given; the person said: go on'],
])('to two choices %j means: %s', async (answer, wanted) => {
  const it = await asked();
  await it.say('2.md', answer);
  expect(reported(it)).toContain(wanted);
});

test('a number that is the text of one choice and the place of another is not decided for the person', async () => {
  const it = await asked({}, ask('How many workers?', ['2', '4']));
  await it.say('2.md', '2');
  expect(reported(it)).toBe('The person answered:\n2\n[This is the text of choice 1, and the number of choice 2: 4.]');
});

test('words that stop a run elsewhere are an answer where they are a choice', async () => {
  const it = await asked({}, ask('The disk is nearly full.', ['stop', 'go on', '/tmp']));
  await it.say('2.md', 'stop');
  expect(reported(it)).toBe('The person chose 1: stop');
  const other = await asked({}, ask('Where?', ['/tmp', '/var']));
  await other.say('2.md', '/tmp');
  expect(reported(other)).toBe('The person chose 1: /tmp');
});

test('the other calls of the answer run first, and a second question waits', async () => {
  const it = await asked({
    script: moves(
      { text: '', calls: [FORMAT, shell(), ask('And the name?'), shell()] },
      { text: 'I see.', calls: [ask('And the name?')] },
      { text: 'Done.' },
    ),
  });
  expect(it.toolRuns).toHaveLength(2);
  await it.say('2.md', 'csv');
  const results = it.requests[1]?.messages.flatMap((one) =>
    one.role === 'tool' ? [unwrapDataBlock(one.content)] : [],
  );
  expect(results).toEqual([
    'output 1',
    'output 2',
    expect.stringContaining('one question at a time'),
    'The person chose 1: CSV',
  ]);
  expect(it.plan()?.reason).toBe('And the name?');
});

test('arguments that do not fit are reported, and nobody is asked', async () => {
  const it = await asked({}, { name: 'ask_user', args: { question: ' ' } });
  expect(reported(it)).toContain('question');
  expect(it.reply('1.json')).toBeDefined();
  expect(it.types().filter((type) => type === 'run.ended')).toHaveLength(1);
});

test('a question is not put where the person has just written something', async () => {
  const it = await asked({
    script: moves({ hold: true, next: () => ({ text: '', calls: [FORMAT] }) }, { text: 'CSV it is.' }),
  });
  await it.say('2.md', 'use csv');
  await it.letGo();
  expect(reported(it)).toContain('has just written');
  expect(people(it).map((one) => one.content)).toContain('use csv');
  expect(it.reply('2.md')).toContain('joined');
});

test.each([
  ['/stop', 'paused', 'paused'],
  ['stop', 'paused', 'paused'],
  ['/cancel', 'cancelled', 'cancelled'],
])('%s instead of an answer ends the question', async (message, status, why) => {
  const it = await asked();
  await it.say('2.md', message);
  expect(it.plan()?.status).toBe(status);
  expect(results(it)).toMatchObject([
    { ok: false, output: { text: `No answer was given: the person ${why} the run.` } },
  ]);
  await it.say('3.md', 'continue');
  expect(reported(it)).toContain('No answer was given');
});

test('/status, a hand edit and /undo leave the question as it is', async () => {
  const it = await asked();
  expect(await it.say('2.md', '/status')).toContain('1. CSV');
  const plan = it.plan();
  it.store.hands.edit(
    JSON.stringify({ ...plan, steps: plan?.steps.map((step) => ({ ...step, description: `${step.description}!` })) }),
  );
  await it.say('3.md', '/undo');
  await it.say('4.md', '1');
  expect(reported(it)).toBe('The person chose 1: CSV');
  expect(it.plan()?.steps[0]?.description).toBe('Export!');
});

test('something else begun beside the question leaves no call without a result', async () => {
  const it = await asked({
    script: (request, n) =>
      n === 0
        ? { text: '', calls: [FORMAT] }
        : { text: `${request.messages.filter(({ role }) => role === 'tool').length} results` },
  });
  expect(await it.say('2.md', '/mode linear what is the time?')).toContain('1 results');
  await it.say('3.md', '/new');
  expect(await it.say('4.md', 'hello')).toContain('0 results');
});

test('a claim made beside the question stands when it is answered', async () => {
  const it = await asked({
    script: moves(
      { text: '[Step] Look\n[Step] Export', calls: [shell()] },
      { text: 'Now I know.', calls: [{ name: 'plan', args: { command: 'complete_step', result: 'looked' } }, FORMAT] },
      { text: 'Exported. [Done]' },
    ),
  });
  await it.say('2.md', '1');
  expect(it.plan()).toMatchObject({ status: 'completed' });
  expect(it.plan()?.steps[0]).toMatchObject({ result: 'looked', completed_by: 'tool' });
});

test('a child session is told that nobody can be asked', async () => {
  const it = await asked({ name: 'demo~step_1' });
  expect(reported(it)).toContain('you work on one step for a parent session');
  expect(it.requests[0]?.tools.map(({ name }) => name)).not.toContain('ask_user');
});

test('an agent whose tools do not list it is not offered it, and does not wait', async () => {
  const config = { agents: { clerk: { tools: ['shell'] } } };
  const it = await rig({ config, script: moves({ text: '', calls: [FORMAT] }, { text: 'I chose CSV.' }) });
  await it.say('1.json', '{"text":"export","options":{"agent":"clerk"}}');
  expect(it.requests[0]?.tools.map(({ name }) => name)).toEqual(['plan']);
  expect(reported(it)).toContain('no tool ask_user');
  const free = await asked();
  expect(free.requests[0]?.tools.map(({ name }) => name)).toContain('ask_user');
});

test('the words of a person stay where outputs are left out, and in what older turns come to', async () => {
  const words = `The person answered:\nuse ${'the long form '.repeat(20)}`;
  const output = { role: 'tool' as const, tool_call_id: 'a', content: 'x'.repeat(4000) };
  const answer = { ...output, content: words, by: 'person' as const };
  const sent = elideOldOutputs([answer, ...Array.from({ length: 12 }, () => ({ ...output }))], 8000);
  expect(sent[0]).toEqual(answer);
  expect(sent[1]?.content).toContain('left out');

  const calls: Move[] = Array.from({ length: 12 }, () => ({ text: '', calls: [shell()] }));
  const it = await asked({
    script: moves({ text: '', calls: [FORMAT] }, ...calls, { text: 'Done.' }),
    tool: () => ({ ok: true, text: 'x'.repeat(900) }),
    config: { model: { context_window: 2000 } },
  });
  await it.say('2.md', 'never with a header');
  expect(it.types()).toContain('context.compacted');
  expect(JSON.stringify(it.requests.at(-1)?.messages)).toContain('never with a header');
});

/** The same story from any place of its record: the question, and the answer as soon as nobody is at work. */
async function lived(before: EventBody[]): Promise<Rig> {
  const it = await rig({
    before,
    script: (request) => {
      const answers = request.messages.filter(({ role }) => role === 'assistant').length;
      if (answers === 0) return { text: '[Step] Export', calls: [FORMAT, ask('Who?'), { name: 'shell', args: {} }] };
      return { text: `Exported, ${JSON.stringify(told2(request.messages))}. [Done]` };
    },
    replay: () => 'safe',
  });
  if (!before.some((event) => event.type === 'message.received')) it.store.hands.drop('1.md', 'export');
  await it.wake();
  if (!before.some((event) => event.type === 'message.received' && event.name === '2.md')) it.drop('2.md', '2');
  await it.settle();
  return it;
}
const told2 = (messages: Array<{ role: string; content: string | null }>) =>
  messages.flatMap((one) => (one.role === 'tool' && one.content?.startsWith('The person') ? [one.content] : []));

test('a power cut after any line asks once, takes the answer once and replies once', async () => {
  const whole = await lived([]);
  const lines = whole.events().map(({ v, seq, epoch, at, ...body }) => body);
  const summary = (it: Rig) => {
    const count = (type: string) => it.types().filter((one) => one === type).length;
    return {
      faults: it.faults,
      ended: count('run.ended'),
      committed: count('reply.committed'),
      published: count('reply.published'),
      asked: it.events().filter((event) => event.type === 'run.ended' && event.question).length,
      answered: it
        .events()
        .flatMap((event) => (event.type === 'tool.finished' && 'text' in event.output ? [event.output.text] : []))
        .filter((text) => text.startsWith('The person')),
      recovered: it.plan()?.status,
    };
  };
  const wanted = summary(whole);
  expect(wanted).toMatchObject({
    asked: 1,
    committed: 2,
    answered: ['The person chose 2: JSON'],
    recovered: 'completed',
  });
  for (let cut = 0; cut <= lines.length; cut++) {
    const half = await lived(lines.slice(0, cut));
    expect(summary(half), `cut after line ${cut}: ${lines[cut - 1]?.type}`).toEqual(wanted);
  }
});

test('a daemon restarted while a question waits finds nothing open', async () => {
  const it = await asked();
  const before = it.types().length;
  await it.restart();
  expect(it.types()).toHaveLength(before);
  await it.say('2.md', '2');
  expect(reported(it)).toBe('The person chose 2: JSON');
});

test.each([
  ...['what day is it?', 'continue with the day', '/mode linear what day'].map((text) => ['completed', text]),
  // A plan of which everything was skipped is cancelled, and "continue" resumes that.
  ...['what day is it?', '/mode linear what day'].map((text) => ['skipped', text]),
])('where the last step is set to %s by hand while a question waits, "%s" withdraws it', async (status, text) => {
  const it = await asked({ script: moves({ text: '[Step] Export', calls: [FORMAT] }, { text: 'It is Tuesday.' }) });
  const plan = it.plan();
  it.store.hands.edit(JSON.stringify({ ...plan, steps: plan?.steps.map((step) => ({ ...step, status })) }));
  await it.wake();
  await it.say('2.json', JSON.stringify({ text }));
  expect(results(it)).toMatchObject([{ ok: false }]);
  expect(it.reply('2.json')).toContain('It is Tuesday.');
});

test('a message apart, such as a schedule sends, is a task beside what waits: no answer, and no "continue"', async () => {
  for (const text of ['2', 'continue', 'stop the server']) {
    const it = await asked();
    await it.say('2.json', JSON.stringify({ text, options: { when: 'apart' } }));
    expect(results(it).filter(({ ok }) => ok)).toEqual([]);
    expect(it.events().findLast(({ type }) => type === 'run.started')).toMatchObject({ message: '2.json' });
    expect(people(it).at(-1)?.content).toContain(text);
  }
});
