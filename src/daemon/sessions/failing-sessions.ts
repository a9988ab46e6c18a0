import type { Clock, SessionPorts } from '../../engine/ports/session-ports.ts';
import type { SessionTrouble, UnservedSession } from '../crashes/session-trouble.ts';

const RETRY_MS = 30_000;
/** A wake tries a session in trouble at once, but not more often than this. */
const MIN_RETRY_MS = 1000;

/** `isBesideCall`: a call of it is in flight and ends as it will; only what comes in meanwhile is not heard. */
type TroubleContext = { logFingerprint: string; isBesideCall: boolean };
type FailingSession = SessionTrouble & TroubleContext & { since: string; triedAt: number; isRetryRequested: boolean };

/** The sessions that are not served, why, and when each is tried again. */
export type FailingSessions = {
  /**
   * Its trouble is now this one; what is new is logged. `logFingerprint`: that of a log that cannot be trusted, and
   * that is not tried again while it stays the same; '' otherwise.
   */
  report(name: string, trouble: SessionTrouble, context: TroubleContext): void;
  /** Whether it may be opened now. One that is not failing may. */
  mayTry(name: string): boolean;
  /** Somebody woke it before it may be tried: as soon as it may. */
  requestRetry(name: string): void;
  /** Names of those whose next try is due and allowed, less those that are open or wait to be opened. */
  takeDue(isInUse: (name: string) => boolean): string[];
  /** It is served again, and the log says so. */
  recover(name: string): void;
  forget(name: string): void;
  has(name: string): boolean;
  /** It was opened after its trouble, and only time tells whether it is healthy. */
  isRecovering(name: string): boolean;
  isBesideCall(name: string): boolean;
  isQuarantined(name: string): boolean;
  /** Why its record cannot be trusted; undefined where that is not its trouble. */
  quarantineReason(name: string): string | undefined;
  /** Forgets those that found no room on the disk, and names them. */
  takeOutOfSpace(): string[];
  list(): UnservedSession[];
};

export function createFailingSessions(
  clock: Clock,
  log: SessionPorts['log'],
  logFingerprint: (name: string) => string,
): FailingSessions {
  const failing = new Map<string, FailingSession>();

  const mayTry = (name: string): boolean => {
    const trouble = failing.get(name);
    if (!trouble) return true;
    if (trouble.is === 'no room') return false;
    const before = trouble.logFingerprint;
    if (trouble.is === 'quarantined' && before !== '' && before === logFingerprint(name)) return false;
    return clock.elapsed() - trouble.triedAt >= MIN_RETRY_MS;
  };

  const isDue = ({ isRetryRequested, is, triedAt }: FailingSession): boolean =>
    isRetryRequested || is === 'too many files' || clock.elapsed() - triedAt >= RETRY_MS;

  return {
    report(name, trouble, context) {
      const known = failing.get(name);
      const isNews = known?.is !== trouble.is || known.why !== trouble.why;
      const since = known?.is === trouble.is ? known.since : clock.now().toISOString();
      const isRetryRequested = known?.isRetryRequested ?? false;
      failing.set(name, { ...trouble, ...context, since, triedAt: clock.elapsed(), isRetryRequested });
      const what = context.isBesideCall ? 'is not heard while a call of it is in flight' : 'is not served';
      if (isNews) log(trouble.is === 'failing' ? 'error' : 'warn', `${name} ${what}: ${trouble.log}`);
    },
    mayTry,
    requestRetry(name) {
      const trouble = failing.get(name);
      if (trouble) trouble.isRetryRequested = true;
    },
    takeDue(isInUse) {
      const due = [...failing].filter(([name, trouble]) => !isInUse(name) && isDue(trouble) && mayTry(name));
      for (const [, trouble] of due) trouble.isRetryRequested = false;
      return due.map(([name]) => name);
    },
    recover(name) {
      failing.delete(name);
      log('info', `${name} is served again`);
    },
    forget: (name) => void failing.delete(name),
    has: (name) => failing.has(name),
    isRecovering: (name) => failing.get(name)?.isBesideCall === false,
    isBesideCall: (name) => failing.get(name)?.isBesideCall === true,
    isQuarantined: (name) => failing.get(name)?.is === 'quarantined',
    quarantineReason(name) {
      const trouble = failing.get(name);
      return trouble?.is === 'quarantined' && trouble.logFingerprint !== '' ? trouble.why : undefined;
    },
    takeOutOfSpace() {
      const names = [...failing].filter(([, { is }]) => is === 'no room').map(([name]) => name);
      for (const name of names) failing.delete(name);
      return names;
    },
    list: () => [...failing].map(([session, { is, why, since }]) => ({ session, is, why, since })),
  };
}
