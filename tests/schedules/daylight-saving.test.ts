import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { latestDueTimes, nextDueTimes } from '../../src/schedules/next-time.ts';

const MINUTE = 60_000;
const DAY = 1440 * MINUTE;
const YEAR = [Date.parse('2026-01-01T00:00:00Z'), Date.parse('2027-01-01T00:00:00Z')] as const;
/** Berlin and New York change by an hour, Lord Howe by half of one, Cairo at midnight, Troll by two. */
const ZONES = ['Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Africa/Cairo', 'Antarctica/Troll'];
const FIXED = ['30 2 * * *', '15 0 * * *', '45 1 * * *', '0 8 * * *'];
const REPEATED = ['*/30 * * * *', '0 * * * *', '0 1-3 * * *', '10,40 0-2 * * *'];

/** The wall clock of a zone, as `2026-03-29 02:30`. */
function wallClock(zone: string): (time: number) => string {
  const format = new Intl.DateTimeFormat('sv-SE', { timeZone: zone, dateStyle: 'short', timeStyle: 'short' });
  return (time) => format.format(time);
}

/** The days of the year at whose end the clock differs by more than a day from their beginning. */
function changesOf(zone: string): number[] {
  const clock = wallClock(zone);
  const offset = (time: number) => Date.parse(`${clock(time).replace(' ', 'T')}Z`) - time;
  const days = Array.from({ length: 364 }, (_, place) => YEAR[0] + place * DAY);
  return days.filter((day) => offset(day) !== offset(day + DAY));
}

function fields(pattern: string): { minutes: Set<number>; hours: Set<number> } {
  const parse = (field: string, most: number) =>
    field.split(',').flatMap((part) => {
      const [range = '', step = '1'] = part.split('/');
      const [from = 0, to = Number.NaN] = range === '*' ? [0, most] : range.split('-').map(Number);
      const end = Number.isNaN(to) ? from : to;
      return Array.from(
        { length: Math.floor((end - from) / Number(step)) + 1 },
        (_, place) => from + place * Number(step),
      );
    });
  const [minute = '', hour = ''] = pattern.split(' ');
  return { minutes: new Set(parse(minute, 59)), hours: new Set(parse(hour, 23)) };
}

/**
 * By looking at each minute. A repeated time is due at each real minute that has it. A fixed time of day is due once a day: the
 * first time the clock shows it, or as soon as the clock has jumped over it.
 */
function bruteForce(pattern: string, zone: string, from: number, to: number): Date[] {
  const clock = wallClock(zone);
  const { minutes, hours } = fields(pattern);
  const isFixed = FIXED.includes(pattern);
  const found: Date[] = [];
  const days = new Set<string>();
  for (let time = from; time < to; time += MINUTE) {
    const [day = '', at = ''] = clock(time).split(' ');
    const [hour = 0, minute = 0] = at.split(':').map(Number);
    const [, before = ''] = clock(time - MINUTE).split(' ');
    const wanted = `${String([...hours][0]).padStart(2, '0')}:${String([...minutes][0]).padStart(2, '0')}`;
    const isShown = hours.has(hour) && minutes.has(minute);
    const isJumped = isFixed && (before > at ? wanted <= at : before < wanted && wanted < at);
    if (!isShown && !isJumped) continue;
    if (isFixed && days.has(day)) continue;
    days.add(day);
    found.push(new Date(time));
  }
  return found;
}

test.each(ZONES)('in %s every time around each change is the one that is found by looking at each minute', (zone) => {
  const changes = changesOf(zone);
  expect(changes.length).toBe(2);
  for (const change of changes) {
    const [from, to] = [change - 2 * DAY, change + 3 * DAY];
    for (const cron of [...FIXED, ...REPEATED]) {
      // Of the first day only a part is looked at.
      const wanted = bruteForce(cron, zone, from, to).filter((time) => time.getTime() > from + DAY);
      const next = nextDueTimes({ cron, zone }, new Date(from + DAY), wanted.length);
      expect(next, `${cron} from ${new Date(change).toISOString()}`).toEqual(wanted);
      const latest = latestDueTimes({ cron, zone }, new Date(from + DAY), new Date(to - 1), 1000);
      expect(latest, `${cron} up to ${new Date(to).toISOString()}`).toEqual(wanted);
    }
  }
});

const SYSTEMD = (() => {
  try {
    execFileSync('systemd-analyze', ['calendar', 'daily'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
})();

test.skipIf(!SYSTEMD)('away from the days of a change, systemd has the same times all year', () => {
  for (const zone of ZONES) {
    const calendar = ['calendar', '--iterations=364', '--base-time=2026-01-01 00:00:00 UTC', `*-*-* 02:30:00 ${zone}`];
    const told = execFileSync('systemd-analyze', calendar, { env: { ...process.env, TZ: 'UTC' }, encoding: 'utf8' });
    const theirs = Array.from(told.matchAll(/(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC$/gm), ([, day, clock]) =>
      Date.parse(`${day}T${clock}Z`),
    );
    const near = changesOf(zone);
    const isFar = (time: number) =>
      near.every((change) => Math.abs(time - change) > 2 * DAY) && time < YEAR[1] - 3 * DAY;
    const ours = nextDueTimes({ cron: '30 2 * * *', zone }, new Date(YEAR[0]), 364).map((time) => time.getTime());
    expect(theirs.length).toBeGreaterThan(360);
    expect(ours.filter(isFar)).toEqual([...new Set(theirs)].filter(isFar));
  }
});
