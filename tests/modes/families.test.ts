import { expect, test, vi } from 'vitest';
import { statusOf } from '../support/daemon.ts';
import { type Family, family } from '../support/family.ts';
import { moves, rig, shell } from '../support/rig.ts';

const spawn = (task: string) => ({ name: 'spawn', args: { task } });

/** Says it in the root, and answers how the reply begins. */
async function say(on: Family, file: string, text: string): Promise<string> {
  on.drop('demo', file, text);
  await on.settle();
  return statusOf(on.reply(file) ?? 'status: nothing');
}

test('a child that spent its budget pauses its parents, which spend no more, and goes on with "continue"', async () => {
  const on = family({
    config: { limits: { iterations: 3 } },
    script: (session, _request, asked) => {
      if (session !== 'demo') return asked < 3 ? { calls: [shell()] } : { text: 'x is 42.' };
      return asked === 0 ? { calls: [spawn('find x')] } : { text: 'So x is 42.' };
    },
  });
  expect(await say(on, '1.md', 'What is x?')).toBe('paused');
  expect(on.reply('1.md')).toContain('limits.iterations = 3');
  expect(on.asked).toEqual(['demo', 'demo~step_1', 'demo~step_1']);
  expect(await say(on, '2.md', 'continue')).toBe('done');
  expect(on.reply('2.md')).toContain('So x is 42.');
});

test('more children than there is budget for: those without a share wait for the next budget window, and none is given twice', async () => {
  const on = family({
    config: { limits: { iterations: 3, steps: 4 } },
    script: (session, _request, asked) =>
      session === 'demo' && asked === 0 ? { calls: ['a', 'b', 'c', 'd'].map(spawn) } : { text: `${session} is done.` },
  });
  expect(await say(on, '1.md', 'four things')).toBe('paused');
  expect(on.asked).toHaveLength(3);
  expect(await say(on, '2.md', 'continue')).toBe('done');
  expect(on.asked).toHaveLength(6);
  expect(on.session('demo').plan?.steps.map((step) => step.status)).toEqual(Array(4).fill('completed'));
});

test('a child that goes on after its limit has the model of its agent still', async () => {
  const models: Array<string | undefined> = [];
  const on = family({
    config: { limits: { iterations: 3 }, agents: { seeker: { model: 'small' } } },
    script: (session, request, asked) => {
      if (session === 'demo')
        return asked === 0
          ? { calls: [{ name: 'spawn', args: { task: 'find x', agent: 'seeker' } }] }
          : { text: 'Found.' };
      models.push(request.model);
      return asked < 3 ? { calls: [shell()] } : { text: 'x is 42.' };
    },
  });
  expect(await say(on, '1.md', 'What is x?')).toBe('paused');
  expect(await say(on, '2.md', 'continue')).toBe('done');
  expect(models).toEqual(Array(4).fill('small'));
});

test('where the limit is extended, children pause at what they were given', async () => {
  const on = family({
    config: { limits: { iterations: 2 }, on_limit: 'extend' },
    script: (session, _request, asked) =>
      session === 'demo' && asked === 0 ? { calls: [spawn('a')] } : { calls: [shell()] },
  });
  expect(await say(on, '1.md', 'x')).toBe('failed');
  expect(on.reply('1.md')).toContain('five times limits.iterations');
  expect(on.asked).toHaveLength(10);
});

test('an answer reaches the child that asked, whatever another one asked after it', async () => {
  const on = await rig({
    config: { limits: { steps: 2 } },
    script: moves({ calls: [spawn('a'), spawn('b')] }, { text: 'Done.' }),
  });
  await on.say('1.md', 'two things');
  const asks = async (step: string, text: string) => {
    on.children.answer(`demo~${step}`, `${step}.1`, { status: 'waiting', text });
    await on.wake();
  };
  await asks('step_2', 'Which size?');
  await asks('step_1', 'Which colour?');
  await on.say('2.md', 'large');
  await on.say('3.md', 'red');
  expect(on.reply('1.md')).toContain('Which size?');
  expect(on.reply('2.md')).toContain('Which colour?');
  const reported = on.children.sent.flatMap(({ child, message }) =>
    message.command === 'continue' ? [[child, message.text]] : [],
  );
  expect(reported).toEqual([
    ['demo~step_2', 'large'],
    ['demo~step_1', 'red'],
  ]);
});

test('what a person wrote before a child asked is no answer to it', async () => {
  const on = await rig({ script: moves({ calls: [spawn('a')] }, { text: 'Done.' }) });
  await on.say('1.md', 'a thing');
  await on.say('2.md', 'make it blue');
  on.children.answer('demo~step_1', 'step_1.1', { status: 'waiting', text: 'Which size?' });
  await on.wake();
  expect(on.reply('1.md')).toContain('Which size?');
  expect(on.children.sent.slice(1).map(({ message }) => message.text)).toEqual([undefined]);
});

test('a file that comes with the answer is named to the child that asked, as its folder sees it', async () => {
  const { on } = await twoAtWork();
  on.children.answer('demo~a', 'a.1', { status: 'waiting', text: 'Send me the bill.' });
  on.children.answer('demo~b', 'b.1', { status: 'done', text: 'b' });
  await on.wake();
  on.store.hands.attach('bill.csv', Buffer.from('1,2\n'));
  await on.say('2.json', '{"text":"here it is","attachments":[".files/bill.csv"]}');
  expect(on.children.sent.at(-1)?.message.text).toBe('here it is\n\n[attached: ../uploads/bill.csv]');
});

const STEPS = {
  steps: [
    { id: 'a', description: 'find a' },
    { id: 'b', description: 'find b' },
  ],
};

/** A dag of two steps, whose children work until they are told otherwise. */
async function twoAtWork() {
  const on = await rig({
    config: { mode: 'dag' },
    script: moves({ text: JSON.stringify(STEPS) }, { text: 'Summed up.' }),
  });
  await on.say('1.md', 'two things');
  const reported = () =>
    on.children.sent.flatMap(({ child, message }) => (message.command ? [[child, message.command]] : []));
  const ends = async (status: 'paused' | 'cancelled' | 'done') => {
    for (const step of ['a', 'b']) {
      const sent = on.children.sent.findLast(
        ({ child, message }) => child === `demo~${step}` && isTask(message.command),
      );
      on.children.answer(`demo~${step}`, sent?.message.id ?? '', { status, reason: 'asked', text: status });
    }
    await on.wake();
  };
  return { on, reported, ends };
}

/** What is no task is answered beside it. */
const isTask = (command: string | undefined) => command === undefined || command === 'continue';

test('a pause lets the calls of children end, a stop after it aborts them, and a cancel ends them', async () => {
  const { on, reported } = await twoAtWork();
  await on.say('2.md', '/pause');
  expect(reported()).toEqual([
    ['demo~a', 'pause'],
    ['demo~b', 'pause'],
  ]);
  await on.say('3.md', '/stop');
  expect(reported().slice(2)).toEqual([
    ['demo~a', 'stop'],
    ['demo~b', 'stop'],
  ]);
  expect(on.reply('3.md')).toContain('Stopped.');
  await on.say('4.md', '/cancel');
  expect(reported().slice(4)).toEqual([
    ['demo~a', 'cancel'],
    ['demo~b', 'cancel'],
  ]);
});

test('a cancelled dag goes on with one "continue"', async () => {
  const { on, reported, ends } = await twoAtWork();
  await on.say('2.md', '/cancel');
  await ends('cancelled');
  await on.say('3.md', 'continue');
  expect(reported().slice(2)).toEqual([
    ['demo~a', 'continue'],
    ['demo~b', 'continue'],
  ]);
  await ends('done');
  expect(on.reply('3.md')).toMatch(/status: done[\s\S]*Summed up\./);
});

test('a new conversation ends the children of the one before it', async () => {
  const { on, reported } = await twoAtWork();
  await on.say('2.md', '/new');
  expect(reported()).toEqual([
    ['demo~a', 'cancel'],
    ['demo~b', 'cancel'],
  ]);
  expect(on.reply('2.md')).toContain('new conversation');
});

test('a new conversation begun while a child asks stops the children still at work', async () => {
  const { on, reported } = await twoAtWork();
  on.children.answer('demo~a', 'a.1', { status: 'waiting', text: 'Which?' });
  await on.wake();
  await on.say('2.md', '/new');
  expect(statusOf(on.reply('2.md') ?? '')).toBe('done');
  expect(reported()).toEqual([['demo~b', 'stop']]);
  expect(on.plan()).toBeUndefined();
});

test('a template run, or another plan continued, while a child asks stops the children still at work', async () => {
  const { on, reported } = await twoAtWork();
  const asks = async (child: string, message: string) => {
    on.children.answer(child, message, { status: 'waiting', text: 'Which?' });
    await on.wake();
  };
  await asks('demo~a', 'a.1');
  const first = on.plan()?.id ?? '';
  on.store.hands.template('two', '---\nmode: dag\n---\n1. Find c\n2. Find d\n');
  on.drop('2.md', '/run two');
  // The parser of templates is loaded with the first one.
  await vi.waitFor(() => expect(on.plan()).toMatchObject({ status: 'running', planned_by: 'template two' }));
  await on.settle();
  expect(reported()).toEqual([['demo~b', 'stop']]);
  await asks('demo~step_1', 'step_1.1');
  await on.say('3.md', `/continue ${first}`);
  expect(reported()).toEqual([
    ['demo~b', 'stop'],
    ['demo~step_2', 'stop'],
    ['demo~a', 'continue'],
  ]);
  expect([on.plan()?.id, on.plan()?.status, on.faults]).toEqual([first, 'running', []]);
});

test('a step that a person blocked stays blocked when they say "continue", and the reply says how to open it', async () => {
  const { on, ends } = await twoAtWork();
  await on.say('2.md', '/pause');
  await ends('paused');
  const plan = on.store.hands.planText() ?? '';
  const at = plan.indexOf('"id": "b"');
  on.store.hands.edit(plan.slice(0, at) + plan.slice(at).replace('"running"', '"blocked"'));
  await on.say('3.md', 'continue');
  await ends('done');
  expect(on.plan()?.steps.map(({ status }) => status)).toEqual(['completed', 'blocked']);
  expect(on.reply('3.md')).toMatch(/status: waiting\n.*reason: blocked/);
  expect(on.reply('3.md')).toContain('Blocked by you: b (find b)');
  on.store.hands.edit(on.store.hands.planText()?.replace('"status": "blocked"', '"status": "pending"') ?? '');
  await on.say('4.md', 'continue');
  await ends('done');
  expect(on.plan()?.steps.map(({ status }) => status)).toEqual(['completed', 'completed']);
});

test.each([
  ['at work', 'cancel', 'cancelled'],
  ['paused', 'stop', 'paused'],
  ['that asks', undefined, 'waiting'],
] as const)(
  'a child %s whose step a person rewords is given it again, with what they answered, and its old result counts no more',
  async (_, command, status) => {
    const on = await rig({
      config: { mode: 'dag' },
      script: moves({ text: JSON.stringify({ steps: STEPS.steps.slice(0, 1) }) }, { text: 'Summed up.' }),
    });
    const answer = async (id: string, how: object) => {
      on.children.answer('demo~a', id, how);
      await on.wake();
    };
    const say = async (file: string, text: string) => {
      await on.say(file, text);
    };
    await say('1.md', 'one thing');
    if (command === 'stop') await say('2.md', '/stop');
    if (command !== 'cancel') await answer('a.1', { status, text: 'Which size?' });
    const plan = on.plan();
    on.store.hands.edit(JSON.stringify({ ...plan, steps: [{ ...plan?.steps[0], description: 'find c' }] }));
    if (command === 'cancel') await say('3.md', '/status');
    else await say('3.md', '/continue large');
    if (command === 'cancel') await answer('a.1', { text: 'a is found' });
    const sent = on.children.sent.map(({ message }) => message);
    expect(sent.map((one) => one.command)).toEqual([undefined, ...(command ? [command] : []), undefined]);
    expect(sent.at(-1)?.text).toContain('The step: find c');
    if (command !== 'cancel') expect(sent.at(-1)?.text).toContain('The person also wrote: large');
    await answer('a.2', { text: 'c is found' });
    expect(on.plan()?.steps).toMatchObject([{ description: 'find c', status: 'completed', result: 'c is found' }]);
  },
);

test('a child that asked and is given its step again leaves the plan it had, and reports what came of the step as it is now', async () => {
  const on = family({
    config: { mode: 'dag' },
    script: (session, request, asked) => {
      if (session === 'demo')
        return { text: asked === 0 ? JSON.stringify({ steps: STEPS.steps.slice(0, 1) }) : 'Summed up.' };
      if (asked === 0) return { text: '[Step] Look\n[Step] Tell', calls: [shell()] };
      if (asked === 1) return { text: '[Blocked: which size?]' };
      const isTold = request.messages.some(({ content }) => content?.includes('The step: find c'));
      return { text: isTold ? 'c is found. [Done]' : 'a is found. [Done]' };
    },
  });
  expect(await say(on, '1.md', 'one thing')).toBe('waiting');
  const { plan } = on.session('demo');
  on.store('demo').hands.edit(JSON.stringify({ ...plan, steps: [{ ...plan?.steps[0], description: 'find c' }] }));
  expect(await say(on, '2.md', 'large')).toBe('done');
  expect(on.session('demo').plan?.steps).toMatchObject([
    { status: 'completed', result: expect.stringContaining('c is') },
  ]);
  expect(on.session('demo~a').plan).toMatchObject({ status: 'cancelled', steps: [{ status: 'blocked' }, {}] });
});

test('a plan that is not there cannot be continued, and the reply says which can', async () => {
  const { on } = await twoAtWork();
  await on.say('2.md', '/pause');
  expect(await on.say('3.md', '/continue plan_999')).toContain(
    'There is no shelved plan "plan_999". No plan is shelved.',
  );
});

test.each(['', ' please', '\nand hurry'])(
  'after a plan is completed, "continue" with a plan that is not there and %j says so, and starts no task',
  async (words) => {
    const on = await rig({
      script: moves({ text: '[Step] Export', calls: [shell()] }, { text: 'It is exported. [Done]' }),
    });
    await on.say('1.md', 'Export it');
    expect(on.plan()?.status).toBe('completed');
    const asked = on.requests.length;
    expect(await on.say('2.md', `/continue plan_999${words}`)).toContain('There is no shelved plan "plan_999".');
    expect(on.requests).toHaveLength(asked);
  },
);

test('after a plan is completed, "continue" with words is a task', async () => {
  const on = await rig({
    script: moves({ text: '[Step] Export', calls: [shell()] }, { text: 'It is exported. [Done]' }, { text: 'Mailed.' }),
  });
  await on.say('1.md', 'Export it');
  expect(await on.say('2.md', '/continue with plan_999 by mail')).toContain('Mailed.');
});

test('a part whose child says that it failed is tried again', async () => {
  const plan = { steps: [{ id: 'map', description: 'read it', each: { list: ['x'] } }] };
  const on = family({
    config: { mode: 'map-reduce' },
    script: (session, { messages }, asked) => {
      if (session !== 'demo') return { text: asked === 0 ? '[Failed: it cannot be read]' : 'It says 42.' };
      return { text: messages.at(-1)?.content?.includes('JSON object') ? JSON.stringify(plan) : 'Summed up.' };
    },
  });
  expect(await say(on, '1.md', 'read them')).toBe('done');
  expect(on.session('demo').plan?.steps.at(-1)).toMatchObject({
    status: 'completed',
    attempts: 2,
    result: 'It says 42.',
  });
});

test('a step that a person opens again is done again by its child, with what they said', async () => {
  const { on, ends } = await twoAtWork();
  await ends('done');
  expect(on.plan()?.status).toBe('completed');
  await on.say('2.md', 'not done yet, one file is missing');
  await on.say('3.md', 'continue');
  const sent = on.children.sent.at(-1);
  expect(sent?.message).toMatchObject({ id: expect.stringMatching(/^b\.2-/) });
  expect(sent?.message.text).toMatch(/find b[\s\S]*one file is missing/);
  on.children.answer('demo~b', sent?.message.id ?? '', { text: 'now it is there' });
  await on.wake();
  expect(on.plan()?.steps.at(-1)).toMatchObject({ status: 'completed', result: 'now it is there' });
});

test('limits.minutes is the time of the whole family: three deep it pauses the root once, and "continue" gives it again', async () => {
  const MINUTES = 1;
  const on = family({
    config: { limits: { minutes: MINUTES, iterations: 100 } },
    answerMs: 13_000,
    script: (session) =>
      session.split('~').length < 3 ? { text: '', calls: [spawn('dig')] } : { text: '', calls: [shell()] },
  });
  on.drop('demo', '1.md', 'dig deep');
  await on.settle();
  expect(on.reply('1.md')).toMatch(/status: paused[\s\S]*reason: limit[\s\S]*limits\.minutes/);
  // Five answers of 13 seconds are the first to be more than a minute; one more may have been in flight.
  expect(on.asked.length).toBeLessThanOrEqual(6);
  const asked = on.asked.length;
  on.drop('demo', '2.md', 'continue');
  await on.settle();
  expect(on.reply('2.md')).toMatch(/status: paused[\s\S]*reason: limit/);
  expect(on.asked.length - asked).toBeLessThanOrEqual(6);
  expect(on.asked.length).toBeGreaterThan(asked);
});

test.each([
  ['dag', { steps: [{ id: 'a', description: 'find a' }] }],
  ['map-reduce', { steps: [{ id: 'map', description: 'read it', each: { list: ['x'] } }] }],
] as const)('limits.minutes is the time of the whole family where %s begins the children, too', async (mode, plan) => {
  const on = family({
    config: { mode, limits: { minutes: 1, iterations: 100 } },
    answerMs: 13_000,
    script: (session) => (session === 'demo' ? { text: JSON.stringify(plan) } : { calls: [shell()] }),
  });
  expect(await say(on, '1.md', 'do it')).toBe('paused');
  expect(on.reply('1.md')).toMatch(/reason: limit[\s\S]*limits\.minutes/);
  expect(on.asked.length).toBeLessThanOrEqual(6);
  const asked = on.asked.length;
  expect(await say(on, '2.md', 'continue')).toBe('paused');
  expect(on.asked.length - asked).toBeLessThanOrEqual(6);
  expect(on.asked.length).toBeGreaterThan(asked);
});

test.each(['linear', 'plan-act', 'todo', 'dag', 'map-reduce'] as const)(
  'in %s a child has the tools of its agent only, and its step names what it did, or is unproven',
  async (mode) => {
    const steps =
      mode === 'map-reduce'
        ? [{ id: 'all', description: '[READER] Read', each: { list: ['a', 'b'] } }]
        : ['one', 'two'].map((id) => ({ id, description: `[READER] Read ${id}` }));
    const by = { agent: 'reader' };
    const begin =
      mode === 'linear' ? { calls: ['a', 'b'].map((task) => ({ name: 'spawn', args: { task, ...by } })) } : {};
    const read = { name: 'read_file', args: { path: 'a.txt' } };
    const children: string[] = [];
    const on = family({
      config: { agents: { reader: { tools: ['read_file'] } } },
      script: (session, _request, asked) => {
        if (session === 'demo')
          return asked > 0 ? { text: 'All read.' } : { text: JSON.stringify({ steps }), ...begin };
        if (!children.includes(session)) children.push(session);
        return asked === 0 && children[0] === session ? { calls: [shell(), read] } : { text: 'I have read it.' };
      },
    });
    on.drop('demo', '1.json', JSON.stringify({ text: 'read', options: { mode } }));
    await on.settle();
    expect(on.faults).toEqual([]);
    const results = on
      .store(children[0] ?? '')
      .hands.events()
      .filter(({ type }) => type.startsWith('tool.'));
    expect(JSON.stringify(results)).toContain('The agent \\"reader\\" has no tool `shell`');
    const proofs = on.session('demo').plan?.steps.flatMap(({ proof }) => (proof ? [proof] : []));
    expect(proofs).toEqual([[expect.stringMatching(/^read_file work\/(?:\S+\/)?a\.txt$/)], []]);
    expect(on.reply('1.json')).toContain('unproven');
  },
);
