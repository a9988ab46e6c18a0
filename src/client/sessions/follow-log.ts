import * as fs from 'node:fs';
import { StringDecoder } from 'node:string_decoder';
import type { Event } from '../../protocol/session/event.ts';
import type { LogPosition } from '../../protocol/session/log-entry.ts';
import { crcOfLine, readBytes } from '../../store/event-log/log-lines.ts';
import { hasPosition, readStartFor, streamEventLog } from '../../store/event-log/log-reader.ts';
import { openForReading } from '../../store/fs/file-reads.ts';
import { ifExists, wrapDiskErrors } from '../../store/fs/store-errors.ts';
import { type SessionPaths, sessionPaths } from '../../store/layout/layout.ts';

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

/** `changedAt`: when the log last changed, in ms since 1970; 0 if there is none. */
export type FolderTail = LogTail & { changedAt(): number };

/** The growing log of the session in a folder. */
export function openTailIn(folder: string): FolderTail {
  const paths = sessionPaths(folder);
  const changedAt = () => fs.lstatSync(paths.events, { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return { ...openLogTail(paths), changedAt };
}

/** Differs after every change of the file; empty if there is none. */
function versionOf(path: string): string {
  const stat = fs.lstatSync(path, { throwIfNoEntry: false, bigint: true });
  return stat ? `${stat.ino} ${stat.size} ${stat.mtimeNs} ${stat.ctimeNs}` : '';
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
      const bytes = readBytes(fd, offset, size);
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

function openIfThere(path: string): number | undefined {
  return wrapDiskErrors('read', path, () => ifExists(() => openForReading(path)));
}

/**
 * How long a change that the system did not report goes unnoticed, in ms: where it reports changes, and where it
 * cannot. With a thousand waiting readers, each check costs.
 */
const POLL_MS = { watched: 2000, unwatched: 500 };

export type FolderWatch = {
  /** Resolves when something may have changed since the last call, after 2 s in any case, at once if aborted. */
  next(signal?: AbortSignal): Promise<void>;
  close(): void;
};

/**
 * Watches folders. Events are hints and are never lost between two calls; a folder that cannot be watched is polled.
 */
export function watchFolders(folders: string[]): FolderWatch {
  let stirred = false;
  let wake: (() => void) | null = null;
  const stir = () => {
    stirred = true;
    wake?.();
  };
  let watched = 0;
  const watchers = folders.flatMap((folder) => {
    try {
      const watcher = fs.watch(folder, stir);
      watcher.on('error', () => {
        watched--;
        watcher.close();
      });
      watched++;
      return [watcher];
    } catch {
      return [];
    }
  });
  return {
    async next(signal) {
      if (!stirred && !signal?.aborted) {
        await new Promise<void>((resolve) => {
          const done = () => {
            clearTimeout(timer);
            signal?.removeEventListener('abort', done);
            resolve();
          };
          const timer = setTimeout(done, watched === folders.length ? POLL_MS.watched : POLL_MS.unwatched);
          wake = done;
          signal?.addEventListener('abort', done);
        });
      }
      wake = null;
      stirred = false;
    },
    close() {
      for (const watcher of watchers) watcher.close();
    },
  };
}
