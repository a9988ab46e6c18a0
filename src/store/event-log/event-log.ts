import * as fs from 'node:fs';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { createMutex } from '../../base/mutex.ts';
import type { EventLog } from '../../engine/ports/store-ports.ts';
import type { Event, EventBody } from '../../protocol/session/event.ts';
import { LOG_START } from '../../protocol/session/log-entry.ts';
import { coalesceSyncs, syncFolder, type WriteBytes, writeAll } from '../fs/durable-write.ts';
import { watchFolderIdentity } from '../fs/open-folder.ts';
import { CorruptLogError, DiskError, FencedError, ifExists, toDiskError, wrapDiskErrors } from '../fs/store-errors.ts';
import type { SessionPaths } from '../layout/layout.ts';
import { decodeEventLine, stampEvents } from './event-codec.ts';
import { crcOfLine, readBytes } from './log-lines.ts';
import type { LogExtent } from './log-reader.ts';
import { type ReadStart, readEventLog } from './log-reader.ts';
import { rotateSegment } from './rotate.ts';
import type { SessionToken } from './session-token.ts';
import { saveTornTail } from './torn-tail.ts';

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
  segmentBytes?: number;
  /** The two calls that fail in practice; tests make them fail. */
  disk?: { write: WriteBytes; sync: (fd: number) => Promise<void> };
};

/** The folder of all sessions: a daemon that opens hundreds at once syncs it for each of them. */
const syncSessionsFolder = coalesceSyncs(syncFolder);

const realDisk = {
  write: (fd: number, bytes: Uint8Array, offset: number) => fs.writeSync(fd, bytes, offset),
  sync: promisify(fs.fdatasync),
};

/** The end of the event log, as this writer knows it. */
type LogEnd = Pick<LogExtent, 'mark' | 'segment' | 'crc' | 'epoch'> & { bytes: number };

/**
 * The session's event log, for its only writer. A failed append leaves no byte behind. After a failed sync, every
 * append and sync throws until the log is reopened and has read what is really there: the kernel may have dropped what
 * it could not write and report the next sync as a success (fsyncgate). The same holds after meeting a later owner.
 */
export function openEventLog(paths: SessionPaths, options: EventLogOptions): EventLog & { close(): Promise<void> } {
  const { now, elapsed, segmentBytes = MAX_SEGMENT_BYTES, disk = realDisk } = options;
  const inOrder = createMutex();
  const isSame = watchFolderIdentity(paths.folder);
  let fd: number | undefined;
  let end: LogEnd | undefined;
  /** Bytes of segments rotated since we opened the log: including them, a position in the log only ever grows. */
  let rotatedBytes = 0;
  /** Bytes known to be on disk, counted the same way; -1 if not even the empty file is. */
  let syncedBytes = -1;
  let isNameDurable = false;
  let identityCheckedAt = Number.NEGATIVE_INFINITY;
  let failure: unknown;
  let syncInFlight: Promise<void> | undefined;

  const writtenBytes = () => rotatedBytes + (end?.bytes ?? 0);

  const read = async (each: (event: Event) => void, from: ReadStart = LOG_START) => {
    const extent = await readEventLog(paths, each, from);
    if (extent === 'unfit') return 'unfit';
    const { mark, segment, crc, epoch, good, torn } = extent;
    end = { mark, segment, crc, epoch, bytes: good };
    if (good + torn === 0) return 'read';
    const file = openFile();
    if (torn > 0) {
      await saveTornTail(paths, good);
      wrapDiskErrors('cut the torn end off', paths.events, () => fs.ftruncateSync(file, good));
    }
    // An earlier process may have died between write and sync: what we rely on must be on disk.
    await syncUpTo(writtenBytes());
    await makeNameDurable();
    return 'read';
  };

  /** The current end; reads the log if that has not been done yet. */
  const currentEnd = async (): Promise<LogEnd> => {
    if (!end) await read(() => {}, 'oldest');
    end ??= { mark: LOG_START, segment: 1, crc: LOG_START.crc, epoch: 0, bytes: 0 };
    return end;
  };

  const openFile = () => {
    // Otherwise the events of this session would start the log of another one.
    if (fd === undefined && !isSame())
      throw new DiskError('ENOENT', `${paths.folder} was removed or recreated while in use. It is read again.`);
    const flags = O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK;
    fd ??= wrapDiskErrors('open', paths.events, () => fs.openSync(paths.events, flags, 0o600));
    return fd;
  };

  const flush = async (upTo: number) => {
    if (failure) throw failure;
    try {
      await disk.sync(openFile());
      syncedBytes = Math.max(syncedBytes, upTo);
    } catch (error) {
      failure = toDiskError(error, 'sync', paths.events);
      throw failure;
    } finally {
      syncInFlight = undefined;
    }
  };

  /**
   * Ensures that bytes up to here are on disk. Concurrent callers share one sync if it began after their bytes were
   * written.
   */
  const syncUpTo = async (bytes: number) => {
    while (syncedBytes < bytes) {
      syncInFlight ??= flush(writtenBytes());
      await syncInFlight;
    }
  };

  const append = async (bodies: EventBody[]): Promise<Event[]> => {
    if (failure) throw failure;
    options.token.check();
    let at = await currentEnd();
    let file = openFile();
    assertUntouched(file, at);
    const epoch = Math.max(options.epoch, at.epoch);
    // The first line of an epoch names what it follows, so it is written where its writer stopped reading.
    if (bodies.length > 0 && at.bytes >= segmentBytes && at.epoch === epoch) {
      await rotate(file, at);
      [at, file] = [await currentEnd(), openFile()];
    }
    const isFirst = epoch > at.epoch && epoch > 1;
    const fence = isFirst ? { segment: at.mark.segment, offset: at.mark.offset } : undefined;
    const { text, events } = stampEvents(bodies, { seq: at.mark.seq, epoch, at: now().toISOString(), fence });
    const bytes = Buffer.from(text);
    try {
      writeAll(file, bytes, disk.write);
    } catch (error) {
      undoWrite(file, at.bytes);
      throw toDiskError(error, 'write', paths.events);
    }
    if (bodies.length > 0) end = endAfter(at, bytes, bodies.length, epoch);
    await makeNameDurable();
    return events;
  };

  const endAfter = ({ mark, segment, bytes }: LogEnd, text: Buffer, count: number, epoch: number): LogEnd => {
    const offset = bytes + text.length;
    const crc = crcOfLine(text.subarray(0, -1)) ?? '';
    return { mark: { seq: mark.seq + count, segment, offset, crc }, segment, crc, epoch, bytes: offset };
  };

  /** Throws if another program replaced our file or wrote to it. */
  const assertUntouched = (file: number, at: LogEnd, isDue = elapsed() - identityCheckedAt >= IDENTITY_CHECK_MS) => {
    const ours = fs.fstatSync(file);
    if (ours.size !== at.bytes) handleForeignLines(file, at, ours.size);
    if (!isDue) return;
    const there = ifExists(() => fs.lstatSync(paths.events));
    if (there?.ino !== ours.ino || there.dev !== ours.dev) {
      throw new CorruptLogError(
        paths.events,
        `it was ${there ? 'replaced' : 'removed or renamed'} while in use. ${REPLACED_LOG_ADVICE}`,
      );
    }
    identityCheckedAt = elapsed();
  };

  /**
   * Lines we did not write. Those of an earlier owner are void, and we write after them; a later owner's stop us for
   * good.
   */
  const handleForeignLines = (file: number, at: LogEnd, size: number) => {
    const lines = size > at.bytes ? decodeLines(readBytes(file, at.bytes, size)) : [];
    const epochs = lines.map((line) => (line.ok ? line.event.epoch : Number.NaN));
    const newest = Math.max(0, ...epochs.filter((epoch) => !Number.isNaN(epoch)));
    const ours = Math.max(options.epoch, at.epoch);
    if (newest > ours) {
      failure = new FencedError(paths.events, newest, ours);
      throw failure;
    }
    if (lines.length > 0 && epochs.every((epoch) => epoch < ours)) {
      at.bytes = size;
      at.crc = crcOfLine(readBytes(file, Math.max(0, size - 64), size - 1)) ?? '';
      return;
    }
    throw new CorruptLogError(
      paths.events,
      `another program wrote to it (${size} bytes, expected ${at.bytes}). ${REPLACED_LOG_ADVICE}`,
    );
  };

  const rotate = async (file: number, at: LogEnd) => {
    await syncUpTo(writtenBytes());
    const { segment, epoch, crc } = at;
    const seq = at.mark.seq;
    const stamp = { segment: segment + 1, epoch, at: now().toISOString() };
    const header = { ...stamp, prev_last_seq: seq, prev_bytes: at.bytes, prev_crc: crc };
    const text = Buffer.from(await rotateSegment(paths, file, header, () => assertUnchangedSince(file, at)));
    try {
      await syncFolder(paths.folder);
      fd = undefined;
      fs.closeSync(file);
      openFile();
    } catch (error) {
      failure = error;
      throw error;
    }
    rotatedBytes += at.bytes;
    const start = { seq, segment: segment + 1, offset: text.length, crc: crcOfLine(text.subarray(0, -1)) ?? '' };
    // Void lines after the last event stay beyond the position.
    const mark = at.mark.offset === at.bytes ? start : at.mark;
    end = { mark, segment: segment + 1, crc: start.crc, epoch, bytes: text.length };
    syncedBytes = writtenBytes();
  };

  /** The next header states the length of the rotated segment, so a write in between cancels the rotation. */
  const assertUnchangedSince = (file: number, at: LogEnd) => {
    const { bytes } = at;
    assertUntouched(file, at, true);
    if (at.bytes !== bytes) throw new Error(`${paths.events} grew while it was being closed; retrying.`);
  };

  const undoWrite = (file: number, size: number) => {
    try {
      fs.ftruncateSync(file, size);
    } catch (error) {
      failure = toDiskError(error, 'take back an unfinished write to', paths.events);
    }
  };

  /** A file is only as durable as the folders that lead to it; the session folder may be as new as the file. */
  const makeNameDurable = async () => {
    if (isNameDurable) return;
    try {
      await syncFolder(paths.folder);
      await syncSessionsFolder(dirname(paths.folder));
      isNameDurable = true;
    } catch (error) {
      failure = error;
      throw error;
    }
  };

  return {
    read: (each, from) => inOrder(() => read(each, from)),
    position: () => end?.mark ?? LOG_START,
    append: (bodies) => inOrder(() => append(bodies)),
    async sync() {
      await inOrder(async () => {});
      if (failure) throw failure;
      if (fd !== undefined) await syncUpTo(writtenBytes());
    },
    close: () =>
      inOrder(async () => {
        if (fd !== undefined) fs.closeSync(fd);
        fd = undefined;
        failure ??= new Error('the journal is closed');
      }),
  };
}

/** Decodes lines; here an incomplete one is not torn but somebody else's. */
function decodeLines(bytes: Buffer) {
  const texts = bytes.toString('latin1').split('\n');
  return texts
    .filter((text, place) => place < texts.length - 1 || text !== '')
    .map((text) => decodeEventLine(Buffer.from(text, 'latin1')));
}

const REPLACED_LOG_ADVICE =
  'Nothing more is written to it. Restore the right file (it holds the whole session), then restart the daemon.';
