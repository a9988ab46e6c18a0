import { expect, test } from 'vitest';
import type { ActivityFile } from '../../src/daemon/crashes/crash-blame.ts';
import { openCrashLoopGuard } from '../../src/daemon/crashes/crash-loop-guard.ts';
import type { CrashCulprit, CrashRecord } from '../../src/protocol/workspace/daemon-files.ts';

const NOW = Date.parse('2026-01-05T08:00:00.000Z');
const NONE: CrashRecord = { version: 1, in_a_row: 0, ran_ms: 0, suspects: [], culprits: [] };
const alone = (session: string, times: number): CrashCulprit => ({ session, times, how: 'alone' });

/** A daemon after these losses, with a clock that stands still unless told. */
function after(losses: CrashRecord) {
  let ms = 0;
  let timers: Array<{ at: number; run: () => void }> = [];
  const woken: string[] = [];
  const atWork: ActivityFile = { markBusy: () => {}, markIdle: () => {}, close: () => {} };
  let kept = losses;
  const clock = {
    now: () => new Date(NOW + ms),
    elapsed: () => ms,
    after(by: number, run: () => void) {
      const timer = { at: ms + by, run };
      timers.push(timer);
      return () => {
        timers = timers.filter((one) => one !== timer);
      };
    },
  };
  const assessed = { losses, verdict: () => ({ after: 'crash' as const }), told: null };
  const write = async (next: CrashRecord) => {
    kept = next;
  };
  const trial = openCrashLoopGuard({ assessed, atWork, write, clock, log: () => {} });
  trial.start({ wake: (name) => woken.push(name), openWaiting: () => woken.push('all') });
  /** What is put on file on the way to the next one takes a few turns. */
  const settle = () => new Promise((done) => setImmediate(done));
  const pass = async (by: number) => {
    ms += by;
    for (const timer of timers.filter(({ at }) => at <= ms)) {
      timers = timers.filter((one) => one !== timer);
      timer.run();
    }
    await settle();
  };
  const admitted = (...names: string[]) => names.filter(trial.mayOpen);
  return { trial, pass, settle, admitted, woken, kept: () => kept };
}

test('after one loss all are served at once', () => {
  expect(after({ ...NONE, in_a_row: 1, suspects: ['a'] }).admitted('a', 'b')).toEqual(['a', 'b']);
});

test('after two nothing is opened for a moment, then one suspect at a time, then all', async () => {
  const it = after({ ...NONE, in_a_row: 2, suspects: ['a', 'b'] });
  await it.pass(999);
  expect(it.admitted('a', 'b', 'c')).toEqual([]);
  await it.pass(1);
  expect(it.admitted('a', 'b', 'c')).toEqual(['a']);
  expect(it.kept().trying).toBe('a');
  it.trial.onActivity('a', 'got on');
  await it.settle();
  expect(it.admitted('a', 'b', 'c')).toEqual(['b']);
  it.trial.onActivity('b', 'quiet');
  await it.settle();
  expect(it.admitted('a', 'b', 'c')).toEqual(['a', 'b', 'c']);
  expect(it.kept()).toMatchObject({ in_a_row: 2, suspects: [] });
  expect(it.woken).toEqual(['a', 'b', 'all']);
  await it.pass(10 * 60_000);
  expect(it.kept().in_a_row).toBe(0);
});

test('the pause is doubled with each loss, and longer than what was at work had lasted', async () => {
  const third = after({ ...NONE, in_a_row: 4, suspects: ['a'] });
  await third.pass(3999);
  expect(third.admitted('a')).toEqual([]);
  const long = after({ ...NONE, in_a_row: 2, ran_ms: 7000, suspects: ['a'] });
  await long.pass(13_999);
  expect(long.admitted('a')).toEqual([]);
  await long.pass(1);
  expect(long.admitted('a')).toEqual(['a']);
});

test('one that gets nowhere keeps the others waiting for some seconds only', async () => {
  const it = after({ ...NONE, in_a_row: 2, suspects: ['a', 'b'] });
  await it.pass(1000);
  await it.pass(5000);
  expect(it.admitted('a', 'b')).toEqual(['b']);
});

test('with proof against it a session comes first, and getting further is not enough for the next one to begin', async () => {
  const it = after({ ...NONE, in_a_row: 2, suspects: ['a'], culprits: [alone('p', 2)] });
  await it.pass(1000);
  expect(it.admitted('a', 'p')).toEqual(['p']);
  it.trial.onActivity('p', 'got on');
  await it.settle();
  expect(it.admitted('a', 'p')).toEqual(['p']);
  it.trial.onActivity('p', 'quiet');
  await it.settle();
  expect(it.admitted('a', 'p')).toEqual(['a']);
  expect(it.kept().culprits).toEqual([]);
});

test('one that cannot be opened makes way', async () => {
  const it = after({ ...NONE, in_a_row: 2, suspects: ['a', 'b'] });
  await it.pass(1000);
  it.trial.onClose('a');
  await it.settle();
  expect(it.admitted('a', 'b')).toEqual(['b']);
});

test('one that is held is told of, and opened by itself when its time has come', async () => {
  const until = new Date(NOW + 120_000).toISOString();
  const it = after({ ...NONE, culprits: [{ ...alone('p', 4), until }] });
  expect(it.admitted('p', 'a')).toEqual(['a']);
  expect(it.trial.listHeld()).toMatchObject([
    { session: 'p', is: 'set aside', why: expect.stringContaining('4 daemons') },
  ]);
  await it.pass(120_000);
  expect(it.admitted('p')).toEqual(['p']);
  expect(it.trial.listHeld()).toEqual([]);
});

test('after the third loss one with nothing on record that could be set aside is held', async () => {
  const it = after({ ...NONE, culprits: [alone('p', 3), alone('q', 2)] });
  expect([
    it.trial.holdIfCulprit('q', false),
    it.trial.holdIfCulprit('p', true),
    it.trial.holdIfCulprit('p', false),
  ]).toEqual([false, false, true]);
  expect(it.admitted('p', 'q')).toEqual(['q']);
});

test('how the last daemon ended is told a session once', () => {
  const { trial } = after(NONE);
  expect([trial.takePreviousFailure('a'), trial.takePreviousFailure('a')]).toEqual([{ after: 'crash' }, undefined]);
});
