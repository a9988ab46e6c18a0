import * as fs from 'node:fs';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import type { Journal } from '../engine/ports.ts';
import type { Event, EventBody } from '../protocol/event.ts';
import { BEGINNING } from '../protocol/mark.ts';
import { crcOf } from './checksum.ts';
import { syncFolder, type Write, writeAll } from './durable.ts';
import { DiskError, Fenced, ifThere, inWords, RecordCorrupt, saying } from './errors.ts';
import { sameFolder } from './folder-id.ts';
import type { SessionPaths } from './layout.ts';
import { decodeLine } from './line.ts';
import { readAt } from './lines.ts';
import { type From, readRecord } from './record.ts';
import type { Extent } from './scan.ts';
import { seal } from './seal.ts';
import type { SessionToken } from './session-token.ts';
import { sharedSync } from './shared-sync.ts';
import { stampLines } from './stamp.ts';
import { saveTornEnd } from './torn.ts';
import { inTurn } from './turns.ts';

const { O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_RDWR } = fs.constants;
const CHECK_EVERY_MS = 1000;
/** A segment is sealed once it is this large. */
const SEGMENT_BYTES = 8 * 1024 * 1024;

export type JournalOptions = {
  /** Wall time, recorded and never compared. */
  now: () => Date;
  /** Milliseconds of a clock that never goes back. */
  elapsed: () => number;
  /** Which owner of the workspace writes. A record that knows a newer one is gone on with under that number. */
  epoch: number;
  /** Says that no other worker has this session open. */
  token: SessionToken;
  segmentBytes?: number;
  /** The two calls that fail in the field; tests make them fail. */
  disk?: { write: Write; sync: (fd: number) => Promise<void> };
};

/** The folder all sessions are in: a daemon that opens hundreds at once syncs it for each of them. */
const syncSessions = sharedSync(syncFolder);

const plainDisk = {
  write: (fd: number, bytes: Uint8Array, offset: number) => fs.writeSync(fd, bytes, offset),
  sync: promisify(fs.fdatasync),
};

/** Where the record ends, as this writer knows it. */
type End = Pick<Extent, 'mark' | 'segment' | 'crc' | 'epoch'> & { bytes: number };

/**
 * The session's record, for its only writer. A failed append leaves no byte behind. A failed sync poisons the journal: the
 * kernel may have dropped what it could not write and call the next sync a success (fsyncgate), so from then on every
 * append and sync throws until the journal is opened anew and has read what is really there. So does one that met a later owner.
 */
export function openJournal(paths: SessionPaths, options: JournalOptions): Journal & { close(): Promise<void> } {
  const { now, elapsed, segmentBytes = SEGMENT_BYTES, disk = plainDisk } = options;
  const turn = inTurn();
  const isSame = sameFolder(paths.folder);
  let fd: number | undefined;
  let end: End | undefined;
  /** Bytes of segments that were sealed since we opened: with them a place in the record only ever grows. */
  let earlier = 0;
  /** Bytes known to be on disk, counted so; -1 where not even the empty file is. */
  let synced = -1;
  let named = false;
  let checked = Number.NEGATIVE_INFINITY;
  let poison: unknown;
  let flight: Promise<void> | undefined;

  const written = () => earlier + (end?.bytes ?? 0);

  const read = async (each: (event: Event) => void, from: From = BEGINNING) => {
    const extent = await readRecord(paths, each, from);
    if (extent === 'unfit') return 'unfit';
    const { mark, segment, crc, epoch, good, torn } = extent;
    end = { mark, segment, crc, epoch, bytes: good };
    if (good + torn === 0) return 'read';
    const file = opened();
    if (torn > 0) {
      await saveTornEnd(paths, good);
      saying('cut the torn end off', paths.events, () => fs.ftruncateSync(file, good));
    }
    // An earlier process may have died between write and sync: what we are about to believe must be on disk.
    await reach(written());
    await makeNameDurable();
    return 'read';
  };

  /** The end as it is; a record that nobody asked to read is read here. */
  const known = async (): Promise<End> => {
    if (!end) await read(() => {}, 'oldest');
    end ??= { mark: BEGINNING, segment: 1, crc: BEGINNING.crc, epoch: 0, bytes: 0 };
    return end;
  };

  const opened = () => {
    // Else what this session was about to record would begin the record of another one.
    if (fd === undefined && !isSame())
      throw new DiskError('ENOENT', `${paths.folder} was removed or made again while in use. It is read anew.`);
    const flags = O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK;
    fd ??= saying('open', paths.events, () => fs.openSync(paths.events, flags, 0o600));
    return fd;
  };

  const flush = async (upTo: number) => {
    if (poison) throw poison;
    try {
      await disk.sync(opened());
      synced = Math.max(synced, upTo);
    } catch (error) {
      poison = inWords(error, 'sync', paths.events);
      throw poison;
    } finally {
      flight = undefined;
    }
  };

  /** Bytes up to here are on disk. Who waits at the same time shares one sync, if it began after their bytes were written. */
  const reach = async (bytes: number) => {
    while (synced < bytes) {
      flight ??= flush(written());
      await flight;
    }
  };

  const append = async (bodies: EventBody[]): Promise<Event[]> => {
    if (poison) throw poison;
    options.token.check();
    let at = await known();
    let file = opened();
    untouched(file, at);
    const epoch = Math.max(options.epoch, at.epoch);
    // The first line of an epoch says what it follows, so it is written where its writer's reading ended.
    if (bodies.length > 0 && at.bytes >= segmentBytes && at.epoch === epoch) {
      await rotate(file, at);
      [at, file] = [await known(), opened()];
    }
    const isFirst = epoch > at.epoch && epoch > 1;
    const fence = isFirst ? { segment: at.mark.segment, offset: at.mark.offset } : undefined;
    const { text, events } = stampLines(bodies, { seq: at.mark.seq, epoch, at: now().toISOString(), fence });
    const bytes = Buffer.from(text);
    try {
      writeAll(file, bytes, disk.write);
    } catch (error) {
      takeBack(file, at.bytes);
      throw inWords(error, 'write', paths.events);
    }
    if (bodies.length > 0) end = after(at, bytes, bodies.length, epoch);
    await makeNameDurable();
    return events;
  };

  const after = ({ mark, segment, bytes }: End, text: Buffer, count: number, epoch: number): End => {
    const offset = bytes + text.length;
    const crc = crcOf(text.subarray(0, -1)) ?? '';
    return { mark: { seq: mark.seq + count, segment, offset, crc }, segment, crc, epoch, bytes: offset };
  };

  /** Throws where another program put a different file in our file's place, or wrote to ours. */
  const untouched = (file: number, at: End, look = elapsed() - checked >= CHECK_EVERY_MS) => {
    const ours = fs.fstatSync(file);
    if (ours.size !== at.bytes) beside(file, at, ours.size);
    if (!look) return;
    const there = ifThere(() => fs.lstatSync(paths.events));
    if (there?.ino !== ours.ino || there.dev !== ours.dev) {
      throw new RecordCorrupt(
        paths.events,
        `it was ${there ? 'replaced' : 'removed or renamed'} while in use. ${MEND}`,
      );
    }
    checked = elapsed();
  };

  /** Lines we did not write. Those of an earlier owner are void and are written behind; a later owner's stop us for good. */
  const beside = (file: number, at: End, size: number) => {
    const lines = size > at.bytes ? wholeLines(readAt(file, at.bytes, size)) : [];
    const epochs = lines.map((line) => (line.ok ? line.event.epoch : Number.NaN));
    const newest = Math.max(0, ...epochs.filter((epoch) => !Number.isNaN(epoch)));
    const ours = Math.max(options.epoch, at.epoch);
    if (newest > ours) {
      poison = new Fenced(paths.events, newest, ours);
      throw poison;
    }
    if (lines.length > 0 && epochs.every((epoch) => epoch < ours)) {
      at.bytes = size;
      at.crc = crcOf(readAt(file, Math.max(0, size - 64), size - 1)) ?? '';
      return;
    }
    throw new RecordCorrupt(
      paths.events,
      `another program wrote to it (${size} bytes, ours were ${at.bytes}). ${MEND}`,
    );
  };

  const rotate = async (file: number, at: End) => {
    await reach(written());
    const { segment, epoch, crc } = at;
    const seq = at.mark.seq;
    const stamp = { segment: segment + 1, epoch, at: now().toISOString() };
    const header = { ...stamp, prev_last_seq: seq, prev_bytes: at.bytes, prev_crc: crc };
    const text = Buffer.from(await seal(paths, file, header, () => untouchedSince(file, at)));
    try {
      await syncFolder(paths.folder);
      fd = undefined;
      fs.closeSync(file);
      opened();
    } catch (error) {
      poison = error;
      throw error;
    }
    earlier += at.bytes;
    const start = { seq, segment: segment + 1, offset: text.length, crc: crcOf(text.subarray(0, -1)) ?? '' };
    // Void lines behind the last event stay behind the mark.
    const mark = at.mark.offset === at.bytes ? start : at.mark;
    end = { mark, segment: segment + 1, crc: start.crc, epoch, bytes: text.length };
    synced = written();
  };

  /** Its header says how long the sealed segment is, so what came meanwhile calls the sealing off. */
  const untouchedSince = (file: number, at: End) => {
    const { bytes } = at;
    untouched(file, at, true);
    if (at.bytes !== bytes) throw new Error(`${paths.events} grew while it was sealed; it is tried again.`);
  };

  const takeBack = (file: number, size: number) => {
    try {
      fs.ftruncateSync(file, size);
    } catch (error) {
      poison = inWords(error, 'take back an unfinished write to', paths.events);
    }
  };

  /** A file is only as durable as the names on the way to it; the session folder may be as new as the file. */
  const makeNameDurable = async () => {
    if (named) return;
    try {
      await syncFolder(paths.folder);
      await syncSessions(dirname(paths.folder));
      named = true;
    } catch (error) {
      poison = error;
      throw error;
    }
  };

  return {
    read: (each, from) => turn(() => read(each, from)),
    mark: () => end?.mark ?? BEGINNING,
    append: (bodies) => turn(() => append(bodies)),
    async sync() {
      await turn(async () => {});
      if (poison) throw poison;
      if (fd !== undefined) await reach(written());
    },
    close: () =>
      turn(async () => {
        if (fd !== undefined) fs.closeSync(fd);
        fd = undefined;
        poison ??= new Error('the journal is closed');
      }),
  };
}

/** What each line says; one without an end is not torn here but somebody's. */
function wholeLines(bytes: Buffer) {
  const texts = bytes.toString('latin1').split('\n');
  return texts
    .filter((text, place) => place < texts.length - 1 || text !== '')
    .map((text) => decodeLine(Buffer.from(text, 'latin1')));
}

const MEND =
  'Nothing more is written there. Put the right file back (it is the session, whole), then restart the daemon.';
