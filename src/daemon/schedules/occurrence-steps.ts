import { errorText, UserError } from '../../base/user-error.ts';
import type { SessionPorts } from '../../engine/ports/session-ports.ts';
import type { Occurrence, Schedule } from '../../protocol/schedules/schedule.ts';
import type { MessageFile } from '../../protocol/session/message.ts';
import type { ReplyStatus } from '../../protocol/session/reply.ts';
import {
  asksForWork,
  type DueTime,
  decideOverlap,
  type SessionActivity,
  waitingToBeSent,
} from '../../schedules/due-times.ts';
import { DiskError } from '../../store/fs/store-errors.ts';
import { writeOccurrence } from '../../store/schedules/schedule-files.ts';

/** A message with the id that makes it one message, however often it is sent. */
export type ScheduledMessage = MessageFile & { id: string };

/** The sessions as schedules use them: as any frontend does. */
export type ScheduledSessions = {
  /** What it is doing. A session that does not exist is free. */
  activity(session: string): Promise<SessionActivity>;
  /** Drops the message durably and creates the session if there is none. The same id again changes nothing. */
  send(session: string, message: ScheduledMessage): Promise<void>;
  /** The text of `work/HEARTBEAT.md`; undefined if there is none. */
  heartbeat(session: string): Promise<string | undefined>;
  /**
   * What became of a message; `lost`: it never came, or its session is gone. `status` is undefined if its reply is
   * gone.
   */
  reply(
    session: string,
    id: string,
  ): Promise<'pending' | { name: string; status: ReplyStatus | undefined; text: string } | { lost: string }>;
};

/** After this long the next late one starts, even if the one before has no reply, in ms. */
const LATE_START_MS = 300_000;

/** What becomes of a due time, as its file says first: it is skipped, or waits to be sent with these very words. */
export function newOccurrence(name: string, schedule: Schedule | undefined, time: DueTime, now: Date): Occurrence {
  const head = { version: 1, schedule: name, due: time.due.toISOString(), at: now.toISOString() } as const;
  if (time.is === 'skipped' || !schedule) {
    const { why = 'the schedule was removed', missedSince } = time.is === 'skipped' ? time : {};
    return { ...head, state: 'skipped', why, ...(missedSince && { missed_since: missedSince.toISOString() }) };
  }
  return { ...head, ...waitingToBeSent(name, schedule, time.due), ...(time.is === 'caught up' && { caught_up: true }) };
}

type StepOptions = { folder: string; sessions: ScheduledSessions; log: SessionPorts['log'] };

/** What a step of an occurrence is decided by. `schedule`: undefined if it was removed. */
export type StepContext = { schedule: Schedule | undefined; others: readonly Occurrence[]; now: Date };

/**
 * Takes an occurrence as far as it goes now, and returns what it has become; each change is on disk first. Sending
 * comes before the file that says so: after a crash in between, the message is sent again, and its id makes it the same
 * one.
 */
export async function advanceOccurrence(
  occurrence: Occurrence,
  context: StepContext,
  options: StepOptions,
): Promise<Occurrence> {
  const next = await stepOf(occurrence, context, options);
  if (next === undefined) return occurrence;
  const written = { ...next, at: context.now.toISOString() };
  await writeOccurrence(options.folder, written, false);
  return written;
}

async function stepOf(
  occurrence: Occurrence,
  context: StepContext,
  { sessions }: StepOptions,
): Promise<Occurrence | undefined> {
  const { session, message, state } = occurrence;
  const id = message?.id;
  if (session === undefined || message === undefined || id === undefined)
    return { ...occurrence, state: 'failed', why: 'the file does not say what was to be sent' };
  try {
    return state === 'sent'
      ? await followReply(occurrence, session, id, sessions)
      : await sendWhenFree(occurrence, { session, message: { ...message, id } }, context, sessions);
  } catch (error) {
    // A full disk passes; what a person has to mend is said where they look.
    if (!(error instanceof UserError) || error instanceof DiskError) throw error;
    return { ...occurrence, state: 'failed', why: errorText(error) };
  }
}

async function followReply(
  occurrence: Occurrence,
  session: string,
  id: string,
  sessions: ScheduledSessions,
): Promise<Occurrence | undefined> {
  const found = await sessions.reply(session, id);
  if (found === 'pending') return undefined;
  if ('lost' in found) return { ...occurrence, state: 'failed', why: found.lost };
  const { name, status, text } = found;
  const ended = { ...occurrence, reply: name, ...(status && { outcome: status }) };
  if (status === 'rejected') return { ...ended, state: 'failed', why: text.slice(0, 500) };
  return { ...ended, state: 'ran', ...(status ? {} : { why: 'its reply was removed before it could be read' }) };
}

async function sendWhenFree(
  occurrence: Occurrence,
  { session, message }: { session: string; message: ScheduledMessage },
  { schedule, others, now }: StepContext,
  sessions: ScheduledSessions,
): Promise<Occurrence | undefined> {
  const { why: before, ...rest } = occurrence;
  const isByPerson = occurrence.by === 'person';
  // It was sent before a crash, and its own run would otherwise seem to be in its way.
  if (await wasSent(session, message.id, sessions)) return { ...rest, state: 'sent' };
  if (!schedule) return { ...rest, state: 'skipped', why: 'the schedule was removed' };
  if (schedule.enabled === false && !isByPerson) return { ...rest, state: 'skipped', why: 'the schedule was paused' };
  if (schedule.heartbeat !== undefined && !isByPerson && !asksForWork((await sessions.heartbeat(session)) ?? ''))
    return { ...rest, state: 'skipped', why: 'work/HEARTBEAT.md holds nothing to do' };
  const waitFor = (why: string) => (why === before ? undefined : { ...occurrence, why });
  if (occurrence.caught_up && others.some((other) => isLateStart(other, now)))
    return waitFor('what was missed starts one after another');
  const decided = decideOverlap(
    { session, overlap: schedule.overlap },
    occurrence.schedule,
    await sessions.activity(session),
  );
  if (decided.do === 'skip') return { ...rest, state: 'skipped', why: decided.why };
  if (decided.do === 'wait') return waitFor(decided.why);
  if (decided.do === 'replace') {
    if (occurrence.replaces) return waitFor(decided.why);
    await sessions.send(session, { id: `${message.id}.cancel`, command: 'cancel' });
    return { ...occurrence, replaces: true, why: decided.why };
  }
  await sessions.send(session, message);
  return { ...rest, state: 'sent' };
}

async function wasSent(session: string, id: string, sessions: ScheduledSessions): Promise<boolean> {
  const found = await sessions.reply(session, id);
  return found === 'pending' || !('lost' in found);
}

/** Whether it was sent late a moment ago and still works. */
const isLateStart = ({ state, caught_up, at }: Occurrence, now: Date): boolean =>
  state === 'sent' && caught_up === true && Math.abs(now.getTime() - Date.parse(at)) < LATE_START_MS;
