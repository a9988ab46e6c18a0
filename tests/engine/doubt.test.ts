import { expect, test } from 'vitest';
import { explainMessages } from '../../src/client/inspect/explain-messages.ts';
import { givenRecord } from '../support/given.ts';
import { type Move, moves, type Rig, rig, shell } from '../support/rig.ts';

const STEPS = [
  { id: 'step_1', status: 'completed', description: 'Find', result: '5 links' },
  { id: 'step_2', status: 'running', description: 'Fetch', iterations: 2 },
  { id: 'step_3', status: 'pending', description: 'Draw' },
];
const statusOf = (reply: string | undefined) => /^status: (\w+)$/m.exec(reply ?? '')?.[1];
const lastRequest = (it: Rig) => JSON.stringify(it.requests.at(-1)?.messages);

/** A session with a paused plan, or one that runs, and a model that gives these answers. */
async function standing(status: 'paused' | 'running', ...answers: Move[]): Promise<Rig> {
  const it = await rig({
    before: givenRecord({ plan: { id: 'plan_1', goal: 'Report', status, steps: STEPS } }),
    script: moves(...answers, { hold: true }),
  });
  await it.wake();
  return it;
}

async function say(it: Rig, name: string, text: string): Promise<string> {
  it.drop(name, text);
  await it.pass(300);
  return it.reply(name) ?? '';
}

const working: Move = { text: 'working', calls: [shell()] };

test('other work beside a paused plan asks before the plan is shelved, and "new task" does it then', async () => {
  const it = await standing('paused', working, working, { text: 'The chart is there.' });
  const asked = await say(it, 't.md', 'Draw me something else');
  expect(statusOf(asked)).toBe('waiting');
  expect(asked).toContain('Go on with "Report", or is this a new task?');
  expect(it.plan()).toMatchObject({ id: 'plan_1', status: 'paused' });
  expect(it.archived()).toEqual([]);
  expect(it.toolRuns).toEqual([]);
  const done = await say(it, 'a.md', 'a new task please');
  expect(done).toContain('The chart is there.');
  expect(it.plan()).toMatchObject({ goal: 'Draw me something else', status: 'completed' });
  expect(it.archived()).toEqual(['plan_1']);
});

test('"go on" instead resumes the plan, and what was written goes with it', async () => {
  const it = await standing('paused', working, { hold: true });
  await say(it, 't.md', 'Draw it in blue');
  it.drop('a.md', '1');
  await it.pass(300);
  expect(it.plan()).toMatchObject({ id: 'plan_1', status: 'running' });
  expect(lastRequest(it)).toContain('Draw it in blue');
  expect(it.archived()).toEqual([]);
});

test.each(['back', '回去', 'continue', '/continue'])('a plan that was shelved comes back with %s', async (word) => {
  const it = await standing('paused', working, working, { text: 'The chart is there.' }, { hold: true });
  await say(it, 't.md', 'Draw me something else');
  await say(it, 'a.md', 'new task');
  it.drop('b.md', word);
  await it.pass(300);
  expect(it.plan()).toMatchObject({ id: 'plan_1', status: 'running', current_step_index: 1 });
});

test('a question beside a paused plan is answered, with tools if it takes them, and the plan stays', async () => {
  const it = await standing('paused', working, { text: 'Seven files.' });
  expect(await say(it, 'q.md', 'How many files are there?')).toContain('Seven files.');
  expect(it.toolRuns).toHaveLength(1);
  expect(it.plan()).toMatchObject({ id: 'plan_1', status: 'paused' });
});

test.each([
  ['a message under an id of its own', '{"id":"nightly-1","text":"Draw me something else"}'],
  ['a mode of its own', '{"text":"Draw me something else","options":{"mode":"linear"}}'],
  ['"New task:"', '{"text":"New task: draw me something else"}'],
])('%s is not asked what it means', async (_, content) => {
  const it = await standing('paused', working, { text: 'The chart is there.' });
  expect(await say(it, 't.json', content)).toContain('The chart is there.');
  expect(it.archived()).toEqual(['plan_1']);
});

test('words in doubt go to the model without tools; what it says is done, counted in tokens and in no iteration', async () => {
  const it = await standing('paused', { text: 'continue' }, { hold: true });
  it.drop('c.md', 'continue the fence to the left edge');
  await it.pass(300);
  expect(it.requests[0]).toMatchObject({ tools: [] });
  expect(JSON.stringify(it.requests[0]?.messages)).toContain('continue the fence');
  const told = it.events().find((event) => event.type === 'message.interpreted');
  expect(told).toMatchObject({ message: 'c.md', meaning: 'continue', by: 'model' });
  expect(it.plan()).toMatchObject({ id: 'plan_1', status: 'running' });
  expect(lastRequest(it)).toContain('continue the fence');
});

test('asking what words mean is held to the budgets: one that is used up has the person asked', async () => {
  for (const isUsedUp of [false, true]) {
    const spent: number[] = [];
    const settle = async ({ tokens }: { tokens: number }) => void spent.push(tokens);
    const it = await rig({
      before: givenRecord({ plan: { id: 'plan_1', goal: 'Report', status: 'paused', steps: STEPS } }),
      script: moves({ text: 'no idea' }, { hold: true }),
      around: (world) => ({
        ...world,
        spending: { reserve: async () => (isUsedUp ? { until: null, why: 'The budget is used up.' } : { settle }) },
      }),
    });
    it.worker.wake();
    const reply = await say(it, 'c.md', 'continue the fence to the left edge');
    expect(statusOf(reply)).toBe('waiting');
    expect([it.requests.length, spent.length]).toEqual(isUsedUp ? [0, 0] : [1, 1]);
    const told = it.events().find((event) => event.type === 'message.interpreted');
    expect(told).toMatchObject({ meaning: 'unclear', ...(isUsedUp && { error: 'The budget is used up.' }) });
  }
});

test('if the model cannot say it either, the person is asked, and nothing is shelved', async () => {
  for (const answer of [
    { text: 'Either a task or a question.' },
    { fault: ['rejected', 'no'] as ['rejected', string] },
  ]) {
    const it = await standing('paused', answer);
    expect(statusOf(await say(it, 'c.md', 'continue the fence to the left edge'))).toBe('waiting');
    expect(it.plan()).toMatchObject({ id: 'plan_1', status: 'paused' });
  }
});

test('a model that does not answer within ten seconds is not waited for', async () => {
  const it = await standing('paused', { hold: true });
  it.drop('c.md', 'continue the fence to the left edge');
  await it.pass(300);
  expect(it.reply('c.md')).toBeUndefined();
  await it.pass(10_500);
  await it.settle();
  expect(statusOf(it.reply('c.md'))).toBe('waiting');
  expect(it.events().find((event) => event.type === 'message.interpreted')).toMatchObject({
    meaning: 'unclear',
    error: 'no answer within 10 s',
  });
});

test('a doubtful stop is asked beside the call in flight, and what the model says takes effect at once', async () => {
  const it = await standing('running', { hold: true }, { text: 'stop' });
  await it.say('s.md', 'stop deleting my files');
  expect(it.requests).toHaveLength(2);
  expect(it.plan()).toMatchObject({ status: 'paused', reason: 'stopped' });
  expect(statusOf(it.reply('s.md'))).toBe('done');
});

test('a doubtful stop that the model cannot tell holds the next call and asks; "go on" takes the words along', async () => {
  const it = await rig({
    script: moves({ text: '[Step] a', calls: [shell()] }, { text: 'no idea' }, { hold: true }),
    tool: () => 'hold',
  });
  await it.say('1.md', 'Tidy up');
  await it.say('s.md', 'stop deleting my files');
  await it.letGo();
  expect(it.plan()).toMatchObject({ status: 'paused', reason: 'unclear' });
  expect(it.reply('s.md')).toContain('should "stop deleting my files" stop it?');
  expect(it.requests).toHaveLength(2);
  it.drop('g.md', 'go on');
  await it.pass(300);
  expect(it.plan()?.status).toBe('running');
  expect(lastRequest(it)).toContain('stop deleting my files');
});

test('a new task that the model sees in the words waits for the end of the run', async () => {
  const it = await standing('running', { hold: true, next: () => ({ text: 'x' }) }, { text: 'task' });
  it.drop('s.md', 'stop the web server on the old machine');
  await it.pass(300);
  expect(it.types()).not.toContain('run.ended');
  expect(it.reply('s.md')).toBeUndefined();
});

test('a power cut while a person is asked keeps the question, and their words', async () => {
  const it = await standing('paused', working, { hold: true });
  await say(it, 't.md', 'Draw it in blue');
  await it.restart({ powerCut: true });
  it.drop('a.md', 'yes');
  await it.pass(300);
  expect(it.plan()).toMatchObject({ id: 'plan_1', status: 'running' });
  expect(lastRequest(it)).toContain('Draw it in blue');
});

test('an amount beside "continue" is the limit of what follows, and the reply says so', async () => {
  const more = { text: 'x', calls: [shell()] };
  const it = await standing('paused', ...Array.from({ length: 9 }, () => more));
  const reply = await say(it, 'c.md', 'give it 2 more');
  expect(statusOf(reply)).toBe('paused');
  expect(reply).toContain('limits.iterations = 2');
  expect(reply).toContain('as you said: iterations = 2');
});

test('what each message was taken to mean, and who said so, can be explained from the log alone', async () => {
  const it = await standing('running', { hold: true }, { text: 'stop' }, { hold: true }, { text: 'no idea' });
  await say(it, 'd.md', 'stop deleting my files');
  await say(it, 'c.md', 'please go on');
  await say(it, 'w.md', 'Stop!');
  await say(it, 'u.md', 'continue the fence to the left edge');
  const told = explainMessages('demo', it.events(), (at) => at);
  expect(told.map(({ id, meaning, by }) => [id, meaning, by])).toEqual([
    ['d.md', 'stop', 'model'],
    ['c.md', 'continue', 'rules'],
    ['w.md', 'stop', 'rules'],
    ['u.md', 'unclear', 'nobody'],
  ]);
  expect(told[0]?.text).toMatch(/^"stop deleting my files" was taken as "stop", by what the model said, at event \d+/);
});

test.each([
  ['a sender below an admin gets no more than the settings allow, and is told', 'send', 5, '5, the most that the'],
  ['an admin gets all of it', 'admin', 40, 'as you said: iterations = 40'],
])('of an amount granted in words %s', async (_, role, most, said) => {
  const it = await rig({
    before: givenRecord({ plan: { id: 'plan_1', goal: 'Report', status: 'paused', steps: STEPS } }),
    script: () => ({ text: 'x', calls: [shell()] }),
    config: { limits: { iterations: 5 } },
  });
  it.worker.wake();
  const reply = await say(it, 'c.json', JSON.stringify({ text: 'give it 40 more', rights: { role } }));
  expect(it.events().find((event) => event.type === 'run.resumed')?.limits.iterations).toBe(most);
  expect(reply).toContain(said);
});
