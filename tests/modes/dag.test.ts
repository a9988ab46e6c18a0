import { describe, expect, test } from 'vitest';
import { rolledBackSteps } from '../../src/core/plan/plan-steps.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import { memoryStore } from '../support/memory-store.ts';
import { moves, rig, shell } from '../support/rig.ts';
import { bench, standing } from './dag-bench.ts';

const step = (id: string, more: object = {}) => ({ id, description: `work on ${id}`, ...more });

const REPORT = {
  steps: [
    step('collect'),
    step('a', { parent: 'collect' }),
    step('b', { parent: 'collect', rollback: 'undo_b' }),
    step('undo_b'),
    step('report', { needs: ['collect'] }),
    step('deep', { needs: ['collect'], when: { step: 'a', result: 'needs more' } }),
  ],
};

describe('super-steps', () => {
  test('groups begin and end with their parts, what is not needed is skipped, and a summary ends the run', async () => {
    const b = await bench({ plan: REPORT });
    expect(b.atWork()).toEqual(['a', 'b']);
    expect(b.steps()).toMatchObject({ collect: { status: 'running' }, report: { status: 'pending' } });
    await b.work({ a: { text: 'x is 42' } });
    expect(b.superSteps()).toEqual([['a', 'b'], ['report']]);
    expect(b.steps()).toMatchObject({
      collect: { status: 'completed', completed_by: 'parts', result: 'work on a: x is 42\nwork on b: ok' },
      undo_b: { status: 'skipped', error: 'undoes b, which did not fail' },
      deep: { status: 'skipped', error: 'when a: it does not hold that a says "needs more"' },
      report: { status: 'completed' },
    });
    expect(b.plan()).toMatchObject({ status: 'completed' });
    expect(b.on.reply('1.md')).toContain('That is what came of it.');
  });

  test('what a person adds meanwhile reaches children that begin later, and the reply says who does not get it', async () => {
    const b = await bench({ plan: REPORT });
    b.on.drop('2.md', 'Use purple ink in all steps');
    await b.work();
    expect(b.on.reply('2.md')).toMatch(
      /status: joined[\s\S]*Those at work now do not: to tell them, edit their steps in plan\.json/,
    );
    const told = b.on.children.sent.map(({ child, message }) => [child, /added: Use purple/.test(message.text ?? '')]);
    expect(told).toEqual([
      ['demo~a', false],
      ['demo~b', false],
      ['demo~report', true],
    ]);
  });

  test('steps that run together have folders of their own, one that runs alone has the whole', async () => {
    const b = await bench({ plan: REPORT });
    await b.work();
    const folders = b.on.children.sent.map(({ message }) => message.options?.folder);
    expect(folders).toEqual(['a', 'b', undefined]);
    expect(b.on.children.sent.at(-1)?.message.text).toContain('work on b: ok');
  });

  test('as many run at once as the limit "steps" says, and share what may be spent', async () => {
    const b = await bench({
      plan: { steps: ['a', 'b', 'c'].map((id) => step(id)) },
      limits: { steps: 2, iterations: 21 },
    });
    expect(b.atWork()).toEqual(['a', 'b']);
    expect(b.on.children.sent.map(({ message }) => message.options?.limits?.iterations)).toEqual([10, 10]);
    await b.work();
    expect(b.superSteps()).toEqual([['a', 'b'], ['c']]);
  });

  test('what is spent is spent: no further super-step begins, and "continue" goes on with it', async () => {
    const b = await bench({ plan: REPORT, limits: { iterations: 3 } });
    await b.work();
    expect(b.on.reply('1.md')).toContain('limits.iterations');
    expect(b.on.reply('1.md')).toContain('Iterations: 3');
    expect(b.plan()).toMatchObject({ status: 'paused', reason: 'limit' });
    expect(b.ran()).toEqual(['a', 'b']);
    b.on.drop('2.md', '/continue');
    await b.on.settle();
    await b.work();
    expect(b.plan()).toMatchObject({ status: 'completed' });
  });
});

describe('what fails', () => {
  test('several that failed together are undone in reverse order, one at a time, before anything else', async () => {
    const plan = {
      steps: [
        step('a', { rollback: 'undo_a' }),
        step('b', { rollback: 'undo_b' }),
        step('undo_a'),
        step('undo_b'),
        step('c'),
        step('d', { needs: ['c'] }),
      ],
    };
    const b = await bench({ plan });
    await b.work({ a: { status: 'failed', text: 'no a' }, b: { status: 'failed', text: 'no b' } });
    expect(b.superSteps()).toEqual([['a', 'b', 'c'], ['undo_b'], ['undo_a'], ['d']]);
    expect(rolledBackSteps(b.plan().steps).map(({ id }) => id)).toEqual(['a', 'b']);
    const undo = b.on.children.sent.find(({ child }) => child === 'demo~undo_b');
    expect(undo?.message.text).toContain('demo~b: no b');
    expect(b.plan()).toMatchObject({ status: 'failed', reason: 'not reached: a, b' });
  });

  test('"continue" tries the failed step again in a new attempt, and what was skipped because of it comes back', async () => {
    const b = await bench({ plan: { steps: [step('a', { rollback: 'u' }), step('u'), step('c', { needs: ['a'] })] } });
    await b.work({ a: { status: 'failed', text: 'no' } });
    expect(b.steps()).toMatchObject({ a: { status: 'failed' }, u: { status: 'completed' }, c: { status: 'skipped' } });
    b.on.drop('2.md', '/continue');
    await b.on.settle();
    expect(b.steps()).toMatchObject({ a: { status: 'running' }, u: { status: 'pending' }, c: { status: 'pending' } });
    await b.work();
    expect(b.ran()).toEqual(['a', 'u', 'a', 'c']);
    expect(b.steps()).toMatchObject({
      a: { status: 'completed' },
      u: { status: 'skipped' },
      c: { status: 'completed' },
    });
    expect(b.plan()).toMatchObject({ status: 'completed' });
  });

  describe('a group whose part needs a failed step', () => {
    const steps = [step('a'), step('g', { needs: ['a'] }), step('p', { parent: 'g' }), step('z', { needs: ['g'] })];
    const failed = async () => {
      const b = await bench({ plan: { steps } });
      await b.work({ a: { status: 'failed', text: 'no' } });
      const skipped = { status: 'skipped' };
      expect(b.steps()).toMatchObject({ a: { status: 'failed' }, g: skipped, p: skipped, z: skipped });
      return b;
    };
    const say = async ({ on }: Awaited<ReturnType<typeof bench>>, name: string, text: string) => {
      await on.say(name, text);
    };

    test('is done after "continue", and what needs it', async () => {
      const b = await failed();
      await say(b, '2.md', '/continue');
      await b.work();
      expect(b.ran()).toEqual(['a', 'a', 'p', 'z']);
      expect(b.plan()).toMatchObject({ status: 'completed' });
    });

    test('stays closed after "continue" if a person has closed it, and what needs it is done', async () => {
      const b = await failed();
      await say(b, '2.md', '/plan done g by phone');
      expect(b.plan()).toMatchObject({ status: 'paused', reason: 'reopened' });
      await say(b, '3.md', '/continue');
      await b.work();
      expect(b.ran()).toEqual(['a', 'z']);
      expect(b.plan()).toMatchObject({ status: 'failed', reason: 'not reached: a' });
      await say(b, '4.md', '/continue');
      await b.work();
      expect(b.ran()).toEqual(['a', 'z', 'a']);
      expect(b.plan()).toMatchObject({ status: 'completed' });
      expect(b.steps()).toMatchObject({ g: { result: 'by phone' }, p: { status: 'skipped' } });
    });

    test('is open again after "undo" of what a person closed, with its parts', async () => {
      const b = await bench({ plan: { steps } });
      await say(b, '2.md', '/plan done g');
      expect(b.steps()).toMatchObject({ p: { status: 'skipped', error: 'part of g, which was completed' } });
      await say(b, '3.md', '/undo');
      expect(b.steps()).toMatchObject({ g: { status: 'running' }, p: { status: 'pending' } });
      await b.work();
      expect(b.ran()).toEqual(['a', 'p', 'z']);
      expect(b.plan()).toMatchObject({ status: 'completed' });
    });
  });

  test('a person who completes a failed step has what was skipped because of it done', async () => {
    const two = step('z', { needs: ['a', 'b'] });
    const b = await bench({ plan: { steps: [step('a'), step('b'), step('y', { needs: ['a'] }), two] } });
    await b.work({ a: { status: 'failed', text: 'no' }, b: { status: 'failed', text: 'no' } });
    b.on.drop('2.md', '/plan done a');
    await b.on.settle();
    expect(b.plan()).toMatchObject({ status: 'paused', reason: 'reopened' });
    expect(b.steps()).toMatchObject({ y: { status: 'pending' }, z: { status: 'skipped' } });
    b.on.drop('3.md', '/plan done b');
    await b.on.settle();
    b.on.drop('4.md', '/continue');
    await b.on.settle();
    await b.work();
    expect(b.ran()).toEqual(['a', 'b', 'y', 'z']);
    expect(b.plan()).toMatchObject({ status: 'completed' });
  });

  test('a step that takes too long fails alone, and its child is told to end', async () => {
    const b = await bench({
      plan: { steps: [step('a'), step('b'), step('c', { needs: ['b'] })] },
      limits: { step_minutes: 5 },
    });
    await b.on.pass(299_000);
    expect(b.steps()['a']).toMatchObject({ status: 'running' });
    await b.work({}, ['b']);
    await b.on.pass(2_000);
    expect(b.steps()).toMatchObject({ a: { status: 'failed' }, b: { status: 'completed' } });
    expect(b.steps()['a']?.error).toContain('limits.step_minutes (5), which is 300 s');
    expect(b.on.children.sent.filter(({ message }) => message.command === 'cancel').map(({ child }) => child)).toEqual([
      'demo~a',
    ]);
    await b.work();
    expect(b.steps()['c']).toMatchObject({ status: 'completed' });
  });

  test('the minutes of a step are those in which a daemon runs: neither a night without one nor a clock that is set takes them', async () => {
    const plan = { steps: [step('a'), step('b'), step('c')] };
    const b = await bench({ plan, limits: { step_minutes: 5 } });
    await b.on.pass(1000);
    b.on.setClock(3_600_000);
    await b.work({}, ['a']);
    expect(b.atWork()).toEqual(['b', 'c']);
    b.on.setClock(12 * 3_600_000);
    await b.on.restart({ powerCut: true });
    await b.on.pass(290_000);
    expect(b.atWork()).toEqual(['b', 'c']);
    b.on.setClock(3_600_000);
    await b.work({}, ['b']);
    expect(b.atWork()).toEqual(['c']);
    await b.on.pass(11_000);
    expect(b.steps()).toMatchObject({ b: { status: 'completed' }, c: { status: 'failed' } });
  });
});

describe('what a child says of its step', () => {
  test('the exit status of its last command decides a condition', async () => {
    const plan = {
      steps: [step('a'), step('b', { when: { step: 'a', exit: 1 } }), step('c', { when: { step: 'a', exit: 0 } })],
    };
    const b = await bench({ plan });
    await b.work({ a: { exit: 1 } });
    expect(b.steps()).toMatchObject({ a: { exit: 1 }, b: { status: 'completed' }, c: { status: 'skipped' } });
  });

  test('"[Failed: why]" at the end of its answer fails the step, "[Blocked: what]" has the run wait', async () => {
    const b = await bench({ plan: { steps: [step('a'), step('b')] } });
    await b.work({ a: { text: 'I tried.\n[Failed: the site is gone]' }, b: { text: '[Blocked: the password]' } });
    expect(b.steps()).toMatchObject({
      a: { status: 'failed', error: 'the site is gone' },
      b: { status: 'blocked', error: 'the password' },
    });
  });
});

test('a session that works for another tells how its last command ended, any other session does not', async () => {
  const reported = async (name: string) => {
    const on = await rig({
      script: moves({ text: '[Step] look', calls: [shell()] }, { text: 'Not there. [Done]' }),
      tool: () => ({ ok: true, exit: 1, text: 'exit 1' }),
      store: memoryStore(name, { now: () => new Date('2026-01-05T08:00:00.000Z') }),
    });
    await on.say('1.json', JSON.stringify({ text: 'look' }));
    expect(on.plan()).toMatchObject({ steps: [{ status: 'completed', exit: 1 }] });
    return JSON.parse(on.reply('1.json') ?? '{}').exit;
  };
  expect(await reported('demo~a')).toBe(1);
  expect(await reported('demo')).toBeUndefined();
});

describe('questions and people', () => {
  test('two children that ask are reported together, and each gets the answer', async () => {
    const b = await bench({ plan: { steps: [step('a'), step('b')] } });
    b.on.children.answer('demo~a', 'a.1', { status: 'waiting', text: 'Which colour?' });
    b.on.children.answer('demo~b', 'b.1', { status: 'waiting', text: 'Which size?' });
    b.on.worker.wake();
    await b.on.settle();
    expect(b.on.reply('1.md')).toMatch(/Which colour\?[\s\S]*Which size\?/);
    b.on.drop('2.md', 'red and large');
    await b.on.settle();
    expect(b.on.children.sent.filter(({ message }) => message.text === 'red and large')).toHaveLength(2);
  });

  test('a question that came while the run waited is put to the person, not answered with what was said before', async () => {
    const b = await bench({ plan: { steps: [step('a'), step('b')] } });
    b.on.children.answer('demo~a', 'a.1', { status: 'waiting', text: 'Which colour?' });
    b.on.worker.wake();
    await b.on.settle();
    b.on.children.answer('demo~b', 'b.1', { status: 'waiting', text: 'Which size?' });
    b.on.worker.wake();
    await b.on.settle();
    b.on.drop('2.md', 'red');
    await b.on.settle();
    expect(b.on.children.sent.filter(({ message }) => message.text === 'red').map(({ child }) => child)).toEqual([
      'demo~a',
    ]);
    expect(b.on.reply('2.md')).toContain('Which size?');
  });

  test('"not done yet" opens the step closed last and leaves those alone that others work on', async () => {
    const b = await bench({ plan: { steps: [step('a'), step('b')] } });
    await b.work({}, ['a']);
    b.on.drop('2.md', 'not done yet, one file is missing');
    await b.on.settle();
    expect(b.steps()).toMatchObject({ a: { status: 'running' }, b: { status: 'running' } });
    expect(b.on.children.sent.at(-1)).toMatchObject({ child: 'demo~a' });
    expect(b.on.children.sent.at(-1)?.message.text).toContain('one file is missing');
    expect(b.on.children.sent.filter(({ child }) => child === 'demo~b')).toHaveLength(1);
    await b.work();
    expect(b.plan()).toMatchObject({ status: 'completed' });
  });

  test('conditions, rollbacks and groups are read from plan.json, and a cycle written by a person is named', async () => {
    const b = await bench({ plan: { steps: [step('a'), step('b', { needs: ['a'] }), step('c', { needs: ['b'] })] } });
    const plan = b.plan();
    const edited = plan.steps.map((one) => {
      if (one.id === 'b') return { ...one, needs: ['c'], rollback: 'c' };
      return one.id === 'c' ? { ...one, when: [{ step: 'a', exit: 0 }], parent: 'a', agent: 'x' } : one;
    });
    b.on.store.hands.edit(JSON.stringify({ ...plan, steps: edited }));
    b.on.worker.wake();
    await b.on.settle();
    const [edit] = b.on.events().flatMap((event) => (event.type === 'plan.edited' ? [event] : []));
    expect(edit?.changes).toEqual([
      { what: 'step', step: 'b', set: { needs: ['c'], rollback: 'c' }, unset: [] },
      { what: 'step', step: 'c', set: { when: [{ step: 'a', exit: 0 }], parent: 'a', agent: 'x' }, unset: [] },
    ]);
    expect(edit?.ignored.join()).toMatch(/the steps (?=.*b)(?=.*c).* wait for each other in a cycle/);
  });

  test('steps that can never begin have the run wait for a person, who is told which', async () => {
    const b = await bench(
      {},
      standing([
        { id: 'a', needs: ['b'] },
        { id: 'b', needs: ['a'] },
      ]),
    );
    expect(b.plan()).toMatchObject({ status: 'waiting', reason: 'stuck' });
    expect(b.on.reply('1.md')).toMatch(/a → b|b → a/);
  });

  test('a blocked step has the run wait, and says what it needs', async () => {
    const b = await bench(
      {},
      standing([
        { id: 'a', status: 'blocked', error: 'the key' },
        { id: 'b', needs: ['a'] },
      ]),
    );
    expect(b.plan()).toMatchObject({ status: 'waiting', reason: 'blocked' });
    expect(b.on.reply('1.md')).toContain('the key');
  });
});

describe('between super-steps', () => {
  const CHAIN = {
    steps: [step('a'), step('b', { needs: ['a'] }), step('c', { needs: ['b'] }), step('d', { needs: ['c'] })],
  };

  test('the planner is asked after the first one, and then only where something came out otherwise than planned', async () => {
    const b = await bench({ plan: CHAIN });
    await b.work();
    expect(b.looks().map(({ reason, changes }) => [reason, changes])).toEqual([['the plan stays as it is', []]]);
    const other = await bench({ plan: { steps: [...CHAIN.steps, step('e', { needs: ['b'] })] } });
    await other.work({ c: { status: 'failed', text: 'no' } });
    expect(other.looks()).toHaveLength(1);
  });

  test('it is asked five times at most', async () => {
    const chains = Array.from({ length: 9 }, (_, n) => step(`ok_${n}`, n > 0 ? { needs: [`ok_${n - 1}`] } : {}));
    const bad = chains.map((_, n) => step(`bad_${n}`, n > 0 ? { needs: [`ok_${n - 1}`] } : {}));
    const b = await bench({ plan: { steps: [...chains, ...bad] } });
    await b.work(Object.fromEntries(bad.map(({ id }) => [id, { status: 'failed' as const, text: 'no' }])));
    expect(b.looks()).toHaveLength(5);
    expect(b.plan()).toMatchObject({ status: 'failed' });
  });

  test('it may add, change and remove, and ids are never used twice', async () => {
    const adapt = {
      remove: ['c'],
      add: [
        { id: 'c', description: 'another c', needs: ['a'] },
        { id: 'e', description: 'e', needs: ['b'] },
      ],
      change: [
        { id: 'b', description: 'b with care' },
        { id: 'd', needs: ['e'] },
      ],
      reason: 'there are five pages',
    };
    const b = await bench({ plan: CHAIN, adapt: [adapt] });
    await b.work();
    expect(b.looks()[0]?.reason).toBe('there are five pages');
    expect(b.superSteps()).toEqual([['a'], ['step_1', 'b'], ['e'], ['d']]);
    expect(b.steps()).toMatchObject({
      b: { description: 'b with care' },
      step_1: { description: 'another c' },
      d: { status: 'completed' },
    });
  });

  test('a failed step in whose place others were planned does not make the plan failed', async () => {
    const plan = { steps: [step('a'), step('b'), step('c', { needs: ['a'] })] };
    const adapt = { add: [step('b2', { needs: ['a'] })] };
    const b = await bench({ plan, adapt: [adapt] });
    await b.work({ b: { status: 'failed', text: 'no' } });
    expect(b.plan()).toMatchObject({ status: 'completed' });
    const kept = await bench({ plan });
    await kept.work({ b: { status: 'failed', text: 'no' } });
    expect(kept.plan()).toMatchObject({ status: 'failed' });
  });

  test.each([
    ['prose', 'I would keep it', 'no whole JSON object'],
    ['a step that nobody knows', { remove: ['zzz'] }, 'no step is called zzz'],
    ['a cycle', { change: [{ id: 'b', needs: ['d'] }] }, 'cycle'],
    ['itself', { change: [{ id: 'b', needs: ['b'] }] }, 'b names itself'],
    ['an unknown agent', { change: [{ id: 'b', agent: 'zzz' }] }, 'no agent is called "zzz"'],
    [
      'a status',
      { change: [{ id: 'b', status: 'completed' }] },
      'b cannot be set to completed: how far a step is follows the work',
    ],
    ['too many', { add: Array.from({ length: 60 }, (_, n) => `step ${n}`) }, '50 are the most'],
  ])('%s is refused with the reason, and after three tries the plan stays', async (_what, answer, why) => {
    const b = await bench({ plan: CHAIN, adapt: [answer, answer, answer] });
    await b.work();
    expect(b.looks()).toMatchObject([{ reason: expect.stringContaining(why), changes: [] }]);
    const asked = b.on.requests.filter(({ messages }) =>
      messages.at(-1)?.content?.includes('Look at the results of the plan'),
    );
    expect(asked).toHaveLength(3);
    expect(asked[1]?.messages.at(-1)?.content).toContain(why);
    expect(b.plan()).toMatchObject({ status: 'completed' });
  });

  test('what a person wrote stays', async () => {
    const before: EventBody[] = [
      ...standing([{ id: 'a', status: 'completed' }, { id: 'b' }]),
      {
        type: 'plan.edited',
        by: 'person',
        ignored: [],
        changes: [{ what: 'step', step: 'b', set: { needs: ['a'] }, unset: [] }],
      },
    ];
    const answer = { change: [{ id: 'b', needs: [] }] };
    const b = await bench({ adapt: [answer, answer, answer] }, before);
    expect(b.looks()[0]?.reason).toContain('needs of b was written by a person and stays');
  });

  test('a plan that is larger than a planner may make it can still be made smaller', async () => {
    const many = Array.from({ length: 60 }, (_, n) => ({
      id: `s${n}`,
      status: n > 0 ? ('pending' as const) : ('completed' as const),
    }));
    const b = await bench({ adapt: [{ remove: ['s59'] }] }, standing(many));
    expect(b.looks()).toMatchObject([{ changes: [{ what: 'removed', step: 's59' }] }]);
  });

  test('a group that lost its parts is skipped, and what needed it', async () => {
    const plan = {
      steps: [step('a'), step('g', { needs: ['a'] }), step('p', { parent: 'g' }), step('z', { needs: ['g'] })],
    };
    const b = await bench({ plan, adapt: [{ remove: ['p'] }] });
    await b.work();
    expect(b.steps()).toMatchObject({ g: { status: 'skipped' }, z: { status: 'skipped' } });
    expect(b.ran()).toEqual(['a']);
  });
});

describe('a planner that cannot be used', () => {
  test.each([
    ['prose', 'I would first look around.'],
    ['half a JSON', '{"steps": ['],
    ['a cycle', { steps: [step('a', { needs: ['b'] }), step('b', { needs: ['a'] })] }],
    ['a need on itself', { steps: [step('a', { needs: ['a'] })] }],
    ['500 steps', { steps: Array.from({ length: 500 }, (_, n) => `step ${n}`) }],
    ['an unknown agent', { steps: [step('a', { agent: 'nobody' })] }],
    ['a condition on a step that is not there', { steps: [step('a', { when: [{ step: 'b' }] })] }],
  ])('%s: three plain steps, one after the other, and the reason in the plan', async (_what, plan) => {
    const b = await bench({ plan });
    await b.work();
    expect(b.plan().planned_by).toMatch(/^fallback: /);
    expect(b.superSteps()).toEqual([['step_1'], ['step_2'], ['step_3']]);
    expect(b.plan()).toMatchObject({ status: 'completed' });
  });
});

describe('a run killed after any event comes to the same end', () => {
  const plan = { steps: [...REPORT.steps, step('x', { needs: ['a'] }), step('y', { needs: ['x'] })] };
  const outcomes = { b: { status: 'failed' as const, text: 'no b' }, a: { text: 'it needs more' } };
  const more = { add: [step('more', { needs: ['a'] })], reason: 'more' };

  test.each([
    ['completed', [more], 'more completed'],
    ['failed', [], 'undo_b completed'],
  ])('%s', async (status, adapt, sign) => {
    const whole = await bench({ plan, adapt });
    await whole.work(outcomes);
    const story = whole.on.events();
    const ends = ({ steps }: typeof whole) => Object.values(steps()).map(({ id, status }) => `${id} ${status}`);
    expect(whole.plan().status).toBe(status);
    expect(ends(whole)).toContain(sign);
    for (let cut = 3; cut < story.length; cut++) {
      const before = story.slice(0, cut).map(({ v: _v, seq: _s, epoch: _e, at: _at, fence: _f, ...body }) => body);
      const asked = before.some((event) => event.type === 'model.answered' && event.planner_query === 'revise');
      const again = await bench({ plan, adapt: asked ? [] : adapt }, before);
      await again.work(outcomes);
      expect(again.on.faults, `cut at ${cut}`).toEqual([]);
      expect(ends(again), `cut at ${cut}`).toEqual(ends(whole));
      expect(again.plan().status, `cut at ${cut}`).toBe(status);
      expect(again.superSteps(), `cut at ${cut}`).toEqual(whole.superSteps());
    }
  });
});
