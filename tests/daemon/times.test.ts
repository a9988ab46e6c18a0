import { expect, test } from 'vitest';
import { GRACE_MS, timesOf } from '../../src/daemon/host/clock.ts';

test('calls in flight have ten seconds when the daemon is asked to stop; the environment may say another time', () => {
  expect(GRACE_MS).toBe(10_000);
  expect(timesOf({})).toEqual({});
  expect(timesOf({ AGENTD_GRACE_S: '3', AGENTD_WATCHDOG_S: '0.5' })).toEqual({ graceMs: 3000, patienceMs: 500 });
});

test.each(['', '0', '-1', 'ten', 'Infinity'])('%j is no time', (seconds) => {
  expect(() => timesOf({ AGENTD_GRACE_S: seconds })).toThrow(
    `AGENTD_GRACE_S takes a number of seconds above 0, got "${seconds}"`,
  );
  expect(() => timesOf({ AGENTD_WATCHDOG_S: seconds })).toThrow('AGENTD_WATCHDOG_S');
});
