import { expect, test } from 'vitest';
import { findSpokenTime } from '../../src/schedules/spoken-time.ts';

/** A Saturday in Berlin, 09:00. */
const NOW = new Date('2026-11-28T08:00:00Z');

test.each([
  ['tomorrow at 9 call the dentist', '2026-11-29T08:00:00Z', 'call the dentist'],
  ['call Bob at 5pm on friday', '2026-12-04T16:00:00Z', 'call Bob'],
  ['in 20 minutes to look at the oven', '2026-11-28T08:20:00Z', 'look at the oven'],
  ['2h', '2026-11-28T10:00:00Z', ''],
  ['90m look again', '2026-11-28T09:30:00Z', 'look again'],
  ['until 22:00', '2026-11-28T21:00:00Z', ''],
  ['明天9点给医生打电话', '2026-11-29T08:00:00Z', '给医生打电话'],
  ['morgen um 9 Zahnarzt anrufen', '2026-11-29T08:00:00Z', 'Zahnarzt anrufen'],
])('%s', (text, at, rest) => {
  expect(findSpokenTime(text, NOW, 'Europe/Berlin')).toEqual({ at: new Date(at), rest });
});

test('a time on the other side of a change of the clocks is that of the clock; a length of time is real time', () => {
  const before = new Date('2026-10-24T20:00:00Z');
  expect(findSpokenTime('tomorrow at 9 x', before, 'Europe/Berlin')?.at).toEqual(new Date('2026-10-25T08:00:00Z'));
  expect(findSpokenTime('in 12 hours x', before, 'Europe/Berlin')?.at).toEqual(new Date('2026-10-25T08:00:00Z'));
});

test('words without a time, and a time that has passed, are none', () => {
  expect(findSpokenTime('buy milk', NOW, 'UTC')).toBeUndefined();
  expect(findSpokenTime('yesterday at 9 x', NOW, 'UTC')).toBeUndefined();
});
