import { InvalidArgument } from '../../base/user-error.ts';
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

/** Time limits of the daemon that the environment can override, for tests. Throws UserError if one is no time. */
export function timesOf(env: NodeJS.ProcessEnv): { graceMs?: number; patienceMs?: number } {
  const [graceMs, patienceMs] = [msIn(env, 'AGENTD_GRACE_S'), msIn(env, 'AGENTD_WATCHDOG_S')];
  return { ...(graceMs !== undefined && { graceMs }), ...(patienceMs !== undefined && { patienceMs }) };
}

function msIn(env: NodeJS.ProcessEnv, name: string): number | undefined {
  const seconds = env[name];
  if (seconds === undefined) return undefined;
  const ms = Number(seconds) * 1000;
  if (ms > 0 && ms < Number.POSITIVE_INFINITY) return ms;
  throw new InvalidArgument(`${name} takes a number of seconds above 0, got ${JSON.stringify(seconds)}.`);
}
