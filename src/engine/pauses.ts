import type { Decision } from '../core/decide.ts';
import type { Clock } from './ports.ts';

/** No pause is longer than the longest an endpoint may wish for; a clock that was set back while we were down cannot make one. */
const LONGEST_MS = 3_600_000;

/**
 * How long a retry still has to wait, in ms. The record says until when, as a time of day; the time of day may jump, so it is
 * compared once, when the pause is first met, and from then on the steady clock counts.
 */
export function pausesOf(clock: Clock): { left(decision: Decision): number } {
  let met: { until: string; due: number } | null = null;
  return {
    left(decision) {
      const until = decision.do === 'think' ? decision.notBefore : null;
      if (until === null) return 0;
      if (met?.until !== until) {
        const pause = Date.parse(until) - clock.now().getTime();
        met = { until, due: clock.elapsed() + Math.min(Math.max(0, pause), LONGEST_MS) };
      }
      return met.due - clock.elapsed();
    },
  };
}
