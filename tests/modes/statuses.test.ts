import { describe, expect, test } from 'vitest';
import type { Step } from '../../src/protocol/session/plan.ts';
import { type Rig, rig } from '../support/rig.ts';
import { type Bench, bench } from './dag-bench.ts';

const step = (id: string, more: object = {}) => ({ id, description: `work on ${id}`, ...more });
const fails = { status: 'failed', text: 'no' } as const;

let count = 1;
async function say(on: Rig, text: string): Promise<string> {
  const name = `${++count}.md`;
  await on.say(name, text);
  return name;
}

/** A person changes one step in plan.json and saves it. */
async function edit(on: Rig, id: string, change: Partial<Step>, ...unset: Array<keyof Step>): Promise<void> {
  const plan = on.plan();
  const steps = (plan?.steps ?? []).map((one) => {
    const next = one.id === id ? { ...one, ...change } : one;
    return Object.fromEntries(Object.entries(next).filter(([key]) => one.id !== id || !unset.some((it) => it === key)));
  });
  on.store.hands.edit(JSON.stringify({ ...plan, steps }));
  await on.wake();
  // While nothing runs, a save is read with the next message.
  await say(on, '/status');
}

const statuses = (b: Bench) => Object.fromEntries(b.plan().steps.map(({ id, status }) => [id, status]));

describe('a group that a person', () => {
  const steps = [step('a'), step('g', { needs: ['a'] }), step('p', { parent: 'g' }), step('z', { needs: ['g'] })];

  test('set to failed keeps the plan from being completed, and "continue" has it done', async () => {
    const b = await bench({ plan: { steps } });
    await edit(b.on, 'g', { status: 'failed' });
    await b.work();
    expect(statuses(b)).toEqual({ a: 'completed', g: 'failed', p: 'skipped', z: 'skipped' });
    expect(b.plan()).toMatchObject({ status: 'waiting', reason: 'blocked' });
    await say(b.on, '/continue');
    await b.work();
    expect(b.ran()).toEqual(['a', 'p', 'z']);
    expect(b.plan()).toMatchObject({ status: 'completed' });
  });

  test('set to failed in a completed plan has the plan failed', async () => {
    const b = await bench({ plan: { steps } });
    await b.work();
    await edit(b.on, 'g', { status: 'failed' });
    expect(b.plan()).toMatchObject({ status: 'failed', reason: 'not reached: g' });
  });

  test('set to blocked is left alone until they open it', async () => {
    const b = await bench({ plan: { steps } });
    await edit(b.on, 'g', { status: 'blocked' });
    await b.work();
    expect(statuses(b)).toEqual({ a: 'completed', g: 'blocked', p: 'pending', z: 'pending' });
    expect(b.plan()).toMatchObject({ status: 'waiting', reason: 'blocked' });
    await say(b.on, '/continue');
    await b.work();
    expect(b.ran()).toEqual(['a']);
    await edit(b.on, 'g', { status: 'pending' });
    await say(b.on, '/continue');
    await b.work();
    expect(b.ran()).toEqual(['a', 'p', 'z']);
    expect(b.plan()).toMatchObject({ status: 'completed' });
  });
});

test('the reply says what is missing if the last open step of a group is blocked', async () => {
  const b = await bench({ plan: { steps: [step('g'), step('p', { parent: 'g' })] } });
  await b.work({ p: { text: '[Blocked: which city?]' } });
  expect(b.plan()).toMatchObject({ status: 'waiting', reason: 'blocked' });
  expect(b.on.reply('1.md')).toContain('which city?');
});

describe('a step that is open again', () => {
  test('after "continue" is no longer what /undo opens, nor is its rollback', async () => {
    const steps = [step('o'), step('a', { needs: ['o'], rollback: 'u' }), step('u'), step('c', { needs: ['a'] })];
    const b = await bench({ plan: { steps } });
    await b.work({ a: fails });
    await say(b.on, '/continue');
    expect(statuses(b)).toMatchObject({ a: 'running', u: 'pending' });
    expect(b.on.reply(await say(b.on, '/undo'))).toContain('"work on o" is open again');
    await b.work();
    expect(b.ran()).toEqual(['o', 'a', 'u', 'a', 'o', 'c']);
    expect(b.plan()).toMatchObject({ status: 'completed' });
  });

  test('and fails by itself is a failure like any other, though a person had set it to failed before', async () => {
    const b = await bench({ plan: { steps: [step('a'), step('c')] } });
    await edit(b.on, 'a', { status: 'failed' });
    await b.work();
    expect(b.plan()).toMatchObject({ status: 'waiting', reason: 'blocked' });
    const again = await say(b.on, '/continue');
    await b.work({ a: fails });
    expect(b.plan()).toMatchObject({ status: 'failed', reason: 'not reached: a' });
    expect(b.on.reply(again)).toContain('That is what came of it.');
  });

  test('is tried as often as any other in todo, though a person had set it to failed before', async () => {
    let isHeld = true;
    const on = await rig({
      config: { mode: 'todo' },
      script: ({ messages }, n) => {
        const asked = messages.at(-1)?.content ?? '';
        if (n === 0) return { text: JSON.stringify({ steps: [step('a'), step('b')] }) };
        if (asked.includes('All steps have ended')) return { text: 'That is what came of it.' };
        return isHeld ? { hold: true } : { text: '[Failed: broken]' };
      },
    });
    on.drop('1.md', 'Do it');
    await on.pass(300);
    await edit(on, 'a', { status: 'failed' });
    isHeld = false;
    on.release();
    await on.pass(300);
    expect(on.plan()?.steps).toMatchObject([{ status: 'failed' }, { status: 'blocked', attempts: 3 }]);
    await say(on, '/continue');
    await on.pass(300);
    expect(on.plan()?.steps).toMatchObject([{ status: 'blocked', attempts: 3 }, { status: 'blocked' }]);
  });
});

describe('a failed step in whose place the planner has put another', () => {
  const plan = { steps: [step('a'), step('c'), step('z', { needs: ['c'] })] };
  const adapt = [{ add: [{ id: 'b', description: 'another way' }], reason: 'in place of a' }];

  test('is not tried again by "continue"', async () => {
    const b = await bench({ plan, adapt });
    await b.work({ a: fails, z: fails });
    expect(b.plan()).toMatchObject({ status: 'failed', reason: 'not reached: z' });
    await say(b.on, '/continue');
    await b.work();
    expect(b.ran()).toEqual(['a', 'c', 'b', 'z', 'z']);
    expect(b.plan()).toMatchObject({ status: 'completed' });
  });

  test('does not keep the plan from being completed when the last open step is closed by hand', async () => {
    const b = await bench({ plan, adapt, limits: { iterations: 5 } });
    await b.work({ a: fails });
    expect(b.plan()).toMatchObject({ status: 'paused', reason: 'limit' });
    await say(b.on, '/plan done z');
    expect(b.plan()).toMatchObject({ status: 'completed', reason: 'closed by hand' });
  });

  test('counts again once a person has opened it', async () => {
    const b = await bench({ plan, adapt });
    await b.work({ a: fails });
    expect(b.plan()).toMatchObject({ status: 'completed' });
    await edit(b.on, 'a', { status: 'pending' });
    await say(b.on, '/continue');
    await b.work({ a: fails });
    expect(b.plan()).toMatchObject({ status: 'failed', reason: 'not reached: a' });
  });
});

describe('a skipped step is open again', () => {
  test('once a person has completed the step that its condition asks about', async () => {
    const [yes, no] = ['completed', 'failed'].map((status) => ({ when: [{ step: 'a', status }] }));
    const b = await bench({ plan: { steps: [step('a'), step('y', yes), step('n', no)] } });
    await b.work({ a: fails });
    expect(statuses(b)).toEqual({ a: 'failed', y: 'skipped', n: 'completed' });
    await say(b.on, '/plan done a');
    expect(statuses(b)).toEqual({ a: 'completed', y: 'pending', n: 'completed' });
    expect(b.plan()).toMatchObject({ status: 'paused', reason: 'reopened' });
    await say(b.on, '/continue');
    await b.work();
    expect(b.plan()).toMatchObject({ status: 'completed' });
  });

  test('once a person has completed what it needs, also as a part of a group that ended with it', async () => {
    const p = step('p', { parent: 'g', needs: ['a'] });
    const b = await bench({ plan: { steps: [step('a'), step('g'), p, step('z', { needs: ['g'] })] } });
    await b.work({ a: fails });
    expect(statuses(b)).toEqual({ a: 'failed', g: 'skipped', p: 'skipped', z: 'skipped' });
    await say(b.on, '/plan done a');
    expect(statuses(b)).toEqual({ a: 'completed', g: 'running', p: 'pending', z: 'pending' });
  });

  test('once a person has taken away the need for which it was skipped, or that of its group', async () => {
    const group = [step('g', { needs: ['a'] }), step('p', { parent: 'g' })];
    const b = await bench({ plan: { steps: [step('a'), step('z', { needs: ['a'] }), ...group, step('y')] } });
    await b.work({ a: fails });
    expect(statuses(b)).toEqual({ a: 'failed', z: 'skipped', g: 'skipped', p: 'skipped', y: 'completed' });
    await edit(b.on, 'z', { needs: ['y'] });
    expect(statuses(b)).toMatchObject({ z: 'pending', p: 'skipped' });
    expect(b.plan()).toMatchObject({ status: 'paused', reason: 'reopened' });
    await edit(b.on, 'g', {}, 'needs');
    expect(statuses(b)).toMatchObject({ g: 'running', p: 'pending' });
    await say(b.on, '/continue');
    await b.work();
    expect(b.ran()).toEqual(['a', 'y', 'z', 'p']);
    expect(b.plan()).toMatchObject({ status: 'failed', reason: 'not reached: a' });
  });

  test('but not if a person has skipped it, in whatever words', async () => {
    const b = await bench({ plan: { steps: [step('a'), step('z', { needs: ['a'] }), step('c')] } });
    await say(b.on, '/plan skip z needs a, and I do not want it');
    await b.work({ a: fails });
    await say(b.on, '/continue');
    await b.work({ a: fails });
    await say(b.on, '/plan done a');
    expect(statuses(b)).toEqual({ a: 'completed', z: 'skipped', c: 'completed' });
  });
});

test('a child whose step a person closes while another child asks something is told to end at once', async () => {
  const b = await bench({ plan: { steps: [step('a'), step('b'), step('c')] } });
  b.on.children.answer('demo~a', 'a.1', { status: 'waiting', text: 'Where?' });
  b.on.worker.wake();
  await b.on.settle();
  expect(b.plan()).toMatchObject({ status: 'waiting', reason: 'question' });
  const told = () => b.on.children.sent.flatMap(({ child, message: { command } }) => (command ? [child, command] : []));
  await say(b.on, '/plan skip b');
  expect(told()).toEqual(['demo~b', 'cancel']);
  await say(b.on, '/plan done a');
  await say(b.on, '/plan done c');
  expect(told()).toEqual(['demo~b', 'cancel', 'demo~c', 'cancel']);
  expect(b.plan()).toMatchObject({ status: 'completed', reason: 'closed by hand' });
});

describe('/undo in map-reduce', () => {
  const map = { id: 'map', description: 'Count', each: { list: ['x', 'y'] } };
  const ended = async (outcomes: Record<string, object> = {}) => {
    const plan = { steps: [map, { id: 'reduce', description: 'Add up', gather: { from: 'map' } }] };
    const on = await rig({
      config: { mode: 'map-reduce', limits: { steps: 1 } },
      script: (_request, n) => ({ text: n === 0 ? JSON.stringify(plan) : 'The summary.' }),
    });
    const work = async (most = 20) => {
      for (let n = 0, sent = 0; n < most; n++) {
        for (const { child, message } of on.children.sent.slice(sent))
          on.children.answer(child, message.id, { text: 'ok', ...outcomes[child] });
        sent = on.children.sent.length;
        on.worker.wake();
        await on.pass(1000);
      }
    };
    await on.say('1.md', 'Count all');
    return { on, work, sent: () => on.children.sent.map(({ child }) => child.slice('demo~'.length)) };
  };
  const found = (on: Rig) => Object.fromEntries((on.plan()?.steps ?? []).map(({ id, status }) => [id, status]));

  test('has the last batch combined again, with what the person said', async () => {
    const { on, work, sent } = await ended();
    await work();
    expect(on.plan()).toMatchObject({ status: 'completed' });
    expect(on.reply(await say(on, 'not done yet, the sum is missing'))).toContain('"Add up" is open again');
    expect(found(on)).toMatchObject({ reduce: 'running', 'reduce.1': 'running', map: 'completed' });
    await say(on, '/continue');
    await work();
    expect(sent()).toEqual(['map.1', 'map.2', 'reduce.1', 'reduce.1']);
    expect(on.children.sent.at(-1)?.message.text).toContain('the sum is missing');
    expect(on.plan()).toMatchObject({ status: 'completed' });
  });

  test('opens the part that failed last, and its step', async () => {
    const { on, work } = await ended({ 'demo~map.2': { text: '[Failed: no]' } });
    await work();
    expect(found(on)).toMatchObject({ map: 'failed', 'map.1': 'completed', 'map.2': 'failed', reduce: 'skipped' });
    await say(on, '/undo');
    expect(found(on)).toMatchObject({ map: 'running', 'map.2': 'running', reduce: 'pending' });
  });

  test('opens the step with all its parts that have not begun, if a person has closed it', async () => {
    const { on, work } = await ended();
    await say(on, '/plan done map');
    await work(1);
    expect(found(on)).toMatchObject({ map: 'completed', 'map.2': 'skipped' });
    await say(on, '/undo');
    expect(found(on)).toMatchObject({ map: 'running', 'map.2': 'pending' });
    await work();
    expect(on.plan()).toMatchObject({ status: 'completed' });
    expect(found(on)).toMatchObject({ 'map.2': 'completed' });
  });
});

describe('a step that is blocked by its child', () => {
  test('has the run wait, also if nothing else is open, and the answer is passed on to the child', async () => {
    const b = await bench({ plan: { steps: [step('a'), step('b'), step('c')] } });
    await b.work({ a: { text: '[Blocked: which city?]' }, c: fails });
    expect(statuses(b)).toEqual({ a: 'blocked', b: 'completed', c: 'failed' });
    expect(b.plan()).toMatchObject({ status: 'waiting', reason: 'blocked' });
    expect(b.on.reply('1.md')).toContain('which city?');
    await say(b.on, 'Paris, of course');
    const again = b.on.children.sent.findLast(({ child }) => child === 'demo~a');
    expect(again?.message.text).toContain('Paris, of course');
    await b.work();
    expect(b.ran()).toEqual(['a', 'b', 'c', 'a', 'c']);
    expect(b.plan()).toMatchObject({ status: 'completed' });
  });

  test('has the run wait in plan-act, once no other step is open', async () => {
    const agent = 'search';
    const on = await rig({
      config: { mode: 'plan-act', agents: { [agent]: { instructions: 'Search.' } } },
      script: (_request, n) => ({
        text: n === 0 ? JSON.stringify({ steps: [step('a', { agent }), step('b', { agent })] }) : 'The summary.',
      }),
    });
    await on.say('1.md', 'Do it');
    const answer = async (child: string, text: string) => {
      on.children.answer(child, on.children.sent.findLast((it) => it.child === child)?.message.id ?? '', { text });
      on.worker.wake();
      await on.pass(300);
    };
    await answer('demo~a', '[Blocked: which city?]');
    await answer('demo~b', 'ok');
    expect(on.plan()).toMatchObject({ status: 'waiting', reason: 'blocked' });
    expect(on.reply('1.md')).toContain('which city?');
    await say(on, 'Paris');
    expect(on.children.sent.at(-1)?.message.text).toContain('Paris');
    await answer('demo~a', 'ok');
    expect(on.plan()).toMatchObject({ status: 'completed' });
  });
});

test('the words behind "continue" are passed on to the child that tries a failed step again', async () => {
  const b = await bench({ plan: { steps: [step('a'), step('b')] } });
  await b.work({ a: fails });
  await say(b.on, '/continue use the second link');
  const again = b.on.children.sent.at(-1);
  expect(again).toMatchObject({ child: 'demo~a', message: { text: expect.stringContaining('use the second link') } });
  await b.work();
  expect(b.plan()).toMatchObject({ status: 'completed' });
});

test('of steps opened again with /undo, one that needs another waits for it', async () => {
  const b = await bench({ plan: { steps: [step('a'), step('z', { needs: ['a'] })] } });
  await b.work();
  await say(b.on, '/undo');
  await say(b.on, '/undo');
  expect(statuses(b)).toEqual({ a: 'running', z: 'pending' });
  await say(b.on, '/continue');
  expect(b.atWork()).toEqual(['a']);
  await b.work();
  expect(b.plan()).toMatchObject({ status: 'completed' });
});

describe('a group whose last failed part a person closes', () => {
  const steps = [step('g'), step('p', { parent: 'g' }), step('q', { parent: 'g' }), step('z', { needs: ['g'] })];

  test.each(['done', 'skip'])('with /plan %s ends as its parts have, and what needs it is open again', async (how) => {
    const b = await bench({ plan: { steps } });
    await b.work({ p: fails });
    expect(statuses(b)).toMatchObject({ g: 'failed', z: 'skipped' });
    await say(b.on, `/plan ${how} p`);
    expect(statuses(b)).toMatchObject({ g: 'completed', z: 'pending' });
    expect(b.plan()).toMatchObject({ status: 'paused', reason: 'reopened' });
    await say(b.on, '/continue');
    await b.work();
    expect(b.ran()).toEqual(['p', 'q', 'z']);
    expect(b.plan()).toMatchObject({ status: 'completed' });
  });

  test('stays failed while another part of it is, and "continue" tries that again', async () => {
    const b = await bench({ plan: { steps } });
    await b.work({ p: fails, q: fails });
    await say(b.on, '/plan done p');
    expect(statuses(b)).toMatchObject({ g: 'failed', q: 'failed', z: 'skipped' });
    expect(b.plan()).toMatchObject({ status: 'failed' });
    await say(b.on, '/continue');
    await b.work();
    expect(b.ran()).toEqual(['p', 'q', 'q', 'z']);
  });
});
