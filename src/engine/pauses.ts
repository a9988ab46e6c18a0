import type { Clock } from './ports.ts';

/**
 * How long is left to a time, in ms, and at most `longest`: a clock that was set back while we were down cannot make it more. The
 * record says until when, as a time of day; the time of day may jump, so it is compared once, when the pause is first met, and
 * from then on the steady clock counts.
 */
export function pausesOf(clock: Clock, longest: number): { left(until: string | null): number } {
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
