import { errorCode, errorText, isDiskFull, UserError } from '../../base/user-error.ts';
import type { TroubleKind } from '../../protocol/workspace/daemon-files.ts';
import { CorruptLogError, toDiskError } from '../../store/fs/store-errors.ts';

/**
 * What keeps a session from being served. `quarantined`: its event log or the disk under it cannot be trusted.
 * `blocked`: a person has to grant access, or move something out of the way. `no room`, `too many files`: the machine
 * lacks a resource. `failing`: a bug.
 */
export type SessionTrouble = {
  is: TroubleKind;
  why: string;
  /** For the log: a bug keeps its stack. */
  log: string;
  /** It may pass by itself, or be fixed without a change to the session's files. */
  isTransient: boolean;
};

const FILE_LIMIT_CODES = new Set(['EMFILE', 'ENFILE']);

const isFileLimit = (error: unknown): boolean => FILE_LIMIT_CODES.has(errorCode(error) ?? '');

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
