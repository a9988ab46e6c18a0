import * as chrono from 'chrono-node';
import { durationMs, isDuration } from '../protocol/schedules/schedule.ts';
import { dayIn } from './next-time.ts';

/** A time that somebody wrote in words, and the words around it. */
export type SpokenTime = { at: Date; rest: string };

const LANGUAGES = [chrono.casual, chrono.zh.hans, chrono.zh.hant, chrono.de, chrono.fr, chrono.es, chrono.ja];
/** Words that belong to the time, or to nothing. */
const JOINTS = /^\s*(?:to\b|that\b|at\b|on\b|until\b|till\b|about\b|[,，:：、-])\s*|\s*(?:\bat|\bon|\bto|[,，])\s*$/gi;

/**
 * The first time in a text, as a clock in `zone` shows it, seen from `now`: `tomorrow at 9`, `in 20 minutes`, `2h`,
 * `until 22:00`. Undefined if there is none, or if it has passed.
 */
export function findSpokenTime(text: string, now: Date, zone: string): SpokenTime | undefined {
  const [first = '', ...others] = text.trim().split(/\s+/);
  if (isDuration(first)) return { at: new Date(now.getTime() + durationMs(first)), rest: others.join(' ') };
  const reference = { instant: now, timezone: offsetMinutes(now, zone) };
  const found = LANGUAGES.map((language) => language.parse(text, reference, { forwardDate: true })[0])
    .filter((one) => one !== undefined)
    .sort((one, other) => other.text.length - one.text.length)[0];
  if (!found) return undefined;
  const said = found.date();
  const at = COUNTS_FROM_NOW.test(found.text) ? said : onClockOf(said, reference.timezone, zone);
  if (at <= now) return undefined;
  const around = `${text.slice(0, found.index)} ${text.slice(found.index + found.text.length)}`;
  return { at, rest: around.trim().replace(JOINTS, '').trim() };
}

/** Words such as "in 20 minutes" or 两小时后 count real time; all others name what a clock shows. */
const COUNTS_FROM_NOW = /^(?:in|after|within|en|dans|nach)\b|(?:later|from now)$|后$|後$/i;

/**
 * On the other side of a change of the clocks a clock shows something else: the parser knows only the offset of now.
 */
const onClockOf = (time: Date, offset: number, zone: string): Date =>
  new Date(time.getTime() + (offset - offsetMinutes(time, zone)) * 60_000);

function offsetMinutes(time: Date, zone: string): number {
  const clock = new Intl.DateTimeFormat('sv-SE', { timeZone: zone, timeStyle: 'medium' }).format(time);
  const local = Date.parse(`${dayIn(time, zone)}T${clock}Z`);
  return Math.round((local - Math.floor(time.getTime() / 1000) * 1000) / 60_000);
}
