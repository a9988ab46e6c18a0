import { expect, test } from 'vitest';
import { classifyTrouble, createFailingSessions } from '../../src/daemon/crashes/failing-sessions.ts';
import { CorruptLogError, DiskError } from '../../src/store/fs/store-errors.ts';

/** Failing sessions with a clock that stands still unless told, and an event log that changes when told. */
function failing() {
  const world = { ms: 0, log: 'a' };
  const clock = { now: () => new Date(world.ms), elapsed: () => world.ms, after: () => () => {} };
  const sessions = createFailingSessions(
    clock,
    () => {},
    () => world.log,
  );
  const due = () => sessions.takeDue(() => false);
  return { world, sessions, due };
}

test('a log that cannot be trusted is not read again until it changes, however long that takes and whoever wakes it', () => {
  const { world, sessions, due } = failing();
  sessions.report('demo', classifyTrouble(new CorruptLogError('events.jsonl', 'x')), {
    logFingerprint: world.log,
    isBesideCall: false,
  });
  world.ms = 3_600_000;
  sessions.requestRetry('demo');
  expect([sessions.mayTry('demo'), due(), sessions.isQuarantined('demo')]).toEqual([false, [], true]);
  world.log = 'b';
  expect([sessions.mayTry('demo'), due()]).toEqual([true, ['demo']]);
});

test('a session that found no disk space is not tried while the disk is full, and is handed out once it has space', () => {
  const { world, sessions, due } = failing();
  sessions.report('demo', classifyTrouble(new DiskError('ENOSPC', 'full')), {
    logFingerprint: '',
    isBesideCall: false,
  });
  world.ms = 3_600_000;
  sessions.requestRetry('demo');
  expect([sessions.mayTry('demo'), due()]).toEqual([false, []]);
  expect(sessions.takeOutOfSpace()).toEqual(['demo']);
  expect([sessions.mayTry('demo'), sessions.list()]).toEqual([true, []]);
});
