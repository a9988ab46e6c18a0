import type { PreviousFailure } from '../../engine/loop/recovery.ts';
import type { SessionWorker } from '../../engine/loop/worker.ts';
import type { Clock, SessionPorts } from '../../engine/ports/session-ports.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import type { CrashLoopGuard } from '../crashes/crash-loop-guard.ts';
import { createFailingSessions, type FailingSessions } from '../crashes/failing-sessions.ts';
import { createOpeningPause, type OpeningPause } from '../host/run-limits.ts';
import type { SessionHost, SessionLease, SessionRunEnd } from '../host/session-host.ts';

/** What the session pool knows of its sessions. */
export type Pool = {
  readonly open: OpenPooledSession;
  readonly options: SessionPoolOptions;
  /** In order of last use, the oldest first. */
  readonly live: Map<string, PoolEntry>;
  /** Handed to this process, and not opened yet. In order of arrival. */
  readonly waiting: Map<string, SessionLease>;
  /** Reports the end of a session's run to the host. */
  readonly runEnds: Map<string, ((end: SessionRunEnd) => void)[]>;
  readonly failing: FailingSessions;
  /** How the last worker of a session failed, until the next one has been informed. */
  readonly previousFailures: Map<string, PreviousFailure>;
  isStopping: boolean;
  opening: number;
  closing: number;
  readonly openingPause: OpeningPause;
  fullTimer: NodeJS.Timeout | null;
};

/** Opens a session's folder; null if it is gone. */
export type OpenPooledSession = (name: string, lease: SessionLease) => Promise<OpenedSession | null>;

/** One session that is open, or is being opened or closed. */
export type PoolEntry = {
  lease: SessionLease;
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
  /** Hands sessions to the pool. */
  host: SessionHost;
  /** Sessions open at once. */
  maxOpen: number;
  /** Other processes work on the same sessions: an idle one is closed at once, and the host retries those that fail. */
  isShared?: boolean;
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

/** The state of a pool in which no session is open yet. */
export function createPool(open: OpenPooledSession, options: SessionPoolOptions): Pool {
  const { clock, log, logFingerprint } = options;
  return {
    ...{ open, options },
    live: new Map(),
    waiting: new Map(),
    runEnds: new Map(),
    failing: createFailingSessions(clock, log, logFingerprint),
    previousFailures: new Map(),
    isStopping: false,
    opening: 0,
    closing: 0,
    openingPause: createOpeningPause(clock),
    fullTimer: null,
  };
}

/** Wakes a session that is open here; false if it is not. */
export function wakeOpen({ live, options }: Pool, name: string): boolean {
  const entry = live.get(name);
  if (!entry) return false;
  entry.lastUsed = options.clock.elapsed();
  live.delete(name);
  live.set(name, entry);
  // It may be woken from within another session.
  options.runInSession(name, () => entry.worker?.wake());
  return true;
}

/** Reports the end of a run to the host, unless the session is open or about to be. */
export function endRun({ live, waiting, runEnds, failing }: Pool, name: string): void {
  if (live.has(name) || waiting.has(name)) return;
  const ends = runEnds.get(name) ?? [];
  runEnds.delete(name);
  for (const end of ends) end({ retryInMs: failing.retryInMs(name) });
}

/** Why this process may not work on the session any more; undefined if it may. */
export function whyLost({ lease }: PoolEntry): unknown {
  try {
    lease.check();
    return undefined;
  } catch (error) {
    return error;
  }
}
