import { expect, test, vi } from 'vitest';
import { moves, rig, shell } from '../support/rig.ts';

/** While it is set, a run is never told what to do: an error of the code, made on purpose. */
const fault = vi.hoisted(() => ({ on: false, circle: false }));

/** An event that changes nothing: its call is not there. */
const NOTHING = vi.hoisted(() => ({
  type: 'tool.finished' as const,
  call: '1.9',
  ok: true,
  output: { text: '' },
  ms: 0,
}));

vi.mock('../../src/core/decide/decide.ts', async (original) => {
  const real = await original<typeof import('../../src/core/decide/decide.ts')>();
  const decide: typeof real.decide = (session, rules) => {
    if (fault.circle && (session.run || fault.on)) return { do: 'record', events: [NOTHING] };
    return fault.on && session.run ? { do: 'idle' } : real.decide(session, rules);
  };
  return { ...real, decide };
});

test('a stalled run is ended as failed, reported in the log, and goes on with "continue"', async () => {
  const on = await rig({
    script: moves({ text: '[Step] look', calls: [shell()] }, { text: 'Found. [Done]' }),
    tool: () => {
      fault.on = true;
      return { ok: true, text: 'looked' };
    },
  });
  await on.say('1.md', 'look at it');
  fault.on = false;
  expect(on.reply('1.md')).toMatch(/status: failed[\s\S]*reason: stalled/);
  expect(on.logged).toEqual([['error', expect.stringContaining('the run of 1.md has stalled')]]);
  expect(on.subjects).toEqual([{ run: expect.stringContaining('1'), step: 'step_1' }]);
  await on.say('2.md', 'continue');
  expect(on.reply('2.md')).toContain('status: done');
});

test('a run whose loop repeats a decision is ended as failed, and its event log does not fill up', async () => {
  const on = await rig({
    script: moves({ text: '[Step] look', calls: [shell()] }, { text: 'Found. [Done]' }),
    tool: () => {
      fault.circle = true;
      return { ok: true, text: 'looked' };
    },
  });
  await on.say('1.md', 'look at it');
  fault.circle = false;
  expect(on.reply('1.md')).toMatch(/status: failed[\s\S]*reason: stalled/);
  expect(on.logged).toEqual([['error', expect.stringContaining('repeats the same decision at event')]]);
  expect(on.events().filter((event) => event.type === 'tool.finished').length).toBeLessThan(12);
  await on.say('2.md', 'continue');
  expect(on.reply('2.md')).toContain('status: done');
});

test('without a run, a session whose loop repeats a decision fails and is retried', async () => {
  const on = await rig({ script: moves({ text: 'Found.' }) });
  [fault.circle, fault.on] = [true, true];
  on.drop('1.md', 'look at it');
  await on.settle().catch(() => {});
  [fault.circle, fault.on] = [false, false];
  expect(on.takeFaults()).toEqual([
    expect.objectContaining({ message: expect.stringContaining('repeats the same decision') }),
  ]);
});
