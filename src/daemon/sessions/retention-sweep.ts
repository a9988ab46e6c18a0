import { errorText } from '../../base/user-error.ts';
import type { SessionPorts } from '../../engine/ports/session-ports.ts';

const HOUR_MS = 60 * 60 * 1000;
const DAY_MS = 24 * HOUR_MS;

/**
 * Removes expired data, session by session, each at most once a day and only while it is closed; checks once an hour
 * which are due. `sweep` resolves to whether more is left, which the next hour removes. Call the returned function to
 * stop.
 */
export function scheduleRetention(
  names: () => string[],
  isAsleep: (name: string) => boolean,
  sweep: (name: string) => Promise<boolean>,
  log: SessionPorts['log'],
): () => void {
  const done = new Map<string, number>();
  let isStopped = false;
  let isAtIt = false;

  async function round(): Promise<void> {
    if (isAtIt) return;
    isAtIt = true;
    for (const name of names()) {
      if (isStopped) break;
      if (!isAsleep(name) || performance.now() - (done.get(name) ?? Number.NEGATIVE_INFINITY) < DAY_MS) continue;
      try {
        if (!(await sweep(name))) done.set(name, performance.now());
      } catch (error) {
        done.set(name, performance.now());
        log('warn', `${name}: expired data could not be removed: ${errorText(error)}`);
      }
      // Yields between two sessions.
      await new Promise((turn) => setImmediate(turn));
    }
    isAtIt = false;
  }

  const timer = setInterval(() => void round(), HOUR_MS);
  timer.unref();
  return () => {
    isStopped = true;
    clearInterval(timer);
  };
}
