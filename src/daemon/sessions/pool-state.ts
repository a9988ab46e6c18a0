import type { PreviousFailure } from '../../engine/loop/recovery.ts';
import type { SessionWorker } from '../../engine/loop/worker.ts';
import type { Clock, SessionPorts } from '../../engine/ports/session-ports.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import type { CrashLoopGuard } from '../crashes/crash-loop-guard.ts';
import type { FailingSessions } from '../crashes/failing-sessions.ts';
import type { OpeningPause } from '../host/run-limits.ts';

/** What the session pool knows of its sessions. */
export type Pool = {
  readonly open: OpenPooledSession;
  readonly options: SessionPoolOptions;
  /** In order of last use, the oldest first. */
  readonly live: Map<string, PoolEntry>;
  readonly waiting: Set<string>;
  readonly failing: FailingSessions;
  /** How the last worker of a session failed, until the next one has been informed. */
  readonly previousFailures: Map<string, PreviousFailure>;
  readonly wakeTimes: WakeTimes;
  isStopping: boolean;
  opening: number;
  closing: number;
  readonly openingPause: OpeningPause;
  fullTimer: NodeJS.Timeout | null;
};

/** Opens a session's folder; null if it is gone. */
export type OpenPooledSession = (name: string) => Promise<OpenedSession | null>;

/** One session that is open, or is being opened or closed. */
export type PoolEntry = {
  worker: SessionWorker | null;
  opening: Promise<SessionWorker | null>;
  lastUsed: number;
  since: number;
  isClosing: boolean;
};

/** What the daemon needs to run one session. */
export type OpenedSession = { ports: SessionPorts; rules: () => Promise<Rules> };

/** What the daemon passes to the session pool. */
export type SessionPoolOptions = {
  log: SessionPorts['log'];
  clock: Clock;
  /** Sessions open at once. */
  maxOpen: number;
  /** Changes when somebody changed a session's event log: a reason to retry a quarantined one. */
  logFingerprint: (name: string) => string;
  /** A write found no disk space. */
  onDiskFull: (error: unknown) => void;
  /** This session does not answer until a person intervenes. */
  onQuarantine: (name: string) => void;
  /** Decides which sessions may be opened after daemons were lost. */
  crashLoop: CrashLoopGuard;
  /** Runs synchronous work, attributed to that session for the watchdog. */
  runGuarded: <T>(session: string, what: string, run: () => T) => T;
  /** Runs work of that session: an uncaught error in anything it starts is reported with the session's name. */
  runInSession: <T>(session: string, run: () => T) => T;
};

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
