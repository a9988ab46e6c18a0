import type { Decision } from '../../core/runs/decision.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import type { Clock } from '../ports/session-ports.ts';

/**
 * How long is left to a time, in ms, and at most `longest`: a clock that was set back while we were down cannot make it
 * more. The record says until when, as a time of day; the time of day may jump, so it is compared once, when the pause
 * is first met, and from then on the steady clock counts.
 */
export function trackDeadline(clock: Clock, longest: number): { left(until: string | null): number } {
  let met: { until: string; due: number } | null = null;
  return {
    left(until) {
      if (until === null) return 0;
      if (met?.until !== until) {
        const pause = Date.parse(until) - clock.now().getTime();
        met = { until, due: clock.elapsed() + Math.min(Math.max(0, pause), longest) };
      }
      return met.due - clock.elapsed();
    },
  };
}

/**
 * Every event takes away the reason for it, so that the same ones are never decided twice in a row; so often, nothing
 * will change. A decision may be looked at more than once.
 */
const MAX_REPEATS = 10;

/**
 * Notices where the same events are decided again and again: an error of the code, which would fill the record until
 * the disk is full. Told every decision of a session in order; answers whether this one goes round in a circle.
 */
export function createRepeatGuard(): (decision: Decision) => boolean {
  let last: readonly EventBody[] = [];
  let times = 0;
  return (decision) => {
    const events = decision.do === 'record' ? decision.events : [];
    times = isSameEvents(events, last) ? times + 1 : 1;
    last = events;
    return events.length > 0 && times >= MAX_REPEATS;
  };
}

/** Types first: whole events are only compared where these are the same, which is rare. */
function isSameEvents(events: readonly EventBody[], others: readonly EventBody[]): boolean {
  const sameTypes = events.length === others.length && events.every(({ type }, at) => type === others[at]?.type);
  return sameTypes && JSON.stringify(events) === JSON.stringify(others);
}
