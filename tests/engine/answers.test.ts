import { describe, expect, test } from 'vitest';
import type { MessageStanding } from '../../src/core/session/session-queries.ts';
import { givenRecord } from '../support/given.ts';
import { type Move, moves, type Rig, rig, shell } from '../support/rig.ts';

const STEPS = [
  { id: 'step_1', status: 'completed', description: 'Find', result: '5 links' },
  { id: 'step_2', status: 'running', description: 'Fetch', iterations: 2 },
  { id: 'step_3', status: 'pending', description: 'Draw' },
];

/** A session that stands as named, with a model that answers at once or, while running, is silent. */
async function standingAt(state: MessageStanding, ...answers: Move[]): Promise<Rig> {
  const steps = state === 'completed' ? STEPS.map((step) => ({ ...step, status: 'completed' })) : STEPS;
  const status = state === 'completed' ? 'completed' : state === 'running' ? 'running' : 'paused';
  const before = state === 'none' ? [] : givenRecord({ plan: { id: 'plan_1', goal: 'Report', status, steps } });
  const it = await rig({
    before:
      state === 'waiting' || state === 'failed'
        ? before.map((event) => (event.type === 'run.ended' ? { ...event, status: state } : event))
        : before,
    script: moves(...answers, { hold: true }),
  });
  await it.wake();
  return it;
}

const statusOf = (reply: string | undefined) => /^status: (\w+)$/m.exec(reply ?? '')?.[1];

describe('what a message does', () => {
  test.each([
    ['/pause', 'none', 'done', 'Nothing is running'],
    ['stop', 'none', 'done', 'Nothing is running'],
    ['/continue', 'none', 'done', 'Nothing to continue'],
    ['/continue', 'completed', 'done', 'Nothing to continue'],
    ['/stop', 'paused', 'done', 'already paused'],
    ['/cancel', 'completed', 'done', 'already ended'],
    ['/status', 'paused', 'done', '1/3 steps done'],
    ['/plan', 'running', 'done', '▶ Fetch'],
    ['/help', 'running', 'done', '/continue [plan id] [note]'],
    ['/status', 'running', 'done', 'Working on'],
    ['/nonsense', 'paused', 'rejected', 'Unknown command "/nonsense"'],
    ['/contine', 'paused', 'rejected', 'Unknown command "/contine". Did you mean "/continue"?'],
    ['/undo', 'none', 'done', 'There is no plan'],
  ] as const)('%s while the session is %s is answered %s at once', async (text, state, status, part) => {
    const it = await standingAt(state);
    const before = it.requests.length;
    await it.say('q.md', text);
    expect(statusOf(it.reply('q.md'))).toBe(status);
    expect(it.reply('q.md')).toContain(part);
    expect(it.requests.length).toBe(before);
  });

  test('a stop aborts the call in flight and the run ends as paused, with one reply for each of the two messages', async () => {
    const it = await standingAt('running');
    await it.say('s.md', 'stop');
    expect(it.types()).toContain('model.failed');
    expect(it.plan()).toMatchObject({ status: 'paused', reason: 'stopped' });
    expect(statusOf(it.reply('s.md'))).toBe('done');
    expect(statusOf(it.reply('m0.md'))).toBe('paused');
  });

  test('a stop ends a tool that is at work, and the model is told that its outcome is unknown', async () => {
    const it = await rig({
      script: moves({ text: '[Step] a\n[Step] b', calls: [shell(), shell()] }, { hold: true }),
      tool: () => 'hold',
    });
    await it.say('1.md', 'go');
    await it.say('2.md', '/stop');
    const ends = it.events().filter((event) => event.type === 'tool.interrupted');
    expect(ends).toMatchObject([{ outcome: 'unknown' }, { outcome: 'not_started' }]);
    expect(it.plan()?.status).toBe('paused');
    await it.say('3.md', 'continue');
    expect(JSON.stringify(it.requests.at(-1)?.messages)).toContain('may or may not have run');
    expect(it.toolRuns).toHaveLength(1);
  });

  test('a pause lets the call in flight finish', async () => {
    const it = await rig({
      script: moves({ text: '[Step] a\n[Step] b', calls: [shell()] }, { text: 'more', calls: [shell()] }),
      tool: () => 'hold',
    });
    await it.say('1.md', 'go');
    await it.say('2.md', '/pause');
    expect(it.plan()?.status).not.toBe('paused');
    await it.letGo();
    expect(it.types()).toContain('tool.finished');
    expect(it.plan()).toMatchObject({ status: 'paused', reason: 'asked' });
    expect(it.requests).toHaveLength(1);
  });

  test('a cancel ends the plan, and "continue" opens it again', async () => {
    const it = await standingAt('running');
    await it.say('c.md', '/cancel');
    expect(it.plan()).toMatchObject({ status: 'cancelled' });
    expect(statusOf(it.reply('m0.md'))).toBe('cancelled');
    it.drop('d.json', '{"command":"continue"}');
    await it.pass(300);
    expect(it.plan()).toMatchObject({ id: 'plan_1', status: 'running' });
    expect(await it.say('e.md', '/status')).toContain(`Working on: ${it.plan()?.goal}`);
  });

  test('cancel ends a paused plan', async () => {
    const it = await standingAt('paused');
    await it.say('c.md', '/cancel');
    expect(it.plan()).toMatchObject({ status: 'cancelled' });
    expect(statusOf(it.reply('c.md'))).toBe('done');
  });

  test('an answer to a waiting run resumes it', async () => {
    const it = await standingAt('waiting');
    it.drop('a.md', 'The year 2023.');
    await it.pass(300);
    expect(it.plan()).toMatchObject({ status: 'running' });
    expect(JSON.stringify(it.requests.at(-1)?.messages)).toContain('The year 2023.');
  });

  test('tasks found together while nothing runs are separate runs, in order', async () => {
    const it = await rig({ script: (_request, n) => ({ text: `answer ${n + 1}` }) });
    it.store.hands.drop('1.md', 'one');
    it.store.hands.drop('2.md', 'two');
    await it.wake();
    expect(it.reply('1.md')).toContain('answer 1');
    expect(it.reply('2.md')).toContain('answer 2');
    expect(statusOf(it.reply('2.md'))).toBe('done');
  });

  test.each(['{"text":"later","options":{"when":"after"}}', '{"text":"New task: later"}'])(
    '%s waits for the end of the run that is on',
    async (content) => {
      const it = await rig({ script: moves({ hold: true, next: () => ({ text: 'first' }) }, { text: 'second' }) });
      await it.say('1.md', 'now');
      await it.say('2.json', content);
      await it.letGo();
      expect(it.reply('1.md')).toContain('first');
      expect(JSON.parse(it.reply('2.json') ?? '{}')).toMatchObject({ status: 'done', text: 'second' });
    },
  );

  test('what no call has delivered when the run ends starts the next run', async () => {
    const it = await rig({ script: moves({ hold: true, next: () => ({ text: 'first' }) }, { text: 'second' }) });
    await it.say('1.md', 'one');
    await it.say('2.md', 'also this');
    await it.letGo();
    expect(statusOf(it.reply('1.md'))).toBe('done');
    expect(statusOf(it.reply('2.md'))).toBe('done');
    expect(it.reply('2.md')).toContain('second');
  });

  test('a task beside a paused plan that uses a tool shelves the plan, and /continue brings it back', async () => {
    const it = await standingAt('paused', { text: 'working', calls: [shell()] }, { text: 'The chart is there.' });
    await it.say('t.md', 'New task: Draw me something else');
    expect(it.reply('t.md')).toContain('/continue plan_1');
    expect(it.archived()).toEqual(['plan_1']);
    expect(it.plan()).toMatchObject({
      goal: 'New task: Draw me something else',
      status: 'completed',
      reason: 'answered',
    });
    it.drop('b.md', '/continue plan_1');
    await it.pass(300);
    expect(it.plan()).toMatchObject({ id: 'plan_1', status: 'running', current_step_index: 1 });
    expect(it.archived()).toHaveLength(2);
  });

  const GONE: Move = { fault: ['rejected', 'no such model', { retry: false }] };
  test.each<[string, Move, string[]]>([
    ['that the endpoint refused', GONE, []],
    ['that a person stopped', { hold: true }, ['stop']],
    ['that a person cancelled', { hold: true }, ['/cancel']],
    ['that the endpoint refused, and a person paused or cancelled then', GONE, ['/pause', '/cancel']],
  ])(
    'a question beside a paused plan %s is what "continue" takes up: no [Done] of it closes a step',
    async (_, move, words) => {
      const it = await standingAt(
        'paused',
        move,
        { text: 'Sunny. [Done]' },
        { text: 'Fetched. [Done]' },
        { hold: true },
      );
      const before = it.plan();
      await it.say('t.md', 'Is it sunny?');
      for (const [n, text] of words.entries()) {
        await it.say(`w${n}.md`, text);
      }
      await it.say('c.md', 'continue');
      expect(statusOf(it.reply('c.md'))).toBe('done');
      expect(it.reply('c.md')).toContain('Sunny.');
      expect(it.plan()).toEqual(before);
      it.drop('d.md', 'continue');
      await it.pass(300);
      expect(it.plan()?.steps.map(({ status }) => status)).toEqual(['completed', 'completed', 'running']);
    },
  );

  test.each([['/undo', '/continue'], ['/continue plan_1']])(
    'the paused plan itself goes on after %s, though a question beside it was stopped',
    async (...words) => {
      const it = await standingAt('paused', GONE, { hold: true });
      await it.say('t.md', 'Is it sunny?');
      for (const [n, text] of words.entries()) {
        it.drop(`w${n}.md`, text);
        await it.pass(300);
      }
      expect(it.plan()).toMatchObject({ id: 'plan_1', status: 'running' });
    },
  );

  test('why a person reopened a step is told to the model when the plan goes on, whatever was asked beside it first', async () => {
    const it = await standingAt('paused', { text: 'Sunny.' }, { hold: true });
    await it.say('u.md', 'not done yet, two links are missing');
    expect(await it.say('t.md', 'Is it sunny?')).toContain('Sunny.');
    const block = () => String(it.requests.at(-1)?.messages.at(-1)?.content);
    expect(block()).not.toContain('two links are missing');
    await it.say('c.md', 'continue');
    expect(block()).toContain('two links are missing');
  });

  test('/new while running stops first, then begins afresh', async () => {
    const it = await standingAt('running');
    await it.say('n.md', '/new');
    expect(statusOf(it.reply('m0.md'))).toBe('cancelled');
    expect(statusOf(it.reply('n.md'))).toBe('done');
    expect(it.plan()).toBeUndefined();
    expect(it.archived()).toEqual(['plan_1']);
    await it.say('x.md', 'hello');
    expect(it.requests.at(-1)?.messages.filter((message) => message.role !== 'system')).toEqual([
      { role: 'user', content: 'hello' },
    ]);
  });

  test('undo after the end opens the plan again', async () => {
    const it = await standingAt('completed');
    await it.say('u.md', 'not done yet');
    expect(it.plan()).toMatchObject({ status: 'paused', current_step_index: 2 });
    expect(it.plan()?.steps[2]?.status).toBe('running');
  });
});

describe('when a run ends', () => {
  test('a plan that is over and an answer without a call: done, and the plan says completed', async () => {
    const it = await standingAt(
      'paused',
      { text: 'Fetched. [Done]', calls: [shell()] },
      { text: 'Drawn. [Done]', calls: [shell()] },
      { text: 'Here it is.' },
    );
    await it.say('c.md', 'continue');
    expect(it.plan()).toMatchObject({ status: 'completed' });
    expect(it.reply('c.md')).toContain('Here it is.');
  });

  test('an endpoint that is down is tried again with growing pauses, and a run in that state can be stopped', async () => {
    const it = await rig({ script: moves({ fault: ['unreachable', 'connection refused', { retry: true }] }) });
    await it.say('1.md', 'go');
    expect(it.requests).toHaveLength(1);
    await it.pass(600);
    expect(it.requests).toHaveLength(2);
    await it.pass(600);
    expect(it.requests).toHaveLength(2);
    await it.pass(600);
    expect(it.requests).toHaveLength(3);
    expect(it.logged).toEqual([['warn', expect.stringMatching(/^the model does not answer.*connection refused$/)]]);
    expect(await it.say('s.md', '/status')).toContain('connection refused');
    await it.say('t.md', 'stop');
    expect(statusOf(it.reply('1.md'))).toBe('paused');
  });

  test('after limits.outage_minutes of silence the run is paused and says so', async () => {
    const it = await rig({
      script: moves({ fault: ['unreachable', 'connection refused', { retry: true }] }),
      config: { limits: { outage_minutes: 1 } },
    });
    it.drop('1.md', 'go');
    for (let n = 0; n < 10; n++) await it.pass(60_000);
    expect(statusOf(it.reply('1.md'))).toBe('paused');
    expect(it.reply('1.md')).toContain('limits.outage_minutes');
  });

  test('a request that will never be accepted fails the run with the reason, and "continue" tries again with the message', async () => {
    const it = await rig({
      script: moves(
        { fault: ['rejected', '401: the key in OPENAI_API_KEY was refused', { retry: false }] },
        { text: 'Now it works.' },
      ),
    });
    await it.say('1.md', 'What is 2 + 2?');
    expect(statusOf(it.reply('1.md'))).toBe('failed');
    expect(it.reply('1.md')).toContain('OPENAI_API_KEY');
    await it.say('2.md', 'continue');
    expect(JSON.stringify(it.requests.at(-1)?.messages)).toContain('What is 2 + 2?');
    expect(it.reply('2.md')).toContain('Now it works.');
  });

  test.each([
    ['tokens', { tokens: 25 }, 3],
    ['iterations', { iterations: 2 }, 2],
  ] as const)('limits.%s pauses after the call that reaches it', async (name, limits, calls) => {
    const it = await rig({ script: () => ({ text: '', calls: [shell()] }), config: { limits } });
    await it.say('1.md', 'go');
    expect(it.requests).toHaveLength(calls);
    expect(it.reply('1.md')).toContain(`limits.${name}`);
    expect(it.plan()).toMatchObject({ status: 'paused', reason: 'limit' });
  });

  test('a message brings its own limits, which a "continue" keeps', async () => {
    const it = await rig({ script: () => ({ text: '', calls: [shell()] }), config: { limits: { iterations: 3 } } });
    await it.say('1.json', '{"text":"go","options":{"limits":{"iterations":1}}}');
    expect(it.requests).toHaveLength(1);
    await it.say('2.md', 'continue');
    expect(it.requests).toHaveLength(2);
  });

  test('"continue" from two frontends at once resumes the run once, for one budget window', async () => {
    const it = await rig({ script: () => ({ text: '', calls: [shell()] }), config: { limits: { iterations: 2 } } });
    await it.say('1.md', 'go');
    for (const name of ['2.md', '3.md']) it.store.hands.drop(name, 'continue');
    await it.say('4.md', '/continue');
    expect(it.requests).toHaveLength(4);
    expect(['2.md', '3.md', '4.md'].map((name) => statusOf(it.reply(name)))).toEqual(['paused', 'joined', 'joined']);
  });

  test('the model that a message names goes on with its run, until "continue" names another or another task begins', async () => {
    const it = await rig({ script: () => ({ text: '', calls: [shell()] }), config: { limits: { iterations: 1 } } });
    const says = [
      '{"text":"go","options":{"model":"big"}}',
      '{"text":"continue"}',
      '{"text":"/stop"}',
      '{"text":"continue"}',
    ];
    const then = [
      '{"text":"continue","options":{"model":"small"}}',
      '{"text":"continue"}',
      '{"text":"/new"}',
      '{"text":"go"}',
    ];
    for (const [n, text] of [...says, ...then].entries()) {
      await it.say(`${n}.json`, text);
    }
    expect(it.requests.map(({ model }) => model)).toEqual(['big', 'big', 'big', 'small', 'small', undefined]);
  });

  test('the same call with the same result is nudged, asked for another approach, then ends with a diagnosis', async () => {
    const it = await rig({
      script: () => ({ text: '', calls: [{ name: 'shell', args: { command: 'ls' } }] }),
      tool: () => ({ ok: true, text: 'exit 0\nnothing' }),
    });
    await it.say('1.md', 'go');
    expect(it.requests).toHaveLength(5);
    const blocks = it.requests.map((request) => String(request.messages.at(-1)?.content));
    expect(blocks[3]).toContain('same call gave the same result 3 times');
    expect(blocks[4]).toContain('take another approach');
    expect(it.reply('1.md')).toContain('shell {"command":"ls"}');
    expect(it.plan()).toMatchObject({ status: 'paused', reason: 'repeats' });
  });

  test('a step without a sign is asked about before it is assumed, and silence is what closes it', async () => {
    const it = await rig({
      script: (_request, n) =>
        n === 0
          ? { text: '[Step] Read the pages\n[Step] Draw', calls: [shell()] }
          : n < 9
            ? { text: 'still at it', calls: [shell()] }
            : { hold: true },
      config: { limits: { step_iterations: 3 } },
    });
    it.drop('1.md', 'go');
    await it.pass(300);
    const asked = it.events().findIndex((event) => event.type === 'step.asked');
    const closed = it.events().findIndex((event) => event.type === 'step.completed');
    expect(asked).toBeGreaterThan(0);
    expect(closed).toBeGreaterThan(asked);
    expect(it.events()[closed]).toMatchObject({ by: 'timeout' });
    expect(it.requests.some((request) => String(request.messages.at(-1)?.content).includes('Is it done?'))).toBe(true);
  });

  test('an answer of "not done" is obeyed: the step stays open', async () => {
    const it = await rig({
      script: (request, n) => {
        if (n === 0) return { text: '[Step] Read the pages\n[Step] Draw', calls: [shell()] };
        const asked = String(request.messages.at(-1)?.content).includes('Is it done?');
        return n < 9
          ? { text: asked ? '[Not done] two pages are left' : 'still at it', calls: [shell()] }
          : { hold: true };
      },
      config: { limits: { step_iterations: 3 } },
    });
    it.drop('1.md', 'go');
    await it.pass(300);
    expect(it.types()).toContain('step.asked');
    expect(it.types()).not.toContain('step.completed');
  });
});

describe('what is asked more gently does not keep a stop waiting', () => {
  const busy = () =>
    rig({ script: moves({ text: '[Step] a\n[Step] b', calls: [shell()] }, { hold: true }), tool: () => 'hold' });

  test.each(['pause', 'not done yet', '/undo'])(
    '"%s", then /status and stop, in the middle of a tool',
    async (first) => {
      const it = await busy();
      await it.say('1.md', 'go');
      await it.say('2.md', first);
      expect(await it.say('3.md', '/status')).toContain('Working on');
      await it.say('4.md', 'stop');
      expect(statusOf(it.reply('1.md'))).toBe('paused');
      expect(it.reply('4.md')).toContain('Stopped');
      expect(it.reply('2.md')).toBeDefined();
    },
  );

  test('/cancel after a pause cancels', async () => {
    const it = await busy();
    await it.say('1.md', 'go');
    await it.say('2.md', 'pause');
    await it.say('3.md', '/cancel');
    expect(statusOf(it.reply('1.md'))).toBe('cancelled');
    expect(it.plan()?.status).toBe('cancelled');
  });
});

test('"/continue" while a run is on joins it, and the model is sent no empty message', async () => {
  const it = await rig({ script: moves({ text: '', calls: [shell()] }, { hold: true }), tool: () => 'hold' });
  await it.say('1.md', 'go');
  await it.say('2.md', '/continue');
  await it.letGo();
  expect(statusOf(it.reply('2.md'))).toBe('joined');
  expect(it.requests.at(-1)?.messages.some((message) => message.content === '')).toBe(false);
});

test('an endpoint that answers nothing usable is given up after a few tries', async () => {
  const it = await rig({ script: moves({ fault: ['malformed', 'an empty answer', { retry: true }] }) });
  it.drop('1.md', 'go');
  for (let n = 0; n < 6; n++) await it.pass(60_000);
  expect(statusOf(it.reply('1.md'))).toBe('failed');
  expect(it.requests).toHaveLength(4);
});

describe('the tries of a call are counted for each kind of failure', () => {
  const OUT: Move = { fault: ['unreachable', 'connection refused', { retry: true }] };
  const failing = (kind: 'malformed' | 'too_long'): Move => ({ fault: [kind, kind, { retry: true }] });
  const times = (count: number, move: Move): Move[] => Array.from({ length: count }, () => move);

  async function asked(...script: Move[]): Promise<Rig> {
    const it = await rig({ script: moves(...script) });
    it.drop('1.md', 'go');
    for (let n = 0; n < 12; n++) await it.pass(60_000);
    return it;
  }

  test.each([
    ['malformed', 3],
    ['too_long', 4],
  ] as const)('an outage uses up no try of a call that then fails as %s', async (kind, most) => {
    const it = await asked(...times(4, OUT), ...times(most, failing(kind)), { text: 'Here it is.' });
    expect(it.reply('1.md')).toContain('Here it is.');
    expect(it.requests).toHaveLength(4 + most + 1);
  });

  test('an unusable answer after a request that was shortened is asked for again', async () => {
    const it = await asked(...times(4, failing('too_long')), ...times(3, failing('malformed')), {
      text: 'Here it is.',
    });
    expect(it.reply('1.md')).toContain('Here it is.');
  });

  test('an outage in between gives an endpoint that never answers usably no more tries', async () => {
    const it = await asked(...times(2, failing('malformed')), OUT, ...times(9, failing('malformed')));
    expect(statusOf(it.reply('1.md'))).toBe('failed');
    expect(it.requests).toHaveLength(5);
  });

  test('the pause grows with all failures in a row, and the next daemon goes on counting', async () => {
    const it = await rig({ script: moves(...times(2, failing('malformed')), OUT, failing('malformed')) });
    it.drop('1.md', 'go');
    await it.pass(600);
    await it.pass(1100);
    await it.restart();
    for (let n = 0; n < 6; n++) await it.pass(60_000);
    const failures = it.events().filter((event) => event.type === 'model.failed');
    expect(failures.map(({ kind, attempt, retry_at }) => [kind, attempt, retry_at !== null])).toEqual([
      ['malformed', 1, true],
      ['malformed', 2, true],
      ['unreachable', 3, true],
      ['malformed', 4, true],
      ['malformed', 5, false],
    ]);
    expect(statusOf(it.reply('1.md'))).toBe('failed');
  });
});
