import type { Clock } from '../../engine/ports/session-ports.ts';

/** The times at which closed sessions have to be woken: one map and one timer, set to the soonest. */
export type WakeTimes = {
  /** In `ms` from now; replaces the session's previous time. */
  set(name: string, ms: number): void;
  cancel(name: string): void;
  close(): void;
};

/** Creates an empty map of wake times; `wake` is called for each session when its time has come. */
export function createWakeTimes(clock: Clock, wake: (name: string) => void): WakeTimes {
  const times = new Map<string, number>();
  let timer: { at: number; cancel: () => void } | null = null;

  function wakeDue(): void {
    timer = null;
    const now = clock.elapsed();
    const due = [...times].filter(([, at]) => at <= now).map(([name]) => name);
    for (const name of due) times.delete(name);
    setTimer();
    for (const name of due) wake(name);
  }

  function setTimer(): void {
    const soonest = Math.min(...times.values());
    if (timer && timer.at <= soonest) return;
    timer?.cancel();
    timer = Number.isFinite(soonest)
      ? { at: soonest, cancel: clock.after(Math.max(0, soonest - clock.elapsed()), wakeDue) }
      : null;
  }

  return {
    set(name, ms) {
      times.set(name, clock.elapsed() + ms);
      setTimer();
    },
    cancel: (name) => void times.delete(name),
    close() {
      times.clear();
      timer?.cancel();
      timer = null;
    },
  };
}
