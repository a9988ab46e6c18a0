import { describe, expect, test } from 'vitest';
import type { Plan, Step } from '../../src/protocol/session/plan.ts';
import type { Mode } from '../../src/protocol/settings/run-options.ts';
import { moves, type Rig, rig, shell } from '../support/rig.ts';
import { type Bench, bench } from './dag-bench.ts';

const step = (id: string, more: object = {}) => ({ id, description: `work on ${id}`, ...more });
const CHAIN = [step('a'), step('b', { needs: ['a'] }), step('c', { needs: ['b'] })];
const fails = { status: 'failed', text: 'no network' } as const;
const skips = { text: '[Skip: the server is gone]' };

/** A save of plan.json, which is read with the next message. */
async function edit(on: Rig, change: (plan: Plan) => void): Promise<void> {
  const plan = structuredClone(on.plan());
  if (!plan) throw new Error('no plan.json');
  change(plan);
  on.store.hands.edit(JSON.stringify(plan));
  await say(on, '/status');
}

let count = 1;
async function say(on: Rig, text: string): Promise<string> {
  const name = `${++count}.md`;
  on.drop(name, text);
  await on.pass(300);
  return name;
}

const setTo = (id: string, status: Step['status']) => (plan: Plan) => {
  for (const one of plan.steps) if (one.id === id) one.status = status;
};
const found = (on: Rig) => Object.fromEntries((on.plan()?.steps ?? []).map(({ id, status }) => [id, status]));
const stands = (b: Bench) => found(b.on);

describe('what a person skips', () => {
  test.each(['linear', 'plan-act', 'todo', 'dag'] as const)(
    'is no longer needed by other steps (%s)',
    async (mode: Mode) => {
      const on = await rig({
        config: { mode, limits: { iterations: 2 } },
        script: ({ messages }) => {
          const asked = String(messages.at(-1)?.content);
          if (asked.includes('All steps have ended')) return { text: 'THE SUMMARY' };
          if (asked.includes('Look at the results')) return { text: '{"keep": true}' };
          if (asked.includes('JSON object')) return { text: JSON.stringify({ steps: CHAIN }) };
          return { text: mode === 'linear' ? '[Step] x\n[Step] y' : '', calls: [shell()] };
        },
      });
      on.drop('1.md', 'go');
      await on.pass(300);
      if (mode === 'dag') on.children.answer('demo~a', 'a.1', { status: 'paused', reason: 'limit', text: 'limit' });
      await say(on, '/pause');
      const [first, second] = Object.keys(found(on));
      await edit(on, (plan) => {
        setTo(first ?? '', 'skipped')(plan);
        for (const one of plan.steps) if (one.id === second) one.needs = [first ?? ''];
      });
      expect(on.plan()?.steps[0]).toMatchObject({ status: 'skipped', completed_by: 'person' });
      await say(on, 'continue');
      expect(found(on)[second ?? '']).toBe('running');
    },
  );

  test('holds nobody back after it had failed, nor does a group or a part of it', async () => {
    const group = [step('g'), step('p', { parent: 'g' }), step('z', { needs: ['g', 'p'] })];
    const b = await bench({ plan: { steps: [...CHAIN, ...group] } });
    await b.work({ a: fails, p: fails });
    expect(stands(b)).toMatchObject({ b: 'skipped', c: 'skipped', g: 'failed', z: 'skipped' });
    await say(b.on, '/plan skip a');
    await say(b.on, '/plan skip p');
    expect(stands(b)).toMatchObject({ a: 'skipped', b: 'pending', c: 'pending', g: 'skipped', z: 'pending' });
    await say(b.on, 'continue');
    await b.work();
    expect(b.plan()).toMatchObject({ status: 'completed' });
    expect(stands(b)).toMatchObject({ b: 'completed', c: 'completed', z: 'completed' });
  });

  test('and nothing else leaves a plan cancelled, not completed, until something is', async () => {
    const b = await bench({ plan: { steps: [step('a'), step('b')] }, limits: { iterations: 1 } });
    await say(b.on, '/pause');
    for (const id of ['a', 'b']) await say(b.on, `/plan skip ${id}`);
    expect(b.plan()).toMatchObject({ status: 'cancelled', reason: 'closed by hand' });
    await say(b.on, '/plan done a');
    expect(b.plan()).toMatchObject({ status: 'completed', reason: 'closed by hand' });
  });

  test('in a run, all of it: the run is done, and the plan is not completed', async () => {
    const on = await rig({
      script: (_, n) =>
        n === 0 ? { text: '[Step] x', calls: [shell()] } : { hold: true, next: () => ({ text: 'Fine.' }) },
    });
    on.drop('1.md', 'go');
    await on.pass(300);
    await say(on, '/plan skip 1');
    on.release();
    await on.pass(300);
    expect(on.reply('1.md')).toMatch(/status: done[\s\S]*Fine\./);
    expect(on.plan()).toMatchObject({ status: 'cancelled' });
  });
});

describe('a step that a person removes', () => {
  test('holds nobody back, though it had failed', async () => {
    const b = await bench({ plan: { steps: [...CHAIN, step('w', { when: [{ step: 'a', status: 'completed' }] })] } });
    await b.work({ a: fails });
    expect(stands(b)).toEqual({ a: 'failed', b: 'skipped', c: 'skipped', w: 'skipped' });
    await edit(b.on, (plan) => void plan.steps.shift());
    expect(stands(b)).toEqual({ b: 'pending', c: 'pending', w: 'pending' });
    expect(b.plan()).toMatchObject({ status: 'paused', reason: 'reopened' });
    expect(b.plan().steps[0]?.needs).toBeUndefined();
    await say(b.on, 'continue');
    await b.work();
    expect(b.plan()).toMatchObject({ status: 'completed' });
    expect(b.ran()).toEqual(['a', 'b', 'w', 'c']);
  });

  test('lets its group end as the other parts have', async () => {
    const steps = [step('g'), step('p', { parent: 'g' }), step('q', { parent: 'g' }), step('z', { needs: ['g'] })];
    const b = await bench({ plan: { steps } });
    await b.work({ p: fails });
    expect(stands(b)).toMatchObject({ g: 'failed', z: 'skipped' });
    await edit(b.on, (plan) => void plan.steps.splice(1, 1));
    expect(stands(b)).toEqual({ g: 'completed', q: 'completed', z: 'pending' });
  });
});

describe('what cannot be done', () => {
  test.each(['[Skip: the file is missing, it cannot be done]', '[跳过：文件不存在]'])(
    'as the only thing said, fails the plan, and "continue" tries it again: %s',
    async (words) => {
      const on = await rig({
        script: moves({ text: '[Step] x', calls: [shell()] }, { text: `No file. ${words}` }, { text: 'Here. [Done]' }),
      });
      on.drop('1.md', 'go');
      await on.pass(300);
      expect(on.plan()).toMatchObject({ status: 'failed', reason: 'not reached: step_1' });
      expect(on.reply('1.md')).toMatch(/status: failed[\s\S]*No file\./);
      await say(on, 'continue');
      expect(on.plan()).toMatchObject({ status: 'completed', steps: [{ status: 'completed', result: 'Here.' }] });
    },
  );

  test('by a child is skipped with its reason; what needs it is said, and something else completes the plan', async () => {
    const b = await bench({ plan: { steps: [...CHAIN, step('d')] } });
    await b.work({ a: skips });
    expect(b.steps()['a']).toMatchObject({ status: 'skipped', error: 'the server is gone' });
    expect(stands(b)).toMatchObject({ b: 'skipped', c: 'skipped', d: 'completed' });
    expect(b.plan()).toMatchObject({ status: 'completed' });
    expect(b.on.reply('1.md')).toContain(
      'left out: work on a (the server is gone); work on b (needs a, which was skipped); work on c (needs b',
    );
  });

  test('by a child, with nothing else done, fails the plan', async () => {
    const b = await bench({ plan: { steps: CHAIN } });
    await b.work({ a: skips });
    expect(b.plan()).toMatchObject({ status: 'failed', reason: 'not reached: a' });
    await say(b.on, 'continue');
    await b.work();
    expect(b.plan()).toMatchObject({ status: 'completed' });
    expect(b.ran()).toEqual(['a', 'a', 'b', 'c']);
  });
});

describe('a paused plan', () => {
  test('whose group has its parts all closed by hand is over with them', async () => {
    const on = await rig({ script: moves({ text: '[Step] x', calls: [shell()] }, { hold: true }) });
    on.drop('1.md', 'go');
    await on.pass(300);
    await say(on, 'stop');
    await edit(on, (plan) => {
      const part = (id: string, parent?: string): Step => ({
        id,
        description: id,
        status: 'pending',
        ...(parent && { parent }),
      });
      plan.steps.push(part('G'), part('g1', 'G'), part('g2', 'G'));
    });
    await edit(on, (plan) => {
      for (const one of plan.steps) if (one.id !== 'G') one.status = one.id === 'g2' ? 'skipped' : 'completed';
    });
    expect(found(on)).toEqual({ step_1: 'completed', G: 'completed', g1: 'completed', g2: 'skipped' });
    expect(on.plan()).toMatchObject({ status: 'completed', reason: 'closed by hand' });
  });

  test('whose steps are all closed is not ended by an edit that closes none', async () => {
    const on = await rig({
      script: (_, n) =>
        [
          { text: '[Step] x', calls: [shell()] },
          { text: '[Done] x is ready', calls: [shell()] },
        ][n] ?? { text: 'THE REPORT' },
    });
    on.drop('1.json', JSON.stringify({ text: 'make the report', options: { limits: { iterations: 2 } } }));
    await on.pass(300);
    expect(on.plan()).toMatchObject({ status: 'paused', steps: [{ status: 'completed' }] });
    await edit(on, (plan) => {
      plan.limits.iterations = 9;
    });
    expect(on.plan()).toMatchObject({ status: 'paused' });
    const reply = on.reply(await say(on, 'continue'));
    expect(reply).toMatch(/status: done[\s\S]*THE REPORT/);
    expect(on.plan()).toMatchObject({ status: 'completed', goal: 'make the report' });
  });
});
