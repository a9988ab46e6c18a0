import { Cron } from 'croner';
import { attempt, errorText } from '../base/user-error.ts';
import { durationMs, type Timing } from '../protocol/schedules/schedule.ts';

/** The next `most` due times after a time, oldest first; fewer if there are no more. The timing must be valid. */
export function nextDueTimes(timing: Timing, after: Date, most: number): Date[] {
  if (timing.enabled === false) return [];
  const { until } = timing;
  const times =
    once(timing, (at) => at > after) ??
    repeated(timing, after, 'later', most) ??
    patternOf(timing).nextRuns(most, after);
  return until === undefined ? times : times.filter((time) => time <= new Date(until));
}

/** The newest `most` due times after one time and up to another, which is included; oldest first. */
export function latestDueTimes(timing: Timing, after: Date, upTo: Date, most: number): Date[] {
  if (timing.enabled === false) return [];
  const end = timing.until === undefined ? upTo : new Date(Math.min(upTo.getTime(), Date.parse(timing.until)));
  const found =
    once(timing, (at) => at <= end) ??
    repeated(timing, end, 'earlier', most, after)?.reverse() ??
    // The reference itself is not among the earlier times.
    patternOf(timing)
      .previousRuns(most, new Date(end.getTime() + 1))
      .reverse();
  return found.filter((time) => time > after && time <= end);
}

/** What is wrong with a timing: expected, got, and what to do. Undefined if it is or was due at some time. */
export function timingFault(timing: Timing): string | undefined {
  const { cron, at, zone, active } = timing;
  const local = cron !== undefined ? 'cron' : at !== undefined && !hasOffset(at) ? 'at' : active && 'active';
  if (local !== undefined && zone === undefined)
    return `zone: expected a time zone for "${local}", such as "Europe/Berlin"; got none`;
  if (zone !== undefined && !isZone(zone))
    return `zone: expected a time zone such as "Europe/Berlin" or "UTC", got ${JSON.stringify(zone)}`;
  if (at !== undefined && !isDate(at)) return `at: expected a date that exists, got ${JSON.stringify(at)}`;
  if (active !== undefined && nextDueTimes({ ...timing, enabled: true, until: undefined }, new Date(0), 1).length === 0)
    return `active: no time of it lies within ${JSON.stringify(active)}`;
  if (cron === undefined) return undefined;
  try {
    if (patternOf(timing).nextRun(new Date(0)) !== null) return undefined;
    return `cron: ${JSON.stringify(cron)} is never due: no date is like that`;
  } catch (error) {
    const why = errorText(error).replace(/^CronPattern: /, '');
    return `cron: expected minute, hour, day, month and day of the week, such as "0 8 * * 1-5"; got ${JSON.stringify(cron)} (${why})`;
  }
}

/** Whether this system knows a time zone of that name. */
export function isZone(zone: string): boolean {
  return attempt(() => new Intl.DateTimeFormat('en', { timeZone: zone }).resolvedOptions().timeZone !== '') ?? false;
}

const hasOffset = (at: string): boolean => /(?:Z|[+-]\d\d:\d\d)$/.test(at);

/** Whether the day and the time of day exist in the calendar. */
function isDate(at: string): boolean {
  const local = at.replace(/(?:Z|[+-]\d\d:\d\d)$/, '');
  const time = new Date(`${local}Z`);
  return !Number.isNaN(time.getTime()) && time.toISOString().startsWith(local);
}

/** The time of a schedule that is due once, if it is wanted; undefined for a schedule that repeats. */
function once(timing: Timing, isWanted: (time: Date) => boolean): Date[] | undefined {
  const { at } = timing;
  if (at === undefined) return undefined;
  // A time in the gap of a change to summer time is moved out of it.
  const time = hasOffset(at) ? new Date(at) : localTime(at, timing.zone);
  return isWanted(time) ? [time] : [];
}

function localTime(at: string, zone: string | undefined): Date {
  const local = at.length === 16 ? `${at}:00` : at;
  const time = new Cron(local, { ...zoneOf(zone), paused: true }).nextRun(new Date(0));
  return time ?? new Date(`${local}Z`);
}

/** So many steps are looked at for one that lies within the active hours: a week of minutes. */
const MAX_STEPS = 10_080;

/**
 * Times of a schedule that repeats after a fixed interval, from a time on in one direction; undefined for any other.
 */
function repeated(
  timing: Timing,
  from: Date,
  direction: 'earlier' | 'later',
  most: number,
  after?: Date,
): Date[] | undefined {
  const interval = timing.every ?? timing.heartbeat;
  if (interval === undefined) return undefined;
  const step = durationMs(interval);
  const start = timing.start === undefined ? 0 : Date.parse(timing.start);
  const isActive = activeHours(timing);
  const found: Date[] = [];
  const passed = Math.floor((from.getTime() - start) / step);
  let place = direction === 'later' ? Math.max(0, passed + 1) : passed;
  for (let looked = 0; found.length < most && looked < MAX_STEPS; looked += 1) {
    const time = new Date(start + place * step);
    if (place < 0 || (after && time <= after)) break;
    if (isActive(time)) {
      found.push(time);
      looked = 0;
    }
    place += direction === 'later' ? 1 : -1;
  }
  return found;
}

function activeHours({ active, zone }: Timing): (time: Date) => boolean {
  if (active === undefined) return () => true;
  const [from = '', to = ''] = active.split('-');
  const clock = new Intl.DateTimeFormat('en-GB', { timeStyle: 'short', ...(zone && { timeZone: zone }) });
  return (time) => {
    const at = clock.format(time);
    return from < to ? from <= at && at < to : from <= at || at < to;
  };
}

/** The day of a time in a zone, as `2026-11-28`. */
export const dayIn = (time: Date, zone: string | undefined): string =>
  new Intl.DateTimeFormat('sv-SE', { dateStyle: 'short', timeZone: zone ?? 'UTC' }).format(time);

const patternOf = ({ cron = '', zone }: Timing): Cron =>
  new Cron(cron, { ...zoneOf(zone), paused: true, ...(cron.startsWith('@') ? {} : { mode: '5-part' }) });

const zoneOf = (zone: string | undefined) => (zone === undefined ? {} : { timezone: zone });
