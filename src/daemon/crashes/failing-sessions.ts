import { errorCode, errorText, isDiskFull, isFileLimit, UserError } from '../../base/user-error.ts';
import type { Clock, SessionPorts } from '../../engine/ports/session-ports.ts';
import type { TroubleKind } from '../../protocol/workspace/daemon-files.ts';
import { CorruptLogError, toDiskError } from '../../store/fs/store-errors.ts';

const RETRY_MS = 30_000;
/** A wake retries a session in trouble at once, but not more often than this. */
const MIN_RETRY_MS = 1000;

/** `isBesideCall`: a call of it is in flight and continues; only new input is not read. */
type TroubleContext = { logFingerprint: string; isBesideCall: boolean };
type FailingSession = SessionTrouble & TroubleContext & { since: string; triedAt: number; isRetryRequested: boolean };

/** The sessions that are not served, why, and when each is retried. */
export type FailingSessions = {
  /**
   * Sets the session's trouble and logs it if it is new. `logFingerprint`: that of an untrusted event log, which is not
   * retried while it stays the same; '' otherwise.
   */
  report(name: string, trouble: SessionTrouble, context: TroubleContext): void;
  /** Whether it may be opened now. A session that is not failing may. */
  mayTry(name: string): boolean;
  /** When it should be retried, in ms from now; null if it is not failing. */
  retryInMs(name: string): number | null;
  /** It was woken before it may be retried: retry as soon as allowed. */
  requestRetry(name: string): void;
  /** Names of the sessions whose retry is due and allowed, except those that are open or waiting to be opened. */
  takeDue(isInUse: (name: string) => boolean): string[];
  /** Removes it from the failing sessions and logs that it works again. */
  recover(name: string): void;
  forget(name: string): void;
  has(name: string): boolean;
  /** It was opened after its trouble; whether it is healthy is not known yet. */
  isRecovering(name: string): boolean;
  isBesideCall(name: string): boolean;
  isQuarantined(name: string): boolean;
  /** Why its event log cannot be trusted; undefined if it is not quarantined. */
  quarantineReason(name: string): string | undefined;
  /** Removes the sessions that found no disk space, and returns their names. */
  takeOutOfSpace(): string[];
  list(): UnservedSession[];
};

/** Creates an empty set of failing sessions. */
export function createFailingSessions(
  clock: Clock,
  log: SessionPorts['log'],
  logFingerprint: (name: string) => string,
): FailingSessions {
  const failing = new Map<string, FailingSession>();

  const mayTry = (name: string): boolean => {
    const trouble = failing.get(name);
    if (!trouble) return true;
    if (trouble.is === 'disk full') return false;
    const before = trouble.logFingerprint;
    if (trouble.is === 'quarantined' && before !== '' && before === logFingerprint(name)) return false;
    return clock.elapsed() - trouble.triedAt >= MIN_RETRY_MS;
  };

  const isDue = ({ isRetryRequested, is, triedAt }: FailingSession): boolean =>
    isRetryRequested || is === 'too many files' || clock.elapsed() - triedAt >= RETRY_MS;

  return {
    report(name, trouble, context) {
      const known = failing.get(name);
      const isNew = known?.is !== trouble.is || known.why !== trouble.why;
      const since = known?.is === trouble.is ? known.since : clock.now().toISOString();
      const isRetryRequested = known?.isRetryRequested ?? false;
      failing.set(name, { ...trouble, ...context, since, triedAt: clock.elapsed(), isRetryRequested });
      const what = context.isBesideCall ? 'reads nothing new while its call is in flight' : 'cannot be served';
      if (isNew) log(trouble.is === 'failing' ? 'error' : 'warn', `${name} ${what}: ${trouble.log}`, { session: name });
    },
    mayTry,
    retryInMs(name) {
      const trouble = failing.get(name);
      if (!trouble || trouble.isBesideCall) return null;
      return trouble.isRetryRequested || trouble.is === 'too many files' ? MIN_RETRY_MS : RETRY_MS;
    },
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
      log('info', `${name} can be served again`, { session: name });
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
      const names = [...failing].filter(([, { is }]) => is === 'disk full').map(([name]) => name);
      for (const name of names) failing.delete(name);
      return names;
    },
    list: () => [...failing].map(([session, { is, why, since }]) => ({ session, is, why, since })),
  };
}

/**
 * What keeps a session from being served. `quarantined`: its event log or the disk under it cannot be trusted.
 * `blocked`: a person has to grant access, or move something out of the way. `no room`, `too many files`: the machine
 * lacks a resource. `failing`: a bug.
 */
type SessionTrouble = {
  is: TroubleKind;
  why: string;
  /** For the log: a bug keeps its stack. */
  log: string;
  /** It may pass by itself, or be fixed without a change to the session's files. */
  isTransient: boolean;
};

/** Describes what went wrong in a session, in words that a person can act on. */
export function classifyTrouble(thrown: unknown): SessionTrouble {
  const path = thrown instanceof Error && 'path' in thrown ? String(thrown.path) : 'a file of the session';
  const error = toDiskError(thrown, 'use', path);
  const why = errorText(error);
  const troubleOf = (is: TroubleKind): SessionTrouble => ({
    is,
    why,
    log: why,
    isTransient: !(error instanceof CorruptLogError),
  });
  if (error instanceof CorruptLogError || errorCode(error) === 'EIO') return troubleOf('quarantined');
  if (isDiskFull(error)) return troubleOf('disk full');
  if (isFileLimit(error)) return troubleOf('too many files');
  if (error instanceof UserError) return troubleOf('blocked');
  return { is: 'failing', why, log: error instanceof Error ? (error.stack ?? why) : why, isTransient: true };
}

/** A session that is not served. `since`: ISO 8601. */
export type UnservedSession = { session: string; is: TroubleKind; why: string; since: string };
