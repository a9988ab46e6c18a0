import { errorCode, errorText, isFull, UserError } from '../protocol/errors.ts';
import type { TroubleKind } from '../protocol/status.ts';
import { inWords, RecordCorrupt } from '../store/errors.ts';

/**
 * What keeps a session from being served. `quarantined`: its record or the disk under it cannot be trusted. `blocked`: a person has to
 * give access, or move something away. `no room`, `too many files`: the machine is short of something. `failing`: a bug.
 */
export type Trouble = {
  is: TroubleKind;
  why: string;
  /** For the log: a bug keeps its stack. */
  log: string;
  /** It may pass by itself, or be mended without a change of the session's files. */
  passing: boolean;
};

const SCARCE = new Set(['EMFILE', 'ENFILE']);

const isScarce = (error: unknown): boolean => SCARCE.has(errorCode(error) ?? '');

/** What went wrong in a session, in words that a person can act on. */
export function troubleOf(thrown: unknown): Trouble {
  const path = thrown instanceof Error && 'path' in thrown ? String(thrown.path) : 'a file of the session';
  const error = inWords(thrown, 'use', path);
  const why = errorText(error);
  const told = (is: TroubleKind): Trouble => ({
    is,
    why,
    log: why,
    passing: !(error instanceof RecordCorrupt),
  });
  if (error instanceof RecordCorrupt || errorCode(error) === 'EIO') return told('quarantined');
  if (isFull(error)) return told('no room');
  if (isScarce(error)) return told('too many files');
  if (error instanceof UserError) return told('blocked');
  return { is: 'failing', why, log: error instanceof Error ? (error.stack ?? why) : why, passing: true };
}
