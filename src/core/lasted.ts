import type { Event, EventOf } from '../protocol/event.ts';
import type { Run, Session } from './session.ts';

/**
 * Adds to a run what an event says of how long something lasted. The times of day in the record are not compared: the clock of
 * a machine may be set by an hour in the middle of a run.
 */
export function timed(session: Session, event: Event): Session {
  const ms = lasted(event);
  return session.run && ms > 0 ? { ...session, run: { ...session.run, ms: session.run.ms + ms } } : session;
}

function lasted(event: Event): number {
  if (event.type === 'model.answered' || event.type === 'tool.finished') return event.ms;
  return event.type === 'model.failed' ? (event.ms ?? 0) + pause(event) : 0;
}

/** How long an endpoint has been silent at this failure, since the first of those in a row. */
export function silence(before: Run['failure'], event: EventOf<'model.failed'>): number {
  return before ? before.silent_ms + pause(before.last) + (event.ms ?? 0) : 0;
}

function pause({ at, retry_at }: EventOf<'model.failed'>): number {
  return retry_at === null ? 0 : Math.max(0, Date.parse(retry_at) - Date.parse(at));
}
