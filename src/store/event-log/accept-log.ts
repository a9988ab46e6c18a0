import * as fs from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { UserError } from '../../base/user-error.ts';
import type { Event } from '../../protocol/session/event.ts';
import { ensureFolder, lacksHardLinks, stagingName, syncFolder } from '../fs/durable-write.ts';
import { openRegularFile, statIfExists } from '../fs/file-reads.ts';
import { CorruptLogError, ifExists, wrapDiskErrors } from '../fs/store-errors.ts';
import { freeName, type SessionPaths } from '../layout/layout.ts';
import { streamEventLog } from './log-reader.ts';
import { copySegment } from './rotate.ts';
import { openSegments } from './segments.ts';

/**
 * The part of an event log that can be read. `seq`: its last event. `top`: the highest number in it, also of lines that
 * do not count. `offset`, `rest`: where it ends in the current file, and the bytes after that. `problem`: why it ends
 * there, if not by a crash.
 */
export type SoundPart = { seq: number; top: number; offset: number; rest: number; problem: string | undefined };

/** Reads as much of an event log as can be trusted. Throws CorruptLogError if a closed segment is damaged. */
export async function readSoundPart(paths: SessionPaths, each: (event: Event) => void): Promise<SoundPart> {
  const segments = openSegments(paths);
  if (!segments) return { seq: 0, top: 0, offset: 0, rest: 0, problem: undefined };
  const { number, start, end } = segments.current;
  segments.close();
  let { seq, offset } = start;
  let top = seq;
  let problem: string | undefined;
  try {
    const batches = streamEventLog(paths, 'oldest');
    for (let next = await batches.next(); ; next = await batches.next()) {
      if (next.done) {
        if (next.value !== 'unfit') top = Math.max(top, next.value.top);
        break;
      }
      for (const stored of next.value) {
        each(stored.event);
        seq = stored.event.seq;
        if (stored.segment === number) offset = stored.end;
      }
    }
  } catch (error) {
    if (!(error instanceof CorruptLogError) || error.file !== paths.events) throw error;
    problem = error.message;
  }
  return { seq, top: Math.max(top, seq), offset, rest: end - offset, problem };
}

/**
 * Ends an event log after its sound part, for good. Moves the files that belong to what is missing, and the log as it
 * was, to a new folder beside it. The log comes last: until then the daemon does not take it. Returns its name. Throws
 * UserError, with nothing changed, if somebody has written to the log since that part was read.
 */
export async function acceptSoundPart(
  paths: SessionPaths,
  { seq, offset, rest }: SoundPart,
  files: readonly string[],
): Promise<string> {
  if ((statIfExists(paths.events)?.size ?? 0) !== offset + rest)
    throw new UserError(`Nothing was changed: ${paths.events} has changed since it was read. Run the command again.`);
  const name = freeName(`events.accepted-${seq}`, (one) => statIfExists(join(paths.folder, one)) !== undefined);
  const aside = ensureFolder(join(paths.folder, name));
  for (const path of files) {
    const target = join(aside, relative(paths.folder, path));
    fs.mkdirSync(dirname(target), { recursive: true, mode: 0o700 });
    wrapDiskErrors('move', path, () => ifExists(() => fs.renameSync(path, target)));
  }
  const staged = join(paths.folder, stagingName());
  try {
    const file = openRegularFile(paths.events);
    if (file === undefined) fs.writeFileSync(staged, '', { mode: 0o600 });
    else {
      keepLog(paths.events, join(aside, 'events.jsonl'));
      await copySegment(file, staged, offset).finally(() => fs.closeSync(file));
    }
    await syncFolder(aside);
    dropNumber(paths);
    wrapDiskErrors('replace', paths.events, () => fs.renameSync(staged, paths.events));
  } finally {
    fs.rmSync(staged, { force: true });
  }
  await syncFolder(paths.folder);
  return name;
}

/** A segment that was begun in a cluster has its number already, and would count in place of the new file. */
function dropNumber(paths: SessionPaths): void {
  const segments = openSegments(paths);
  const number = segments?.current.number;
  segments?.close();
  const numbered = number === undefined ? undefined : paths.segment(number);
  if (numbered !== undefined && statIfExists(numbered)?.ino === statIfExists(paths.events)?.ino) fs.rmSync(numbered);
}

function keepLog(from: string, to: string): void {
  wrapDiskErrors('keep', to, () => {
    try {
      fs.linkSync(from, to);
    } catch (error) {
      if (!lacksHardLinks(error)) throw error;
      fs.copyFileSync(from, to);
    }
  });
}
