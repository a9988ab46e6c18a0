import { sha256 } from '../base/sha256.ts';
import { formatUtcTime } from '../base/strings.ts';
import {
  durationMs,
  MISSED_WITHIN,
  type Occurrence,
  occurrenceMessageId,
  occurrenceName,
  type Schedule,
  scheduleOfMessage,
  type Timing,
  type TimingNote,
  timingOf,
} from '../protocol/schedules/schedule.ts';
import type { MessageFile } from '../protocol/session/message.ts';
import { dayIn, latestDueTimes, nextDueTimes } from './next-time.ts';

/** A due time is missed if it is this late, in ms: a daemon that runs looks more often. */
export const ON_TIME_MS = 90_000;
/** Of the due times that were missed in one go, so many have a file of their own. */
export const MAX_ACCOUNTED = 50;
/** So many run late if all that were missed are to run. */
const MAX_CAUGHT_UP = 20;

/** What becomes of a due time. `missedSince`: it stands for the earlier ones from this one on, too. */
export type DueTime =
  | { due: Date; is: 'due' | 'caught up' }
  | { due: Date; is: 'skipped'; why: string; missedSince?: Date };

/** What is known of a schedule: since when its timing holds, and the due times that have a file. */
export type Accounted = { since: Date; handled: ReadonlySet<number> };

/**
 * The due times up to now that are not accounted for, oldest first, and what becomes of each. A due time that has a
 * file is never due again, whatever the clock does; files of a time that lies ahead (the clock was wrong) hide nothing
 * else.
 */
export function dueTimes(name: string, schedule: Schedule, { since, handled }: Accounted, now: Date): DueTime[] {
  const from = markOf({ since, handled }, now);
  const newest = latestDueTimes(timingOf(schedule), from, now, MAX_ACCOUNTED + 1);
  const isMore = newest.length > MAX_ACCOUNTED;
  const passed = (isMore ? newest.slice(1) : newest).filter((due) => !handled.has(due.getTime()));
  const delayed = passed.findIndex((due) => startOf(name, schedule, due) > now);
  const open = delayed < 0 ? passed : passed.slice(0, delayed);
  const all = open.map((due) => judge(schedule, due, { all: open, start: startOf(name, schedule, due), now }));
  const [first, ...others] = all;
  if (!isMore || !first || first.is !== 'skipped') return all;
  const earliest = nextDueTimes(timingOf(schedule), from, 1)[0];
  return [{ ...first, ...(earliest && { missedSince: earliest }) }, ...others];
}

/** The next `most` due times, without those that have a file. Reading them changes nothing. */
export function upcomingTimes(schedule: Schedule, handled: ReadonlySet<number>, now: Date, most: number): Date[] {
  const ahead = [...handled].filter((time) => time > now.getTime()).length;
  return nextDueTimes(timingOf(schedule), now, most + ahead)
    .filter((due) => !handled.has(due.getTime()))
    .slice(0, most);
}

/**
 * The time after which due times count. A note or a file from the future, when the clock was wrong, does not hide them.
 */
function markOf({ since, handled }: Accounted, now: Date): Date {
  let mark = Math.min(since.getTime(), now.getTime());
  for (const time of handled) if (time <= now.getTime() && time > mark) mark = time;
  return new Date(mark);
}

/** When a due time is sent: later by its jitter, which is the same whenever it is computed. */
function startOf(name: string, { jitter }: Schedule, due: Date): Date {
  if (jitter === undefined) return due;
  const share = Number.parseInt(sha256(`${name} ${due.toISOString()}`).slice(0, 8), 16) / 2 ** 32;
  return new Date(due.getTime() + Math.floor(share * durationMs(jitter)));
}

/** When something is to be sent next, of what has no file; undefined if never. */
export function nextStart(name: string, schedule: Schedule, accounted: Accounted, now: Date): Date | undefined {
  const passed = latestDueTimes(timingOf(schedule), markOf(accounted, now), now, MAX_ACCOUNTED);
  const due =
    passed.find((time) => !accounted.handled.has(time.getTime())) ??
    upcomingTimes(schedule, accounted.handled, now, 1)[0];
  return due && startOf(name, schedule, due);
}

function judge(
  schedule: Schedule,
  due: Date,
  { all, start, now }: { all: readonly Date[]; start: Date; now: Date },
): DueTime {
  const late = now.getTime() - start.getTime();
  const place = all.length - 1 - all.indexOf(due);
  if (late <= ON_TIME_MS) return { due, is: 'due' };
  const { missed = 'last', missed_within: within = MISSED_WITHIN } = schedule;
  if (missed === 'skip') return { due, is: 'skipped', why: 'missed: nothing could run then, and "missed" is "skip"' };
  if (late > durationMs(within))
    return { due, is: 'skipped', why: `missed: nothing could run then, nor within ${within} ("missed_within")` };
  if (missed === 'last' && place > 0)
    return { due, is: 'skipped', why: `missed: nothing could run then; a later one is caught up with instead` };
  if (place >= MAX_CAUGHT_UP)
    return { due, is: 'skipped', why: `missed: at most ${MAX_CAUGHT_UP} due times are caught up with` };
  return { due, is: 'caught up' };
}

/**
 * Since when a timing holds, and the due times of the earlier one that an edit has overtaken. `changed`: when the file
 * was last changed on this machine. Without a note, which may be lost, that is when it began.
 */
export function sinceOf(
  timing: Timing,
  note: TimingNote | undefined,
  changed: Date,
): { since: Date; overtaken: { timing: Timing; from: Date; upTo: Date } | undefined } {
  if (!note) return { since: changed, overtaken: undefined };
  const from = new Date(note.since);
  if (isSameTiming(note.timing, timing)) return { since: from, overtaken: undefined };
  return { since: changed, overtaken: { timing: note.timing, from, upTo: changed } };
}

/** The last due time of an earlier timing that had not been accounted for when a person changed it. */
export function overtakenTime(
  { timing, from, upTo }: { timing: Timing; from: Date; upTo: Date },
  handled: ReadonlySet<number>,
): DueTime | undefined {
  const [due] = latestDueTimes(timing, markOf({ since: from, handled }, upTo), upTo, 1);
  if (!due || handled.has(due.getTime())) return undefined;
  return {
    due,
    is: 'skipped',
    why: `its times were changed (${formatUtcTime(upTo.toISOString())}) before it could run`,
  };
}

const isSameTiming = (one: Timing, other: Timing): boolean => {
  const key = ({ enabled = true, ...rest }: Timing) => JSON.stringify(Object.entries({ ...rest, enabled }).sort());
  return key(one) === key(other);
};

/** What a session is doing, and the message whose run that is. */
export type SessionActivity = { is: 'free' | 'running' | 'waiting' | 'paused'; message?: string | undefined };

/** What is done about an occurrence whose session does this. */
export type OverlapDecision = { do: 'send' } | { do: 'wait' | 'skip' | 'replace'; why: string };

/**
 * Decides by `overlap`; nobody is ever asked. A run that somebody else started is never cancelled: it is waited for.
 */
export function decideOverlap(
  { session, overlap = 'skip' }: { session: string; overlap?: Schedule['overlap'] },
  name: string,
  activity: SessionActivity,
): OverlapDecision {
  const { is, message } = activity;
  if (is === 'free' || overlap === 'send') return { do: 'send' };
  const what = { running: 'is busy', waiting: 'waits for an answer', paused: 'is paused' }[is];
  const why = `the session ${session} ${what}${message === undefined ? '' : ` (${message})`}`;
  if (overlap === 'skip') return { do: 'skip', why };
  const isOwn = message !== undefined && scheduleOfMessage(message) === name;
  return { do: overlap === 'replace' && isOwn ? 'replace' : 'wait', why };
}

/** The part of an occurrence that says what is to be sent, and to whom: as the schedule is now. */
export function waitingToBeSent(
  name: string,
  schedule: Schedule,
  due: Date,
  by?: 'person',
): Pick<Occurrence, 'state' | 'session' | 'message'> {
  const id = occurrenceMessageId(name, occurrenceName(due, by));
  const session = schedule.session.replaceAll('{date}', dayIn(due, schedule.zone));
  const { from, rights } = schedule;
  const sender = { ...(from !== undefined && { from }), ...(rights && { rights }) };
  return { state: 'waiting', session, message: { id, ...contentOf(schedule), ...sender, options: { when: 'apart' } } };
}

function contentOf({ text, template, params = {} }: Schedule): Pick<MessageFile, 'text' | 'command'> {
  if (template === undefined) return { text: text ?? HEARTBEAT_TEXT };
  const values = Object.entries(params).map(([key, value]) => ` ${key}="${value.replace(/[\\"]/g, '\\$&')}"`);
  return { command: 'run', text: template + values.join('') };
}

const HEARTBEAT_TEXT =
  'Read HEARTBEAT.md and do what it asks for now. If nothing is to be done, answer with one short line. Do not repeat what earlier answers said.';

/** Whether a HEARTBEAT.md asks for anything: more than headings, comments and empty items. */
export function asksForWork(text: string): boolean {
  const lines = text.replace(/<!--[\s\S]*?(?:-->|$)/g, '').split('\n');
  return lines.some((line) => line.replace(/^\s*#.*|^\s*(?:[-*+]|\d+\.)\s*(?:\[[ xX]?\])?/, '').trim() !== '');
}
