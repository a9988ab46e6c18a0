import * as fs from 'node:fs';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { createMutex } from '../../base/async.ts';
import type { EventLog } from '../../engine/ports/store-ports.ts';
import type { Event, EventBody } from '../../protocol/session/event.ts';
import { LOG_START } from '../../protocol/session/log-entry.ts';
import { coalesceSyncs, syncFolder, type WriteBytes, writeAll } from '../fs/durable-write.ts';
import { watchFolderIdentity } from '../fs/open-folder.ts';
import { CorruptLogError, DiskError, FencedError, ifExists, toDiskError, wrapDiskErrors } from '../fs/store-errors.ts';
import type { SessionPaths } from '../layout/layout.ts';
import { decodeEventLines, stampEvents } from './event-codec.ts';
import { crcOfLine, readBytes } from './log-lines.ts';
import type { LogExtent } from './log-reader.ts';
import { readEventLog } from './log-reader.ts';
import type { SessionToken } from './log-writers.ts';
import { assertEndIsThere, NOTHING_PENDING } from './lost-end.ts';
import { rotateSegment } from './rotate.ts';
import { listCuts, saveTornTail } from './torn-tail.ts';

const { O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_RDWR } = fs.constants;
const IDENTITY_CHECK_MS = 1000;
/** A segment is rotated once it is this large. */
const MAX_SEGMENT_BYTES = 8 * 1024 * 1024;

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
  segmentBytes?: number;
  /** The two disk calls that fail in practice, replaced by tests. */
  disk?: { write: WriteBytes; sync: (fd: number) => Promise<void> };
};

/** Coalesced, because a daemon that opens hundreds of sessions at once syncs their common folder for each of them. */
const syncSessionsFolder = coalesceSyncs(syncFolder);

const realDisk = {
  write: (fd: number, bytes: Uint8Array, offset: number) => fs.writeSync(fd, bytes, offset),
  sync: promisify(fs.fdatasync),
};

/** The end of the event log, as this writer knows it. */
type LogEnd = Pick<LogExtent, 'mark' | 'segment' | 'crc' | 'epoch'> & { bytes: number };

/** A log in use by its writer. */
type OpenLog = Required<Omit<EventLogOptions, 'closedEpoch'>> & {
  closedEpoch: number | undefined;
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

/**
 * The session's event log, for its only writer. A failed append leaves no byte behind. After a failed sync, every
 * append and sync throws until the log is reopened and read again, because the kernel may drop what it could not write
 * and report the next sync as a success (fsyncgate). The same holds once lines of a later owner were found.
 */
export function openEventLog(paths: SessionPaths, options: EventLogOptions): EventLog & { close(): Promise<void> } {
  const log: OpenLog = {
    ...{ segmentBytes: MAX_SEGMENT_BYTES, disk: realDisk, closedEpoch: undefined, ...options, paths },
    ...{ isSameFolder: watchFolderIdentity(paths.folder), isNameDurable: false, isEndChecked: false },
    ...{ fd: undefined, end: undefined, failure: undefined, syncInFlight: undefined },
    ...{ rotatedBytes: 0, syncedBytes: -1, syncedSeq: 0, identityCheckedAt: Number.NEGATIVE_INFINITY },
  };
  const inOrder = createMutex();
  return {
    read: (...how) => inOrder(() => read(log, ...how)),
    listCuts: async () => listCuts(paths),
    position: () => log.end?.mark ?? LOG_START,
    append: (bodies) => inOrder(() => append(log, bodies)),
    async sync() {
      await inOrder(async () => {});
      if (log.failure) throw log.failure;
      if (log.fd !== undefined) await syncUpTo(log, writtenBytes(log));
    },
    close: () =>
      inOrder(async () => {
        if (log.fd !== undefined) fs.closeSync(log.fd);
        log.fd = undefined;
        log.failure ??= new Error('the event log is closed');
      }),
  };
}

const writtenBytes = ({ rotatedBytes, end }: OpenLog): number => rotatedBytes + (end?.bytes ?? 0);

type ReadLog = Parameters<EventLog['read']>;

async function read(log: OpenLog, ...[each, from = LOG_START, pending = () => NOTHING_PENDING]: ReadLog) {
  const { paths } = log;
  const extent = await readEventLog(paths, each, from);
  if (extent === 'unfit') return 'unfit';
  const { mark, segment, crc, epoch, good, torn } = extent;
  if (!log.isEndChecked || torn > 0) await assertEndIsThere(paths, extent, pending(), log.closedEpoch);
  log.isEndChecked = true;
  log.end = { mark, segment, crc, epoch, bytes: good };
  if (good + torn === 0) return 'read';
  const file = openFile(log);
  if (torn > 0) {
    await saveTornTail(paths, good);
    wrapDiskErrors('cut the torn end off', paths.events, () => fs.ftruncateSync(file, good));
  }
  // An earlier process may have died between write and sync, so sync what we rely on.
  await syncUpTo(log, writtenBytes(log));
  await makeNameDurable(log);
  return 'read';
}

/** The current end; reads the log if that has not been done yet. */
async function currentEnd(log: OpenLog): Promise<LogEnd> {
  if (!log.end) await read(log, () => {}, 'oldest');
  log.end ??= { mark: LOG_START, segment: 1, crc: LOG_START.crc, epoch: 0, bytes: 0 };
  return log.end;
}

function openFile(log: OpenLog): number {
  const { paths } = log;
  // Otherwise the events of this session would begin the log of another session in a recreated folder.
  if (log.fd === undefined && !log.isSameFolder())
    throw new DiskError('ENOENT', `${paths.folder} was removed or recreated while in use. It is read again.`);
  const flags = O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK;
  log.fd ??= wrapDiskErrors('open', paths.events, () => fs.openSync(paths.events, flags, 0o600));
  return log.fd;
}

async function flush(log: OpenLog, upTo: number): Promise<void> {
  if (log.failure) throw log.failure;
  const seq = log.end?.mark.seq ?? 0;
  try {
    await log.disk.sync(openFile(log));
    log.syncedSeq = seq;
    log.syncedBytes = Math.max(log.syncedBytes, upTo);
  } catch (error) {
    log.failure = toDiskError(error, 'sync', log.paths.events);
    throw log.failure;
  } finally {
    log.syncInFlight = undefined;
  }
}

/**
 * Ensures that bytes up to here are on disk. Concurrent callers share one sync if it began after their bytes were
 * written.
 */
async function syncUpTo(log: OpenLog, bytes: number): Promise<void> {
  while (log.syncedBytes < bytes) {
    log.syncInFlight ??= flush(log, writtenBytes(log));
    await log.syncInFlight;
  }
}

async function append(log: OpenLog, bodies: EventBody[]): Promise<Event[]> {
  if (log.failure) throw log.failure;
  log.token.check();
  let at = await currentEnd(log);
  let file = openFile(log);
  assertUntouched(log, file, at);
  const epoch = Math.max(log.epoch, at.epoch);
  // The first line of an epoch states what it follows, so it must be in the segment where its writer stopped reading.
  if (bodies.length > 0 && at.bytes >= log.segmentBytes && at.epoch === epoch) {
    await rotate(log, file, at);
    [at, file] = [await currentEnd(log), openFile(log)];
  }
  const isFirst = epoch > at.epoch && epoch > 1;
  const fence = isFirst ? { segment: at.mark.segment, offset: at.mark.offset } : undefined;
  const stamp = { seq: at.mark.seq, epoch, synced: log.syncedSeq, at: log.now().toISOString(), fence };
  const { text, events } = stampEvents(bodies, stamp);
  const bytes = Buffer.from(text);
  try {
    writeAll(file, bytes, log.disk.write);
  } catch (error) {
    undoWrite(log, file, at.bytes);
    throw toDiskError(error, 'write', log.paths.events);
  }
  if (bodies.length > 0) log.end = endAfter(at, bytes, bodies.length, epoch);
  await makeNameDurable(log);
  return events;
}

function endAfter({ mark, segment, bytes }: LogEnd, text: Buffer, count: number, epoch: number): LogEnd {
  const offset = bytes + text.length;
  const crc = crcOfLine(text.subarray(0, -1)) ?? '';
  return { mark: { seq: mark.seq + count, segment, offset, crc }, segment, crc, epoch, bytes: offset };
}

/** Throws if another program replaced our file or wrote to it. */
function assertUntouched(log: OpenLog, file: number, at: LogEnd, isIdentityDue = isIdentityCheckDue(log)): void {
  const { events } = log.paths;
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

async function rotate(log: OpenLog, file: number, at: LogEnd): Promise<void> {
  await syncUpTo(log, writtenBytes(log));
  const { segment, epoch, crc } = at;
  const seq = at.mark.seq;
  const stamp = { segment: segment + 1, epoch, at: log.now().toISOString() };
  const header = { ...stamp, prev_last_seq: seq, prev_bytes: at.bytes, prev_crc: crc };
  const text = Buffer.from(await rotateSegment(log.paths, file, header, () => assertUnchangedSince(log, file, at)));
  try {
    await syncFolder(log.paths.folder);
    log.fd = undefined;
    fs.closeSync(file);
    openFile(log);
  } catch (error) {
    log.failure = error;
    throw error;
  }
  log.rotatedBytes += at.bytes;
  const start = { seq, segment: segment + 1, offset: text.length, crc: crcOfLine(text.subarray(0, -1)) ?? '' };
  // Void lines after the last event stay beyond the position.
  const mark = at.mark.offset === at.bytes ? start : at.mark;
  log.end = { mark, segment: segment + 1, crc: start.crc, epoch, bytes: text.length };
  log.syncedBytes = writtenBytes(log);
}

/** The next header states the length of the rotated segment, so a concurrent write cancels the rotation. */
function assertUnchangedSince(log: OpenLog, file: number, at: LogEnd): void {
  const { bytes } = at;
  assertUntouched(log, file, at, true);
  if (at.bytes !== bytes) throw new Error(`${log.paths.events} grew while it was being closed; retrying.`);
}

function undoWrite(log: OpenLog, file: number, size: number): void {
  try {
    fs.ftruncateSync(file, size);
  } catch (error) {
    log.failure = toDiskError(error, 'take back an unfinished write to', log.paths.events);
  }
}

/** Syncs the folders on the file's path too, since the session folder may be as new as the file. */
async function makeNameDurable(log: OpenLog): Promise<void> {
  if (log.isNameDurable) return;
  try {
    await syncFolder(log.paths.folder);
    await syncSessionsFolder(dirname(log.paths.folder));
    log.isNameDurable = true;
  } catch (error) {
    log.failure = error;
    throw error;
  }
}

const REPLACED_LOG_ADVICE =
  'Nothing more is written to it. Restore the right file (it holds the whole session), then restart the daemon.';
