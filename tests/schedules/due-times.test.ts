import { expect, test } from 'vitest';
import type { Schedule } from '../../src/protocol/schedules/schedule.ts';
import {
  asksForWork,
  decideOverlap,
  dueTimes,
  MAX_ACCOUNTED,
  nextStart,
  sinceOf,
  upcomingTimes,
  waitingToBeSent,
} from '../../src/schedules/due-times.ts';
import { latestDueTimes, nextDueTimes, timingFault } from '../../src/schedules/next-time.ts';

const morning: Schedule = { version: 1, cron: '0 8 * * 1-5', zone: 'Europe/Berlin', session: 'news', text: 'news' };
const at = (time: string) => new Date(time);
const handled = (...times: string[]) => new Set(times.map((time) => Date.parse(time)));
const known = (since: string, ...times: string[]) => ({ since: at(since), handled: handled(...times) });

test('a due time is due at its time and never again once it has a file', () => {
  const monday = '2026-11-30T07:00:00Z';
  expect(dueTimes('news', morning, known('2026-11-28T00:00:00Z'), at('2026-11-30T06:59:59Z'))).toEqual([]);
  expect(dueTimes('news', morning, known('2026-11-28T00:00:00Z'), at(monday))).toEqual([
    { due: at(monday), is: 'due' },
  ]);
  expect(dueTimes('news', morning, known('2026-11-28T00:00:00Z', monday), at(monday))).toEqual([]);
});

test('of the times missed in an outage the last one is caught up with, and the others say why not', () => {
  const found = dueTimes('news', morning, known('2026-11-24T20:00:00Z'), at('2026-11-27T10:00:00Z'));
  expect(found.map(({ due, is }) => [due.toISOString(), is])).toEqual([
    ['2026-11-25T07:00:00.000Z', 'skipped'],
    ['2026-11-26T07:00:00.000Z', 'skipped'],
    ['2026-11-27T07:00:00.000Z', 'caught up'],
  ]);
});

test('outside of the window nothing is caught up with; "skip" catches up with nothing, "all" with each', () => {
  const since = known('2026-11-25T20:00:00Z');
  const now = at('2026-11-27T20:00:00Z');
  const is = (schedule: Schedule) => dueTimes('news', schedule, since, now).map((time) => time.is);
  expect(is(morning)).toEqual(['skipped', 'skipped']);
  expect(is({ ...morning, missed_within: '13h' })).toEqual(['skipped', 'caught up']);
  expect(is({ ...morning, missed_within: '2d', missed: 'skip' })).toEqual(['skipped', 'skipped']);
  expect(is({ ...morning, missed_within: '2d', missed: 'all' })).toEqual(['caught up', 'caught up']);
});

test('a long outage of a frequent schedule is accounted for by a limited number of files, the oldest for all before it', () => {
  const often: Schedule = { ...morning, cron: '* * * * *' };
  const found = dueTimes('news', often, known('2026-10-01T00:00:00Z'), at('2026-11-27T10:00:10Z'));
  expect(found).toHaveLength(MAX_ACCOUNTED);
  expect(found[0]).toMatchObject({ is: 'skipped', missedSince: at('2026-10-01T00:01:00Z') });
  expect(found.at(-1)).toEqual({ due: at('2026-11-27T10:00:00Z'), is: 'due' });
});

test('a clock that jumps a day ahead and back runs nothing twice and goes on with what is not accounted for', () => {
  const hourly: Schedule = { ...morning, cron: '0 * * * *' };
  const files = ['2026-11-27T10:00:00Z', '2026-11-28T10:00:00Z'];
  expect(dueTimes('news', hourly, known('2026-11-27T00:00:00Z', ...files), at('2026-11-27T10:30:00Z'))).toEqual([]);
  expect(dueTimes('news', hourly, known('2026-11-27T00:00:00Z', ...files), at('2026-11-27T11:00:00Z'))).toEqual([
    { due: at('2026-11-27T11:00:00Z'), is: 'due' },
  ]);
  expect(upcomingTimes(hourly, handled(...files), at('2026-11-28T09:30:00Z'), 1)).toEqual([at('2026-11-28T11:00:00Z')]);
});

test('a timing counts from its note on, also when the text is edited; a changed timing counts from the edit on', () => {
  const note = { version: 1, timing: { cron: '0 8 * * *', zone: 'UTC' }, since: '2026-11-01T00:00:00.000Z' } as const;
  const edited = at('2026-11-27T10:00:00Z');
  expect(sinceOf({ zone: 'UTC', cron: '0 8 * * *' }, note, edited).since).toEqual(at(note.since));
  expect(sinceOf({ cron: '0 9 * * *', zone: 'UTC' }, note, edited)).toMatchObject({ since: edited, overtaken: {} });
  expect(sinceOf({ cron: '0 9 * * *', zone: 'UTC' }, undefined, edited)).toEqual({
    since: edited,
    overtaken: undefined,
  });
});

test('a session that is occupied is left alone, waited for, or freed of the run of this very schedule', () => {
  const busy = { is: 'running', message: 'schedule.daily.20261127T070000Z' } as const;
  const decide = (overlap: Schedule['overlap'], name = 'daily', activity: Parameters<typeof decideOverlap>[2] = busy) =>
    decideOverlap({ session: 'news', overlap }, name, activity).do;
  expect(decide(undefined, 'daily', { is: 'free' })).toBe('send');
  expect([decide(undefined), decide('queue'), decide('replace')]).toEqual(['skip', 'wait', 'replace']);
  expect(decide('replace', 'weekly')).toBe('wait');
  expect(decide('replace', 'daily', { is: 'paused', message: 'a person' })).toBe('wait');
});

test('what can never be due, and a zone that does not exist, is said with what was expected', () => {
  expect(timingFault({ cron: '0 8 * * *', zone: 'Europe/Berln' })).toContain('got "Europe/Berln"');
  expect(timingFault({ cron: '0 8 * * *' })).toContain('zone: expected a time zone');
  expect(timingFault({ cron: '0 0 30 2 *', zone: 'UTC' })).toContain('is never due');
  expect(timingFault({ cron: '61 8 * * *', zone: 'UTC' })).toContain('got "61 8 * * *"');
  expect(timingFault({ at: '2026-02-30T08:00', zone: 'UTC' })).toContain('a date that exists');
  expect(timingFault({ at: '2026-12-01T08:00' })).toContain('zone');
  expect(timingFault({ at: '2026-12-01T08:00Z' })).toBeUndefined();
});

test('"every" counts from its start and not from a restart, and only at active hours; both directions agree', () => {
  const timing = { every: '90m', start: '2026-11-27T01:00:00Z', active: '08:00-12:00', zone: 'Europe/Berlin' };
  const times = ['08:00', '09:30', '11:00'].flatMap((clock) => [
    at(`2026-11-27T${clock}:00+01:00`),
    at(`2026-11-28T${clock}:00+01:00`),
  ]);
  const sorted = times.sort((a, b) => a.getTime() - b.getTime());
  expect(nextDueTimes(timing, at('2026-11-27T00:00:00Z'), 6)).toEqual(sorted);
  expect(nextDueTimes(timing, at('2026-11-20T00:00:00Z'), 6)).toEqual(sorted);
  expect(latestDueTimes(timing, at('2026-11-27T08:00:00Z'), at('2026-11-28T23:00:00Z'), 9)).toEqual(sorted.slice(1));
  expect(latestDueTimes(timing, at('2026-11-01T08:00:00Z'), at('2026-11-28T23:00:00Z'), 2)).toEqual(sorted.slice(-2));
  expect(
    nextDueTimes({ heartbeat: '1d', active: '22:00-06:00', zone: 'UTC' }, at('2026-11-27T00:00:00Z'), 1),
  ).toHaveLength(1);
  expect(timingFault({ every: '1d', active: '08:00-12:00', zone: 'UTC' })).toContain('active: no time of it');
});

test('jitter delays a due time by the same amount each time it is asked, and is no lateness', () => {
  const schedule: Schedule = { ...morning, jitter: '30m' };
  const due = at('2026-11-30T07:00:00Z');
  const accounted = known('2026-11-28T00:00:00Z');
  const start = nextStart('news', schedule, accounted, at('2026-11-29T00:00:00Z')) ?? due;
  expect(start.getTime() - due.getTime()).toBeGreaterThan(0);
  expect(start.getTime() - due.getTime()).toBeLessThan(1_800_000);
  expect(nextStart('news', schedule, accounted, new Date(start.getTime() - 1))).toEqual(start);
  expect(dueTimes('news', schedule, accounted, new Date(start.getTime() - 1))).toEqual([]);
  expect(dueTimes('news', schedule, accounted, start)).toEqual([{ due, is: 'due' }]);
});

test('a template is run with its parameters quoted, and {date} is the day in the zone of the schedule', () => {
  const { text: _, ...rest } = morning;
  const schedule = { ...rest, session: 'n-{date}', template: 'report', params: { city: 'New "York"', weeks: '1' } };
  expect(waitingToBeSent('x', schedule, at('2026-11-30T23:30:00Z'))).toEqual({
    state: 'waiting',
    session: 'n-2026-12-01',
    message: {
      id: 'schedule.x.20261130T233000Z',
      command: 'run',
      text: 'report city="New \\"York\\"" weeks="1"',
      options: { when: 'apart' },
    },
  });
});

test('a HEARTBEAT.md of headings, comments and empty items asks for nothing', () => {
  expect(asksForWork('# Heartbeat\n\n<!-- write tasks\nbelow -->\n- [ ]\n*\n  1. \n')).toBe(false);
  for (const text of ['look at the mail', '# x\n- [ ] mail', '- mail']) expect(asksForWork(text)).toBe(true);
});
