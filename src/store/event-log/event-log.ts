import * as fs from 'node:fs';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { createMutex } from '../../base/async.ts';
import type { EventLog } from '../../engine/ports/store-ports.ts';
import type { Event, EventBody } from '../../protocol/session/event.ts';
import { LOG_START } from '../../protocol/session/log-entry.ts';
import { coalesceSyncs, syncFolder, writeAll } from '../fs/durable-write.ts';
import { watchFolderIdentity } from '../fs/open-folder.ts';
import { FencedError, toDiskError, wrapDiskErrors } from '../fs/store-errors.ts';
import type { SessionPaths } from '../layout/layout.ts';
import { stampEvents } from './event-codec.ts';
import { crcOfLine } from './log-lines.ts';
import { readEventLog } from './log-reader.ts';
import { assertEndIsThere, NOTHING_PENDING } from './lost-end.ts';
import {
  assertUnchangedSince,
  assertUntouched,
  type EventLogOptions,
  type LogEnd,
  type OpenLog,
  type OwnSegments,
  openFile,
  writtenBytes,
} from './open-log.ts';
import { isOwnSegment, nameAsCurrent, rotateSegment } from './rotate.ts';
import { listCuts, saveTornTail } from './torn-tail.ts';

/** A segment is rotated once it is this large. */
const MAX_SEGMENT_BYTES = 8 * 1024 * 1024;

/** Coalesced, because a daemon that opens hundreds of sessions at once syncs their common folder for each of them. */
const syncSessionsFolder = coalesceSyncs(syncFolder);

const realDisk = {
  write: (fd: number, bytes: Uint8Array, offset: number) => fs.writeSync(fd, bytes, offset),
  sync: promisify(fs.fdatasync),
};

/**
 * The session's event log, for its only writer. A failed append leaves no byte behind. After a failed sync, every
 * append and sync throws until the log is reopened and read again, because the kernel may drop what it could not write
 * and report the next sync as a success (fsyncgate). The same holds once lines of a later owner were found.
 */
export function openEventLog(paths: SessionPaths, options: EventLogOptions): EventLog & { close(): Promise<void> } {
  const log: OpenLog = {
    ...{ segmentBytes: MAX_SEGMENT_BYTES, disk: realDisk, closedEpoch: undefined, own: undefined, ...options, paths },
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

type ReadLog = Parameters<EventLog['read']>;

async function read(log: OpenLog, ...[each, from = LOG_START, pending = () => NOTHING_PENDING]: ReadLog) {
  const { paths } = log;
  const extent = await readEventLog(paths, each, from);
  if (extent === 'unfit') return 'unfit';
  const { mark, segment, crc, epoch, good, torn } = extent;
  if (!log.isEndChecked || torn > 0) await assertEndIsThere(paths, extent, pending(), log.closedEpoch);
  log.isEndChecked = true;
  log.end = { mark, segment, crc, epoch, bytes: good };
  if (good + torn === 0 && !log.own) return 'read';
  await nameAsCurrent(paths, segment);
  const file = openFile(log);
  if (log.own && !isOwnSegment(file, log.own, log.epoch)) {
    await beginOwnSegment(log, file, log.end, log.own);
    return 'read';
  }
  if (torn > 0) {
    await saveTornTail(paths, good);
    wrapDiskErrors('cut the torn end off', paths.events, () => fs.ftruncateSync(file, good));
  }
  // An earlier process may have died between write and sync, so sync what we rely on.
  await syncUpTo(log, writtenBytes(log));
  await makeNameDurable(log);
  return 'read';
}

/** Nothing is cut off the segment of another owner, which may still write there: the header says how much counts. */
async function beginOwnSegment(log: OpenLog, file: number, at: LogEnd, own: OwnSegments): Promise<void> {
  if (at.epoch > log.epoch) throw new FencedError(log.paths.events, at.epoch, log.epoch);
  await rotate(log, file, at, own.check);
  await makeNameDurable(log);
}

/** The current end; reads the log if that has not been done yet. */
async function currentEnd(log: OpenLog): Promise<LogEnd> {
  if (!log.end) await read(log, () => {}, 'oldest');
  log.end ??= { mark: LOG_START, segment: 1, crc: LOG_START.crc, epoch: 0, bytes: 0 };
  return log.end;
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

async function rotate(
  log: OpenLog,
  file: number,
  at: LogEnd,
  recheck = () => {
    log.own?.check();
    assertUnchangedSince(log, file, at);
  },
): Promise<void> {
  await syncUpTo(log, writtenBytes(log));
  const { segment, crc } = at;
  const seq = at.mark.seq;
  const epoch = Math.max(log.epoch, at.epoch);
  const stamp = { segment: segment + 1, epoch, at: log.now().toISOString(), owner: log.own?.owner };
  const header = { ...stamp, prev_last_seq: seq, prev_bytes: at.bytes, prev_crc: crc };
  const text = Buffer.from(await rotateSegment(log.paths, file, header, recheck));
  log.rotatedBytes += at.bytes;
  const start = { seq, segment: segment + 1, offset: text.length, crc: crcOfLine(text.subarray(0, -1)) ?? '' };
  // Void lines after the last event stay beyond the position.
  const mark = at.mark.offset === at.bytes ? start : at.mark;
  log.end = { mark, segment: segment + 1, crc: start.crc, epoch: at.epoch, bytes: text.length };
  try {
    await syncFolder(log.paths.folder);
    log.fd = undefined;
    fs.closeSync(file);
    openFile(log);
  } catch (error) {
    log.failure = error;
    throw error;
  }
  log.syncedBytes = writtenBytes(log);
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
