import * as fs from 'node:fs';
import { StringDecoder } from 'node:string_decoder';
import { showWhileWritten, withoutDoneMarkers } from '../../core/detect/done-markers.ts';
import { reduceEvent } from '../../core/reducers/reduce-event.ts';
import { emptySession, type Session } from '../../core/session/session-state.ts';
import type { Event } from '../../protocol/session/event.ts';
import type { LogPosition } from '../../protocol/session/log-entry.ts';
import { crcOfLine } from '../../store/event-log/log-lines.ts';
import { hasPosition, readStartFor, streamEventLog } from '../../store/event-log/log-reader.ts';
import { openForReading } from '../../store/fs/file-reads.ts';
import { ifExists, wrapDiskErrors } from '../../store/fs/store-errors.ts';
import type { SessionPaths } from '../../store/layout/layout.ts';
import { sessionBeforeOldest } from '../sessions/replay.ts';
import { watchFolders } from './folder-watch.ts';

export type FollowOptions = {
  /** First event number to yield; default 1. */
  from?: number | undefined;
  /** Continues with new events until the signal is aborted or the session's folder is gone. */
  follow?: boolean | undefined;
  signal?: AbortSignal | undefined;
};

/** The events of a session with their lines, as stored: nothing incomplete, nothing twice, nothing left out. */
export async function* followEvents(
  paths: SessionPaths,
  { from = 1, follow, signal }: FollowOptions,
): AsyncGenerator<LogLine> {
  const tail = openLogTail(paths, from);
  const changes = follow ? watchFolders([paths.folder]) : null;
  try {
    for (;;) {
      for await (const line of tail.readNew()) if (line.event.seq >= from) yield line;
      if (!changes || signal?.aborted || !fs.existsSync(paths.folder)) return;
      await changes.next(signal);
    }
  } finally {
    changes?.close();
  }
}

/** What a viewer of a session receives: its state, then each event and the model's text as they arrive. */
export type SessionUpdate =
  | { is: 'state'; session: Session }
  | { is: 'event'; event: Event; session: Session }
  | { is: 'text'; text: string };

/** Follows a session from now on, until the signal is aborted or its folder is gone. Begins with one `state`. */
export async function* watchSession(
  paths: SessionPaths & { name: string },
  signal?: AbortSignal,
): AsyncGenerator<SessionUpdate> {
  const record = openLogTail(paths);
  const live = openShownTail(paths.live);
  const changes = watchFolders([paths.folder, paths.inbox]);
  let session = emptySession(paths.name);
  let answered = '';
  try {
    const removed = sessionBeforeOldest(paths);
    for await (const { event } of record.readNew()) {
      if (session.seq === 0 && event.seq > 1) session = removed(event.seq);
      if (event.seq > session.seq) session = reduceEvent(session, event);
      if (event.type === 'model.answered' || event.type === 'model.failed') answered = event.at;
    }
    if (!session.run || wasWrittenBefore(paths.live, answered)) live.skipToEnd();
    yield { is: 'state', session };
    while (!signal?.aborted && fs.existsSync(paths.folder)) {
      const words = live.readNew();
      // Text of the next call comes after the events that led to it; text of this one before the event that ends it.
      if (words.text !== '' && !words.began) yield { is: 'text', text: words.text };
      let isReported = false;
      let answeredAt: string | undefined;
      for await (const { event, supersedes } of record.readNew()) {
        if (supersedes) return yield* watchSession(paths, signal);
        session = reduceEvent(session, event);
        // A short answer may be in the event log before its text was read: then the event has delivered it.
        if (event.type === 'model.answered' || event.type === 'model.failed') answeredAt = event.at;
        isReported ||= event.type === 'model.answered' && withoutDoneMarkers(event.text).startsWith(words.text);
        yield { is: 'event', event, session };
      }
      if (words.text !== '' && words.began && !isReported) yield { is: 'text', text: words.text };
      // The event has everything the call produced after its text was read.
      if (answeredAt !== undefined && wasWrittenBefore(paths.live, answeredAt)) live.skipToEnd();
      await changes.next(signal);
    }
  } finally {
    changes.close();
  }
}

/**
 * The content of `live` was written before that time: the call is over. The time of an event is rounded down to a
 * millisecond, and `mtime` to the nearest one, so a text written just before its event would count as later.
 */
export function wasWrittenBefore(path: string, at: string): boolean {
  const mtimeMs = fs.statSync(path, { throwIfNoEntry: false })?.mtimeMs;
  return mtimeMs === undefined || (at !== '' && Math.floor(mtimeMs) <= Date.parse(at));
}

export type LogTail = {
  /** New events since the last call. An incomplete last line is left for the next call. */
  readNew(): AsyncGenerator<LogLine>;
};

/**
 * An event, and its line as stored. `supersedes`: a later owner of the workspace did not see what was yielded from this
 * seq on; that is void, and this replaces it.
 */
export type LogLine = { event: Event; line: string; supersedes: boolean };

/**
 * The growing end of an event log, for readers beside its writer. Throws CorruptLogError if the log cannot be trusted.
 */
export function openLogTail(paths: SessionPaths, from = 1): LogTail {
  let mark: LogPosition | undefined;
  let first = from;
  let reported = { seq: 0, epoch: 0 };
  let readUpTo: string | undefined;

  async function* fresh(): AsyncGenerator<LogLine> {
    // A failed append is removed from the log. What was yielded of it stands; what replaces it is yielded from there
    // on.
    const start = mark && hasPosition(paths, mark) ? mark : await readStartFor(paths, first);
    const source = streamEventLog(paths, start);
    for (;;) {
      const { done, value } = await source.next();
      if (done && value !== 'unfit') return;
      if (done) {
        mark = undefined;
        first = 1;
        if (start !== 'oldest') yield* fresh();
        return;
      }
      for (const { event, bytes, segment, end } of value) {
        mark = { seq: event.seq, segment, offset: end, crc: crcOfLine(bytes) ?? '' };
        const again = event.seq <= reported.seq;
        if (again && event.epoch <= reported.epoch) continue;
        reported = { seq: event.seq, epoch: event.epoch };
        yield { event, line: bytes.toString(), supersedes: again };
      }
    }
  }

  return {
    async *readNew() {
      // Most changes in a session's folder do not touch its event log, and most checks of an idle reader find nothing.
      const now = versionOf(paths.events);
      if (now === readUpTo) return;
      yield* fresh();
      readUpTo = now;
    },
  };
}

/** Differs after every change of the file; empty if there is none. */
function versionOf(path: string): string {
  const stat = fs.lstatSync(path, { throwIfNoEntry: false, bigint: true });
  return stat ? `${stat.ino} ${stat.size} ${stat.mtimeNs} ${stat.ctimeNs}` : '';
}

/** The same without done markers: the text of the call in flight as people read it. */
export function openShownTail(path: string): LiveTail {
  const live = openLiveTail(path);
  let show = showWhileWritten();
  return {
    readNew() {
      const { text, began } = live.readNew();
      if (began) show = showWhileWritten();
      return { text: show(text), began };
    },
    skipToEnd: live.skipToEnd,
  };
}

export type LiveTail = {
  /** New text since the last call. `began`: it belongs to another model call than the text before. */
  readNew(): { text: string; began: boolean };
  /** Skips the current text, whose call is over: what is there after the next change belongs to another call. */
  skipToEnd(): void;
};

/** This many bytes at its beginning distinguish the text of one call from that of another. */
const HEAD_BYTES = 256;
const NOTHING: Buffer = Buffer.alloc(0);

/**
 * The text of the call in flight. The file is emptied when a call begins, so if it shrank or begins differently, it
 * belongs to another call.
 */
export function openLiveTail(path: string): LiveTail {
  let offset = 0;
  let head = NOTHING;
  // Created once there is text: most of a thousand readers never need it.
  let decoder: StringDecoder | undefined;
  let readUpTo = '';
  const readNew = () => {
    const now = versionOf(path);
    const fd = now === readUpTo ? undefined : openIfThere(path);
    if (fd === undefined) return { text: '', began: false };
    readUpTo = now;
    try {
      const { size } = fs.fstatSync(fd);
      // If nothing was read yet, this may already be the text of the call after the expected one.
      const began = offset === 0 || size < offset || !readBytes(fd, 0, head.length).equals(head);
      if (began) {
        offset = 0;
        head = NOTHING;
        decoder = undefined;
      }
      const bytes = readBytes(fd, offset, size - offset);
      if (head.length < HEAD_BYTES) head = Buffer.concat([head, bytes.subarray(0, HEAD_BYTES - head.length)]);
      offset += bytes.length;
      decoder ??= new StringDecoder();
      return { text: decoder.write(bytes), began };
    } finally {
      fs.closeSync(fd);
    }
  };
  return {
    readNew,
    skipToEnd() {
      readUpTo = versionOf(path);
      offset = 0;
    },
  };
}

function readBytes(fd: number, offset: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  return bytes.subarray(0, fs.readSync(fd, bytes, 0, length, offset));
}

function openIfThere(path: string): number | undefined {
  return wrapDiskErrors('read', path, () => ifExists(() => openForReading(path)));
}
