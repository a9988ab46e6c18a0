import type { Clock } from '../../engine/ports/session-ports.ts';

/** The real clock. Its timers do not keep the process alive: the daemon's watches do. */
export const realClock: Clock = {
  now: () => new Date(),
  elapsed: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, Math.min(ms, 2 ** 31 - 1));
    timer.unref();
    return () => clearTimeout(timer);
  },
};

/** How long calls in flight may take when the daemon is asked to stop, in ms. */
export const GRACE_MS = 10_000;

/**
 * Time limits of the daemon that the environment can override, for tests; values that are not a number of seconds are
 * ignored.
 */
export function timesOf(env: NodeJS.ProcessEnv): { graceMs?: number; patienceMs?: number } {
  const [graceMs, patienceMs] = [msIn(env['AGENTD_GRACE_S']), msIn(env['AGENTD_WATCHDOG_S'])];
  return { ...(graceMs !== undefined && { graceMs }), ...(patienceMs !== undefined && { patienceMs }) };
}

function msIn(seconds: string | undefined): number | undefined {
  const ms = Number(seconds) * 1000;
  return ms > 0 && ms < Number.POSITIVE_INFINITY ? ms : undefined;
}
