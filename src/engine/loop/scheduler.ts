import type { Decision } from '../../core/runs/decision.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import type { Clock, RunSemaphore } from '../ports/session-ports.ts';

/** Rung by whoever wants the loop to look; however often it is rung, one look answers all that came before it. */
export type WakeSignal = {
  /** Costs nothing, is never lost, and runs nothing before it returns. */
  ring(): void;
  /** Resolves at once where it was rung since the last call. One waiter at a time. */
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

/** One timer, set to the earliest of the times that were asked for. */
export type Alarm = {
  /** `canSleep`: whoever closes the session may keep the time in its place. */
  wakeIn(ms: number, canSleep?: boolean): void;
  /** Nothing is due for which the session would have to stay open. */
  readonly canSleep: boolean;
  /** Milliseconds until it rings, where somebody else may keep the time. */
  readonly dueInMs: number | null;
  cancel(): void;
};

export function createAlarm(clock: Clock, ring: () => void): Alarm {
  let set: { at: number; cancel: () => void; canSleep: boolean } | null = null;
  return {
    wakeIn(ms, canSleep = false) {
      const at = clock.elapsed() + ms;
      if (set) set.canSleep &&= canSleep;
      // A retry must not put off a file that is about to be ready.
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

/** The session's place among the runs that may be at work: taken before its first call, given back when it is idle. */
export type RunSlot = {
  acquire(since: number, signal: AbortSignal): Promise<void>;
  release(): void;
  /** It waits for a place; no call has begun. */
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
