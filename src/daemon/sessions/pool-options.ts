import type { Clock, SessionPorts } from '../../engine/ports/session-ports.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import type { CrashLoopGuard } from '../crashes/crash-loop-guard.ts';

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
