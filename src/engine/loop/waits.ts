import type { Decision } from '../../core/runs/decision.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import type { Clock, RunSemaphore } from '../ports/session-ports.ts';

/** What is waited for longer is looked at again this often: a limit may be lifted, or a budget raised. */
export const MAX_TIMER_MS = 3_600_000;

/** Rung by anyone who wants the loop to check for work; one check answers all rings before it. */
export type WakeSignal = {
  /** Costs nothing, is never lost, and runs nothing before it returns. */
  ring(): void;
  /** Resolves at once if rung since the last call. One waiter at a time. */
  next(): Promise<void>;
};

export function createWakeSignal(): WakeSignal {
  let isRung = false;
  let release = () => {};
  return {
    ring() {
      isRung = true;
      release();
    },
    async next() {
      if (!isRung) await new Promise<void>((done) => (release = done));
      isRung = false;
    },
  };
}

/** One timer, set to the earliest of the requested times. */
export type Alarm = {
  /** `canSleep`: the daemon may close the session and keep the time itself. */
  wakeIn(ms: number, canSleep?: boolean): void;
  /** Nothing is due for which the session would have to stay open. */
  readonly canSleep: boolean;
  /** Milliseconds until it fires, if somebody else may keep the time; else null. */
  readonly dueInMs: number | null;
  cancel(): void;
};

export function createAlarm(clock: Clock, ring: () => void): Alarm {
  let set: { at: number; cancel: () => void; canSleep: boolean } | null = null;
  return {
    wakeIn(ms, canSleep = false) {
      const at = clock.elapsed() + ms;
      if (set) set.canSleep &&= canSleep;
      // A retry must not postpone a file that is about to be ready.
      if (set && set.at <= at) return;
      const both = canSleep && (set?.canSleep ?? true);
      set?.cancel();
      const cancel = clock.after(ms, () => {
        set = null;
        ring();
      });
      set = { at, cancel, canSleep: both };
    },
    get canSleep() {
      return set?.canSleep ?? true;
    },
    get dueInMs() {
      return set?.canSleep ? Math.max(0, set.at - clock.elapsed()) : null;
    },
    cancel: () => set?.cancel(),
  };
}

/** The session's slot among the active runs: acquired before its first call, released when it is idle. */
export type RunSlot = {
  acquire(since: number, signal: AbortSignal): Promise<void>;
  release(): void;
  /** It waits for a slot; no call has started. */
  readonly isQueued: boolean;
};

export function createRunSlot(semaphore: RunSemaphore): RunSlot {
  let release: (() => void) | null = null;
  let isQueued = false;
  return {
    async acquire(since, signal) {
      if (release) return;
      isQueued = true;
      try {
        release = await semaphore.acquire(since, signal);
      } finally {
        isQueued = false;
      }
    },
    release() {
      release?.();
      release = null;
    },
    get isQueued() {
      return isQueued;
    },
  };
}

/** Time left until a deadline of a session. */
export type Countdown = { left(until: string | null, later?: readonly string[]): number };

/**
 * Time left until a deadline, in ms, and at most `longest`: a clock that was set back while the daemon was down cannot
 * make it more. The log has the deadline as a time of day, which may jump, so it is compared once, when the pause is
 * first seen, and from then on the monotonic clock counts. `later`: other deadlines whose countdown starts now.
 */
export function trackDeadline(clock: Clock, longest: number): Countdown {
  let dueTimes = new Map<string, number>();
  const dueAt = (until: string): number => {
    const pause = Date.parse(until) - clock.now().getTime();
    return dueTimes.get(until) ?? clock.elapsed() + Math.min(Math.max(0, pause), longest);
  };
  return {
    left(until, later = []) {
      if (until === null) return 0;
      dueTimes = new Map([until, ...later].map((time) => [time, dueAt(time)]));
      return (dueTimes.get(until) ?? 0) - clock.elapsed();
    },
  };
}

/**
 * Every event removes the reason for it, so the same events are never decided twice in a row; after this many times
 * nothing will change. A decision may be made more than once without being carried out.
 */
const MAX_REPEATS = 10;

/**
 * Detects that the same events are decided over and over: a bug that would fill the log until the disk is full.
 * Receives every decision of a session in order; returns whether this one repeats endlessly.
 */
export function createRepeatGuard(): (decision: Decision) => boolean {
  let last: readonly EventBody[] = [];
  let times = 0;
  return (decision) => {
    // What was looked for is decided again, with the answer.
    if (decision.do === 'look') return false;
    const events = decision.do === 'record' ? decision.events : [];
    times = isSameEvents(events, last) ? times + 1 : 1;
    last = events;
    return events.length > 0 && times >= MAX_REPEATS;
  };
}

/** Types first: whole events are compared only if these match, which is rare. */
function isSameEvents(events: readonly EventBody[], others: readonly EventBody[]): boolean {
  const sameTypes = events.length === others.length && events.every(({ type }, at) => type === others[at]?.type);
  return sameTypes && JSON.stringify(events) === JSON.stringify(others);
}
