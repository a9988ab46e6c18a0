import * as fs from 'node:fs';
import type { WriteBytes } from '../fs/durable-write.ts';
import { CorruptLogError, DiskError, FencedError, ifExists, wrapDiskErrors } from '../fs/store-errors.ts';
import type { SessionPaths } from '../layout/layout.ts';
import { decodeEventLines } from './event-codec.ts';
import { crcOfLine, readBytes } from './log-lines.ts';
import type { LogExtent } from './log-reader.ts';
import type { SessionToken } from './log-writers.ts';

const { O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_RDWR } = fs.constants;
const IDENTITY_CHECK_MS = 1000;

/**
 * Whose segments they are, and a check that throws once a later owner has claimed the session. The writer never adds to
 * a segment that another one began, so what an owner writes after it was replaced is void wherever it ends up.
 */
export type OwnSegments = { owner: string; check: () => void };

export type EventLogOptions = {
  /** Wall-clock time; stored, never compared. */
  now: () => Date;
  /** Milliseconds of a monotonic clock. */
  elapsed: () => number;
  /** The writer's epoch. A log that contains a newer one is continued under that number. */
  epoch: number;
  /** Proves that no other worker has this session open. */
  token: SessionToken;
  /** The epoch of the last daemon if it ended in order: all that it wrote was on disk. */
  closedEpoch?: number | undefined;
  /** More than one process may write this log, each in segments of its own. */
  own?: OwnSegments | undefined;
  segmentBytes?: number;
  /** The two disk calls that fail in practice, replaced by tests. */
  disk?: { write: WriteBytes; sync: (fd: number) => Promise<void>; makeRoom?: MakeRoom };
};

/** Frees space, or a name for a file, for a write that failed with this error. True if there was any: try again. */
export type MakeRoom = (error: unknown, bytes: number) => boolean;

/** The end of the event log, as this writer knows it. */
export type LogEnd = Pick<LogExtent, 'mark' | 'segment' | 'crc' | 'epoch'> & { bytes: number };

/** A log in use by its writer. */
export type OpenLog = Required<Omit<EventLogOptions, 'closedEpoch' | 'own'>> & {
  closedEpoch: number | undefined;
  own: OwnSegments | undefined;
  paths: SessionPaths;
  /** Whether the session's folder is still the one that was there when the log was opened. */
  isSameFolder: () => boolean;
  fd: number | undefined;
  end: LogEnd | undefined;
  /** Bytes of segments rotated since the log was opened. Counting them, the number of written bytes only grows. */
  rotatedBytes: number;
  /** Bytes known to be on disk, counted the same way; -1 if not even the empty file is. */
  syncedBytes: number;
  /** The last event known to be on disk. */
  syncedSeq: number;
  /** The end was compared with the files that show how long the log had been. */
  isEndChecked: boolean;
  isNameDurable: boolean;
  identityCheckedAt: number;
  failure: unknown;
  syncInFlight: Promise<void> | undefined;
};

export const writtenBytes = ({ rotatedBytes, end }: OpenLog): number => rotatedBytes + (end?.bytes ?? 0);

export function openFile(log: OpenLog): number {
  const { paths } = log;
  // Otherwise the events of this session would begin the log of another session in a recreated folder.
  if (log.fd === undefined && !log.isSameFolder())
    throw new DiskError('ENOENT', `${paths.folder} was removed or recreated while in use. It is read again.`);
  const flags = O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK;
  const path = currentPath(log);
  log.fd ??= wrapDiskErrors('open', path, () => fs.openSync(path, flags, 0o600));
  return log.fd;
}

/** An owner that was replaced may give `events.jsonl` to its own file once more; our segment's number is only ours. */
function currentPath({ own, end, paths }: OpenLog): string {
  const numbered = paths.segment(end?.segment ?? 1);
  return own && fs.existsSync(numbered) ? numbered : paths.events;
}

/** Throws if another program replaced our file or wrote to it. */
export function assertUntouched(log: OpenLog, file: number, at: LogEnd, isIdentityDue = isIdentityCheckDue(log)): void {
  const events = currentPath(log);
  const ours = fs.fstatSync(file);
  if (ours.size !== at.bytes) handleForeignLines(log, file, at, ours.size);
  if (!isIdentityDue) return;
  const there = ifExists(() => fs.lstatSync(events));
  if (there?.ino !== ours.ino || there.dev !== ours.dev) {
    const what = there ? 'replaced' : 'removed or renamed';
    throw new CorruptLogError(events, `it was ${what} while in use. ${REPLACED_LOG_ADVICE}`);
  }
  log.identityCheckedAt = log.elapsed();
}

const isIdentityCheckDue = ({ elapsed, identityCheckedAt }: OpenLog): boolean =>
  elapsed() - identityCheckedAt >= IDENTITY_CHECK_MS;

/** Handles lines of other writers. An earlier owner's are void and we write after them; a later owner's stop us. */
function handleForeignLines(log: OpenLog, file: number, at: LogEnd, size: number): void {
  const { events } = log.paths;
  const lines = size > at.bytes ? decodeEventLines(readBytes(file, at.bytes, size)) : [];
  const epochs = lines.map((line) => (line.ok ? line.event.epoch : Number.NaN));
  const newest = Math.max(0, ...epochs.filter((epoch) => !Number.isNaN(epoch)));
  const ours = Math.max(log.epoch, at.epoch);
  if (newest > ours) {
    log.failure = new FencedError(events, newest, ours);
    throw log.failure;
  }
  if (lines.length > 0 && epochs.every((epoch) => epoch < ours)) {
    at.bytes = size;
    at.crc = crcOfLine(readBytes(file, Math.max(0, size - 64), size - 1)) ?? '';
    return;
  }
  const what = `another program wrote to it (${size} bytes, expected ${at.bytes})`;
  throw new CorruptLogError(events, `${what}. ${REPLACED_LOG_ADVICE}`);
}

/** The next header states the length of the rotated segment, so a concurrent write cancels the rotation. */
export function assertUnchangedSince(log: OpenLog, file: number, at: LogEnd): void {
  const { bytes } = at;
  assertUntouched(log, file, at, true);
  if (at.bytes !== bytes) throw new Error(`${log.paths.events} grew while it was being closed; retrying.`);
}

const REPLACED_LOG_ADVICE =
  'Nothing more is written to it. Restore the right file (it holds the whole session), then restart the daemon.';
