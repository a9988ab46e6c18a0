import type { Clock, OwnerCheck } from '../../engine/ports/session-ports.ts';
import type { PreviousEnd } from './ownership.ts';

/** The right to work on one session. It is lost once `check` throws: nothing may be done or written any more. */
export type SessionLease = OwnerCheck & {
  /** The epoch for its event log, whose last line has epoch `seen` (0: it is empty). Never lower than `seen`. */
  epochFor(seen: number): Promise<number>;
  /** Who had that right before, and how that owner ended; undefined if nobody did. */
  readonly previous: { epoch: number; ended: PreviousEnd } | undefined;
  /** If several processes write to the session's log: who this one is. Its segments are then its own. */
  readonly segmentsOf?: string;
};

/**
 * Runs a session in this process under that lease; one that already runs here is woken. Resolves when the session is
 * closed, whether or not it could be served. Never rejects.
 */
export type RunSession = (name: string, lease: SessionLease) => Promise<SessionRunEnd>;

/** `retryInMs`: the session could not be served, and should be run again then; null if it was. */
export type SessionRunEnd = { retryInMs: number | null };

/**
 * Decides who works on a session, and when. No session runs twice at once, in whatever processes; a wake of one that
 * runs leads to another run afterwards. What a run does is the session pool's affair.
 */
export type SessionHost = {
  /** From now on `run` is called for sessions that this process is to work on. Called once. */
  serve(run: RunSession): void;
  /** The session may have something to do: it will be run. */
  wake(name: string): void;
  /** The same in `ms`, which replaces the session's earlier time; null: only that time is cancelled. */
  due(name: string, ms: number | null): void;
  /** Hands out nothing more. What runs is not affected. */
  stop(): void;
};

/** The host of a workspace with one daemon: whoever owns the workspace runs every session of it, here and at once. */
export function openLocalHost(owner: SessionLease, clock: Clock): SessionHost {
  let run: RunSession = async () => ({ retryInMs: null });
  let isStopped = false;
  const wake = (name: string): void => {
    if (!isStopped) void run(name, owner);
  };
  const times = createWakeTimes(clock, wake);
  return {
    serve(given) {
      run = given;
    },
    wake,
    due: (name, ms) => (ms === null ? times.cancel(name) : times.set(name, ms)),
    stop() {
      isStopped = true;
      times.close();
    },
  };
}

/** The times at which closed sessions have to be woken: one map and one timer, set to the soonest. */
type WakeTimes = {
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
