import * as fs from 'node:fs';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import type { Journal } from '../engine/ports.ts';
import type { Event, EventBody } from '../protocol/event.ts';
import { BEGINNING, type Mark } from '../protocol/mark.ts';
import { syncFolder, type Write, writeAll } from './durable.ts';
import { ifThere, inWords, RecordCorrupt, saying } from './errors.ts';
import type { SessionPaths } from './layout.ts';
import { crcOf } from './line.ts';
import { hasMark, readRecord } from './record.ts';
import { stampLines } from './stamp.ts';
import { saveTornEnd } from './torn.ts';
import { inTurn } from './turns.ts';

const { O_APPEND, O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_WRONLY } = fs.constants;
const CHECK_EVERY_MS = 1000;

export type JournalOptions = {
  /** Wall time, recorded and never compared. */
  now: () => Date;
  /** Milliseconds of a clock that never goes back. */
  elapsed: () => number;
  /** Which owner of the workspace writes. */
  epoch: number;
  /** The two calls that fail in the field; tests make them fail. */
  disk?: { write: Write; sync: (fd: number) => Promise<void> };
};

const plainDisk = {
  write: (fd: number, bytes: Uint8Array, offset: number) => fs.writeSync(fd, bytes, offset),
  sync: promisify(fs.fdatasync),
};

/**
 * The session's record, for its only writer. A failed append leaves no byte behind. A failed sync poisons the journal: the
 * kernel may have dropped what it could not write and call the next sync a success (fsyncgate), so from then on every
 * append and sync throws until the journal is opened anew and has read what is really there.
 */
export function openJournal(paths: SessionPaths, options: JournalOptions): Journal & { close(): Promise<void> } {
  const { now, elapsed, epoch, disk = plainDisk } = options;
  const turn = inTurn();
  let fd: number | undefined;
  let end: { bytes: number; seq: number; crc: string } | undefined;
  /** Bytes known to be on disk; -1 where not even the empty file is. */
  let synced = -1;
  let named = false;
  let checked = Number.NEGATIVE_INFINITY;
  let poison: unknown;
  let flight: Promise<void> | undefined;

  const read = async (each: (event: Event) => void, from: Mark | 'oldest' = BEGINNING) => {
    const start = from === 'oldest' ? BEGINNING : from;
    if (!hasMark(paths, start)) return 'unfit';
    const extent = await readRecord(paths.events, each, start);
    end = { bytes: extent.good, seq: extent.seq, crc: extent.crc };
    if (extent.good + extent.torn === 0) return 'read';
    const file = opened();
    if (extent.torn > 0) {
      await saveTornEnd(paths, extent.good);
      saying('cut the torn end off', paths.events, () => fs.ftruncateSync(file, extent.good));
    }
    // An earlier process may have died between write and sync: what we are about to believe must be on disk.
    await reach(extent.good);
    await makeNameDurable();
    return 'read';
  };

  const opened = () => {
    const flags = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK;
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
      flight ??= flush(end?.bytes ?? 0);
      await flight;
    }
  };

  const append = async (bodies: EventBody[]): Promise<Event[]> => {
    if (poison) throw poison;
    if (!end) await read(() => {});
    const before = end ?? { bytes: 0, seq: 0, crc: BEGINNING.crc };
    const { text, events } = stampLines(bodies, { seq: before.seq, epoch, at: now().toISOString() });
    const file = opened();
    untouched(file, before.bytes);
    const bytes = Buffer.from(text);
    try {
      writeAll(file, bytes, disk.write);
    } catch (error) {
      takeBack(file, before.bytes);
      throw inWords(error, 'write', paths.events);
    }
    const crc = crcOf(bytes.subarray(0, -1)) ?? before.crc;
    end = { bytes: before.bytes + bytes.length, seq: before.seq + bodies.length, crc };
    await makeNameDurable();
    return events;
  };

  /** Throws where another program put a different file in our file's place, or wrote to ours. */
  const untouched = (file: number, size: number) => {
    const ours = fs.fstatSync(file);
    if (ours.size !== size) {
      throw new RecordCorrupt(
        paths.events,
        `another program wrote to it (${ours.size} bytes, ours were ${size}). ${MEND}`,
      );
    }
    if (elapsed() - checked < CHECK_EVERY_MS) return;
    const there = ifThere(() => fs.lstatSync(paths.events));
    if (there?.ino !== ours.ino || there.dev !== ours.dev) {
      throw new RecordCorrupt(
        paths.events,
        `it was ${there ? 'replaced' : 'removed or renamed'} while in use. ${MEND}`,
      );
    }
    checked = elapsed();
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
      await syncFolder(dirname(paths.folder));
      named = true;
    } catch (error) {
      poison = error;
      throw error;
    }
  };

  return {
    read: (each, from) => turn(() => read(each, from)),
    mark: () => ({ seq: end?.seq ?? 0, segment: 1, offset: end?.bytes ?? 0, crc: end?.crc ?? BEGINNING.crc }),
    append: (bodies) => turn(() => append(bodies)),
    async sync() {
      await turn(async () => {});
      if (poison) throw poison;
      if (fd !== undefined) await reach(end?.bytes ?? 0);
    },
    close: () =>
      turn(async () => {
        if (fd !== undefined) fs.closeSync(fd);
        fd = undefined;
        poison ??= new Error('the journal is closed');
      }),
  };
}

const MEND =
  'Nothing more is written there. Put the right file back (it is the session, whole), then restart the daemon.';
