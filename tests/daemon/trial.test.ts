import { expect, test } from 'vitest';
import { openCrashLoopGuard } from '../../src/daemon/crashes/crash-loop-guard.ts';
import type { BlamedSession } from '../../src/daemon/crashes/crash-notes.ts';
import type { CrashRecord } from '../../src/protocol/workspace/daemon-files.ts';

const NOW = Date.parse('2026-01-05T08:00:00.000Z');

/** A daemon after these crashes, with a clock that stands still unless told; `written`: sessions with something to do. */
function after(
  crashes: Partial<CrashRecord>,
  written: Record<string, number> = {},
  blamed: BlamedSession | null = null,
  isComplete = true,
) {
  let ms = 0;
  let timers: Array<{ at: number; run: () => void }> = [];
  let kept: CrashRecord = { unexplained: 0, by_session: {}, ...crashes };
  const waiting = new Set(Object.keys(written));
  const opened: string[] = [];
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
  const write = async (next: CrashRecord) => {
    kept = next;
  };
  const lastWritten = (name: string) => written[name] ?? 0;
  const guard = openCrashLoopGuard({ assessed: { crashes: kept, blamed }, write, lastWritten, clock, log: () => {} });
  const openWaiting = () => {
    for (const name of waiting) {
      if (!guard.mayOpen(name)) continue;
      waiting.delete(name);
      opened.push(name);
    }
  };
  guard.start({ waiting: () => waiting, isComplete: () => isComplete, openWaiting });
  openWaiting();
  const pass = async (by: number) => {
    const end = ms + by;
    for (;;) {
      const next = timers.sort((a, b) => a.at - b.at)[0];
      if (!next || next.at > end) break;
      ms = Math.max(ms, next.at);
      timers = timers.filter((one) => one !== next);
      next.run();
    }
    ms = end;
    await new Promise((done) => setImmediate(done));
  };
  return {
    guard,
    pass,
    opened,
    kept: () => kept,
    add: (name: string) => void waiting.add(name),
    found: (complete: boolean) => {
      isComplete = complete;
    },
  };
}

test('after one loss all are served at once', () => {
  expect(after({ unexplained: 1 }, { a: 2, b: 1 }).opened).toEqual(['a', 'b']);
});

test('from the second on one is opened at once and the others one after the other, the one written last going last', async () => {
  const it = after({ unexplained: 3 }, { last: 9, second: 1, third: 5, first: 7 });
  await it.pass(0);
  expect(it.opened).toEqual(['third']);
  await it.pass(2000);
  expect(it.opened).toEqual(['third', 'second']);
  await it.pass(4000);
  expect(it.opened).toEqual(['third', 'second', 'first', 'last']);
  it.add('new');
  await it.pass(4000);
  expect(it.opened).toEqual(['third', 'second', 'first', 'last', 'new']);
  expect(it.guard.mayOpen('any')).toBe(true);
});

test('each daemon begins with another session, so all get their turn even if none lives long enough for two', () => {
  const written = { a: 4, b: 3, c: 2, d: 1 };
  const first = [2, 3, 4, 5].map((unexplained) => after({ unexplained }, written).opened);
  expect(first.flat().sort()).toEqual(['a', 'b', 'c', 'd']);
});

test('the next one follows at once where the one before is idle, or cannot be opened', async () => {
  const it = after({ unexplained: 3 }, { a: 1, b: 2, c: 3 });
  it.guard.onIdle('a');
  await it.pass(0);
  it.guard.onClose('b');
  await it.pass(0);
  expect(it.opened).toEqual(['a', 'b', 'c']);
});

test('however many there are, all are opened within a minute', async () => {
  const many = Object.fromEntries(Array.from({ length: 600 }, (_, n) => [`s${n}`, n]));
  const it = after({ unexplained: 2 }, many);
  await it.pass(61_000);
  expect(it.opened).toHaveLength(600);
});

test('while it is not known who has something to do, nobody else is let in', async () => {
  const it = after({ unexplained: 2 }, {}, null, false);
  await it.pass(10_000);
  expect(it.guard.mayOpen('a')).toBe(false);
  it.add('late');
  it.found(true);
  await it.pass(4000);
  expect(it.opened).toEqual(['late']);
  expect(it.guard.mayOpen('a')).toBe(true);
});

test('a daemon that has lived ten minutes ends the row', async () => {
  const it = after({ unexplained: 2 });
  await it.pass(600_000);
  expect(it.kept().unexplained).toBe(0);
});

test('what was counted against a session is reset once it is idle', async () => {
  const it = after({ by_session: { a: 2, b: 1 } });
  it.guard.onIdle('a');
  await it.pass(0);
  expect(it.kept().by_session).toEqual({ b: 1 });
});

test('after the third loss a session with nothing to give up is held; after the fourth any is, and then opened by itself', async () => {
  const third = after({ by_session: { p: 3, q: 2 } });
  const { guard } = third;
  expect([
    guard.suspendIfBlamed('q', false),
    guard.suspendIfBlamed('p', true),
    guard.suspendIfBlamed('p', false),
  ]).toEqual([...[false, false, true]]);
  expect(guard.mayOpen('p')).toBe(false);
  const fourth = after({ by_session: { p: 4 } }, {}, { session: 'p', times: 4, why: 'it stood still' });
  expect(fourth.guard.mayOpen('p')).toBe(false);
  expect(fourth.guard.mayOpen('q')).toBe(true);
  expect(fourth.guard.listSuspended()).toMatchObject([
    { session: 'p', is: 'suspended', why: expect.stringMatching(/^It crashed 4 daemons.*08:02:00.*it stood still$/) },
  ]);
  await fourth.pass(120_000);
  expect(fourth.guard.mayOpen('p')).toBe(true);
  expect(fourth.guard.listSuspended()).toEqual([]);
  expect(fourth.guard.suspendIfBlamed('p', false)).toBe(false);
});

test('the one that is blamed is notified once, the others that a daemon was lost', () => {
  const { guard } = after({ by_session: { a: 2 } }, {}, { session: 'a', times: 2, why: 'it stood still' });
  expect(guard.takePreviousFailure('a')).toEqual({ after: 'crash', crashes: 2, error: 'it stood still' });
  expect(guard.takePreviousFailure('a')).toBeUndefined();
  expect(guard.takePreviousFailure('b')).toEqual({ after: 'crash' });
});

test('a session whose settings cost three daemons is suspended at once with its family; others are not', () => {
  const why = 'its event loop hung for 60 s while reading session.json';
  const { guard } = after({ by_session: { p: 3, q: 3 } }, {}, { session: 'p', times: 3, why });
  expect(['p', 'p~step_1', 'pq', 'q'].map(guard.mayOpen)).toEqual([false, false, true, true]);
  expect(guard.listSuspended()).toMatchObject([{ session: 'p', why: expect.stringContaining(why) }]);
});
