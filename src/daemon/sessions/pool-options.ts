import type { Clock, SessionPorts } from '../../engine/ports/session-ports.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import type { CrashLoopGuard } from '../crashes/crash-loop-guard.ts';

/** What the daemon needs to run one session. */
export type OpenedSession = { ports: SessionPorts; rules: () => Promise<Rules> };

/** What the pool of sessions is given by the daemon. */
export type SessionPoolOptions = {
  log: SessionPorts['log'];
  clock: Clock;
  /** Sessions open at once. */
  maxOpen: number;
  /** Changes when somebody changed a session's log: reason to try a quarantined one again. */
  logFingerprint: (name: string) => string;
  /** A write found no room. */
  onDiskFull: (error: unknown) => void;
  /** This one answers nobody until a person comes. */
  onQuarantine: (name: string) => void;
  /** Who may be opened, after daemons were lost. */
  crashLoop: CrashLoopGuard;
  /** Runs what does not give way, as a step of that session. */
  runGuarded: <T>(session: string, what: string, run: () => T) => T;
  /** Runs work of that session: an error that nobody catches in what it starts is told with its name. */
  runInSession: <T>(session: string, run: () => T) => T;
};
