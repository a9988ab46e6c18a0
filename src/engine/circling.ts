import type { Decision } from '../core/decide.ts';
import type { EventBody } from '../protocol/event.ts';

/** Every event takes away the reason for it, so that the same ones are never decided twice in a row; so often, nothing will change. A decision may be looked at more than once. */
const MOST_SAME = 10;

/**
 * Notices where the same events are decided again and again: an error of the code, which would fill the record until the disk is
 * full. Told every decision of a session in order; answers whether this one goes round in a circle.
 */
export function circling(): (decision: Decision) => boolean {
  let last: readonly EventBody[] = [];
  let times = 0;
  return (decision) => {
    const events = decision.do === 'record' ? decision.events : [];
    times = isSame(events, last) ? times + 1 : 1;
    last = events;
    return events.length > 0 && times >= MOST_SAME;
  };
}

/** Types first: whole events are only compared where these are the same, which is rare. */
function isSame(events: readonly EventBody[], others: readonly EventBody[]): boolean {
  const sameTypes = events.length === others.length && events.every(({ type }, at) => type === others[at]?.type);
  return sameTypes && JSON.stringify(events) === JSON.stringify(others);
}
