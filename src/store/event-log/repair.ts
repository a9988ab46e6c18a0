import * as fs from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { UserError } from '../../base/user-error.ts';
import type { Event } from '../../protocol/session/event.ts';
import { ensureFolder, lacksHardLinks, stagingName, syncFolder } from '../fs/durable-write.ts';
import { openRegularFile, statIfExists } from '../fs/file-reads.ts';
import { CorruptLogError, ifExists, wrapDiskErrors } from '../fs/store-errors.ts';
import { freeName, type SessionPaths } from '../layout/layout.ts';
import { decodeEventLine } from './event-codec.ts';
import { readLines } from './log-lines.ts';
import { streamEventLog } from './log-reader.ts';
import { copySegment } from './rotate.ts';
import { decodeSegmentHeader, listRotatedSegments, openSegments } from './segments.ts';

/** Bytes of a file of the log, by their offsets. */
type ByteRange = { path: string; from: number; to: number };

/** Where the part of an event log that can be read ends: its last event, and the byte after it in a file. */
type LogEnding = { seq: number; path: string; segment: number; offset: number };

/**
 * The part of an event log that can be read. `top`: the highest number of an event in it, also of lines that do not
 * count. `dropped`: all that comes after. `problem`: why it ends there, if not by a crash.
 */
export type SoundPart = LogEnding & { top: number; dropped: ByteRange[]; problem: string | undefined };

/**
 * Reads as much of an event log as can be trusted, from its beginning on. Where a closed segment is damaged, the log is
 * read as if it ended with that. Throws CorruptLogError if another version wrote it: then nothing is damaged.
 */
export async function readSoundPart(paths: SessionPaths, each: (event: Event) => void): Promise<SoundPart> {
  let problem: string | undefined;
  for (let until: number | undefined; ; ) {
    try {
      // Only the last attempt is what the log says.
      const found = await readUntil(paths, until, () => {});
      if (found.top > 0) await readUntil(paths, until, each);
      return { ...found, dropped: listDropped(paths, found), problem: problem ?? found.problem };
    } catch (error) {
      if (!(error instanceof CorruptLogError) || error.isOtherVersion) throw error;
      problem ??= error.message;
      const damaged =
        error.file === paths.events ? Number.POSITIVE_INFINITY : Number.parseInt(basename(error.file), 10);
      const before = until ?? Number.POSITIVE_INFINITY;
      until = listRotatedSegments(paths).findLast((number) => number < before && number <= damaged);
    }
    if (until === undefined) {
      const nothing = { seq: 0, path: paths.events, segment: 1, offset: 0 };
      return { ...nothing, top: 0, dropped: listDropped(paths, nothing), problem };
    }
  }
}

/** Reads to the end, or to a damaged line of the last file. Throws CorruptLogError for damage before that. */
async function readUntil(
  paths: SessionPaths,
  until: number | undefined,
  each: (event: Event) => void,
): Promise<Omit<SoundPart, 'dropped'>> {
  const segments = openSegments(paths, until);
  if (!segments) return { seq: 0, top: 0, path: paths.events, segment: 1, offset: 0, problem: undefined };
  const { current, oldest } = segments;
  const pathOf = (number: number) => (number === current.number ? current.path : paths.segment(number));
  let end: Omit<LogEnding, 'path'>;
  try {
    const { start } = segments.open(oldest);
    end = { seq: start.seq, segment: oldest, offset: start.offset };
  } finally {
    segments.close();
  }
  let top = end.seq;
  const place = (problem?: string) => {
    // The header of the last file follows what was read.
    const isAtHeader = end.segment < current.number && end.seq === current.start.seq;
    const { number: segment, start } = current;
    const at = isAtHeader ? { ...end, segment, offset: start.offset } : end;
    return { ...at, top: Math.max(top, at.seq), path: pathOf(at.segment), problem };
  };
  try {
    const batches = streamEventLog(paths, 'oldest', until);
    for (let next = await batches.next(); ; next = await batches.next()) {
      if (next.done) {
        if (next.value !== 'unfit') top = next.value.top;
        return place();
      }
      for (const { event, segment, end: offset } of next.value) {
        each(event);
        end = { seq: event.seq, segment, offset };
      }
    }
  } catch (error) {
    if (!(error instanceof CorruptLogError) || error.isOtherVersion || error.file !== current.path) throw error;
    return place(error.message);
  }
}

/** What the files of a log have after its end, in the order of the log. */
function listDropped(paths: SessionPaths, { path, segment, offset }: LogEnding): ByteRange[] {
  const later = listRotatedSegments(paths)
    .filter((number) => number > segment)
    .map(paths.segment);
  const isCurrent = path === paths.events || statIfExists(path)?.ino === statIfExists(paths.events)?.ino;
  const files = [path, ...later, ...(isCurrent ? [] : [paths.events])];
  return files.flatMap((file, place) => {
    const [from, to] = [place === 0 ? offset : 0, statIfExists(file)?.size ?? 0];
    return to > from ? [{ path: file, from, to }] : [];
  });
}

/**
 * Lines of a log that are dropped: bytes `from` to `to` of a file, by its path in the session's folder, and the number
 * of the first line. `why` they cannot be read; null: they can, but not what was before them. `events`: those that can.
 */
export type DroppedLines = {
  file: string;
  from: number;
  to: number;
  line: number;
  why: string | null;
  events: { seq: number; type: string; at: string }[];
};

/** Says of every byte that is dropped what it is. Neighbouring lines of one kind are one entry. */
export async function explainDropped(paths: SessionPaths, { dropped }: SoundPart): Promise<DroppedLines[]> {
  const found: DroppedLines[] = [];
  for (const { path, from, to } of dropped) {
    const file = relative(paths.folder, path);
    const fd = openRegularFile(path);
    if (fd === undefined) continue;
    try {
      let line = 1;
      for await (const batch of readLines(fd, 0, to)) {
        for (const { bytes, offset, hasLineFeed } of batch) {
          const end = offset + bytes.length + (hasLineFeed ? 1 : 0);
          if (end > from) addLine(found, { file, line, from: Math.max(offset, from), to: end }, bytes, hasLineFeed);
          line++;
        }
      }
    } finally {
      fs.closeSync(fd);
    }
  }
  return found;
}

function addLine(
  found: DroppedLines[],
  place: Pick<DroppedLines, 'file' | 'line' | 'from' | 'to'>,
  bytes: Buffer,
  isWhole: boolean,
): void {
  const read = decodeEventLine(bytes);
  const isHeader = decodeSegmentHeader(bytes) !== undefined;
  const fault = read.ok || isHeader ? null : read.why;
  const why = isWhole || fault === null ? fault : 'it has no end';
  const events = read.ok ? [{ seq: read.event.seq, type: read.event.type, at: read.event.at }] : [];
  const last = found.at(-1);
  if (last && last.file === place.file && last.why === why && last.to === place.from) {
    last.to = place.to;
    last.events.push(...events);
  } else found.push({ ...place, why, events });
}

/**
 * Ends an event log after its sound part, for good. Keeps the log as it was, and moves the files that belong to what is
 * missing, in a new folder beside it. The log is replaced last: until then the daemon does not take it, and this can be
 * done again. Returns the folder's name. Throws UserError, with nothing changed, if somebody has written to the log
 * since that part was read.
 */
export async function acceptSoundPart(paths: SessionPaths, part: SoundPart, files: readonly string[]): Promise<string> {
  if (JSON.stringify(listDropped(paths, part)) !== JSON.stringify(part.dropped))
    throw new UserError(`Nothing was changed: ${paths.events} has changed since it was read. Run the command again.`);
  const name = freeName(`events.accepted-${part.seq}`, (one) => statIfExists(join(paths.folder, one)) !== undefined);
  const aside = ensureFolder(join(paths.folder, name));
  const inAside = (path: string) => {
    const target = join(aside, relative(paths.folder, path));
    fs.mkdirSync(dirname(target), { recursive: true, mode: 0o700 });
    return target;
  };
  for (const path of files) wrapDiskErrors('move', path, () => ifExists(() => fs.renameSync(path, inAside(path))));
  const staged = join(paths.folder, stagingName());
  const replaced = listRotatedSegments(paths)
    .filter((number) => number >= part.segment)
    .map(paths.segment);
  try {
    for (const path of [...replaced, paths.events]) if (statIfExists(path)) keepFile(path, inAside(path));
    const file = openRegularFile(part.path);
    if (file === undefined) fs.writeFileSync(staged, '', { mode: 0o600 });
    else await copySegment(file, staged, part.offset).finally(() => fs.closeSync(file));
    for (const folder of [aside, join(aside, 'events')]) if (statIfExists(folder)) await syncFolder(folder);
    wrapDiskErrors('replace', paths.events, () => fs.renameSync(staged, paths.events));
    // A segment of a cluster has its number from its beginning, and would count in place of the new file.
    for (const path of replaced) wrapDiskErrors('remove', path, () => fs.rmSync(path));
  } finally {
    fs.rmSync(staged, { force: true });
  }
  if (replaced.length > 0) await syncFolder(paths.rotated);
  await syncFolder(paths.folder);
  return name;
}

function keepFile(from: string, to: string): void {
  wrapDiskErrors('keep', to, () => {
    try {
      fs.linkSync(from, to);
    } catch (error) {
      if (!lacksHardLinks(error)) throw error;
      fs.copyFileSync(from, to);
    }
  });
}
