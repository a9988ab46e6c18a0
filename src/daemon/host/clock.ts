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
