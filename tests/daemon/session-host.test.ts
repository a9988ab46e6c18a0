import { expect, test } from 'vitest';
import { openCrashLoopGuard } from '../../src/daemon/crashes/crash-loop-guard.ts';
import { realClock } from '../../src/daemon/host/clock.ts';
import type { RunSession, SessionHost, SessionLease } from '../../src/daemon/host/session-host.ts';
import type { OpenPooledSession } from '../../src/daemon/sessions/pool-state.ts';
import { openSessionPool } from '../../src/daemon/sessions/session-pool.ts';

const LEASE: SessionLease = { check: () => {}, epochFor: async (seen) => seen + 1, previous: undefined };

/** A pool whose host hands out nothing by itself, and what the pool asked of that host. */
function poolWith(open: OpenPooledSession, mayOpen = (_name: string): boolean => true) {
  const asked: string[] = [];
  let run: RunSession = async () => ({ retryInMs: null });
  const host: SessionHost = {
    serve: (given) => {
      run = given;
    },
    wake: (name) => void asked.push(name),
    due: () => {},
    stop: () => void asked.push('stop'),
  };
  const crashLoop = openCrashLoopGuard({
    assessed: { crashes: { unexplained: 0, by_session: {} }, blamed: null },
    ...{ write: async () => {}, lastWritten: () => 0, clock: realClock, log: () => {} },
  });
  const pool = openSessionPool(open, {
    ...{ host, clock: realClock, maxOpen: 2, crashLoop: { ...crashLoop, mayOpen } },
    ...{ log: () => {}, logFingerprint: () => '', onDiskFull: () => {}, onQuarantine: () => {} },
    ...{ runGuarded: (_name, _what, work) => work(), runInSession: (_name, work) => work() },
  });
  return { pool, asked, run: (name: string) => run(name, LEASE) };
}

test('a wake of a session that is not open here goes to the host, and opens nothing by itself', async () => {
  const opened: string[] = [];
  const { pool, asked } = poolWith(async (name) => {
    opened.push(name);
    return null;
  });
  pool.wake('demo');
  await pool.stop(0);
  expect({ asked, opened }).toEqual({ asked: ['demo', 'stop'], opened: [] });
});

test('a run opens the session under the lease it was given, and lasts until the session is closed', async () => {
  const leases: SessionLease[] = [];
  let finish = (): void => {};
  const { pool, run } = poolWith(async (_name, lease) => {
    leases.push(lease);
    await new Promise<void>((done) => (finish = done));
    return null;
  });
  let hasEnded = false;
  const ended = run('demo').then(() => (hasEnded = true));
  // A second run of an open session joins the first one.
  const joined = run('demo');
  await new Promise(setImmediate);
  expect({ hasEnded, leases }).toEqual({ hasEnded: false, leases: [LEASE] });
  finish();
  await Promise.all([ended, joined]);
  await pool.stop(0);
});

test('a run of a session that cannot be opened ends as well, and so does one that still waits at a stop', async () => {
  const failing = poolWith(async () => {
    throw new Error('no such disk');
  });
  await failing.run('demo');
  // It is in trouble now and not opened again at once.
  await failing.run('demo');
  expect(failing.pool.listUnserved().map(({ session }) => session)).toEqual(['demo']);
  await failing.pool.stop(0);
  const held = poolWith(
    async () => null,
    () => false,
  );
  const waiting = held.run('demo');
  expect([...held.pool.waitingNames()]).toEqual(['demo']);
  await held.pool.stop(0);
  await waiting;
});
