import * as fs from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { errorCode, UserError } from '../../base/user-error.ts';
import { createFile, ensureFolder, lacksHardLinks, stagingName, syncFolder, writeAll } from '../fs/durable-write.ts';
import { statIfExists, withOpenFile } from '../fs/file-reads.ts';
import { ifExists, toDiskError, wrapDiskErrors } from '../fs/store-errors.ts';
import type { SessionPaths } from '../layout/layout.ts';
import { readBytes, readFirstLine } from './log-lines.ts';
import { corruptLog, decodeSegmentHeader, encodeSegmentHeader, type SegmentHeader } from './segments.ts';

const CHUNK_BYTES = 256 * 1024;
const fdatasync = promisify(fs.fdatasync);

/**
 * Rotates the segment `file`, all of which is on disk, and puts the next one in its place. After each step a reader
 * finds every event once: the old file gets a second name, durably; the new one, with its header, is made durable
 * beside it; one rename puts it in place. `recheck` is called just before that. Returns the new file's header.
 *
 * A segment with an `owner` gets its number at its beginning, which only one of several owners can.
 */
export async function rotateSegment(
  paths: SessionPaths,
  file: number,
  header: Omit<SegmentHeader, 'v' | 'prev'>,
  recheck: () => void,
): Promise<string> {
  ensureFolder(paths.rotated);
  const target = paths.segment(header.segment - 1);
  await linkRotated(paths, file, target, header.prev_bytes);
  await syncFolder(paths.rotated);
  await syncFolder(paths.folder);
  const text = encodeSegmentHeader({ ...header, prev: target.slice(paths.rotated.length + 1) });
  const staged = join(paths.rotated, stagingName());
  await createFile(staged, text);
  try {
    recheck();
    if (header.owner !== undefined) await takeNumber(paths, staged, header.segment);
    wrapDiskErrors('begin a new segment at', paths.events, () => fs.renameSync(staged, paths.events));
  } catch (error) {
    fs.rmSync(staged, { force: true });
    throw error;
  }
  return text;
}

async function takeNumber(paths: SessionPaths, staged: string, number: number): Promise<void> {
  const target = paths.segment(number);
  try {
    fs.linkSync(staged, target);
  } catch (error) {
    if (errorCode(error) === 'EEXIST')
      throw new UserError(`${target} was begun by another worker at the same time. The log is read again.`);
    if (!lacksHardLinks(error)) throw toDiskError(error, 'link', target);
    throw new UserError(
      `The file system of ${paths.folder} has no hard links, by which workers agree on whose a session is. Use another one for a cluster.`,
    );
  }
  await syncFolder(paths.rotated);
}

/** Whether this owner began the segment under this epoch. */
export function isOwnSegment(file: number, { owner }: { owner: string }, epoch: number): boolean {
  const header = decodeSegmentHeader(readFirstLine(file));
  return header !== undefined && header.owner === owner && header.epoch === epoch;
}

/** Repairs `events.jsonl` after an owner was cut short: it is the second name of the newest segment with an owner. */
export async function nameAsCurrent(paths: SessionPaths, number: number): Promise<void> {
  const numbered = statIfExists(paths.segment(number));
  if (!numbered || numbered.ino === statIfExists(paths.events)?.ino) return;
  const current = withOpenFile(paths.events, (file) => decodeSegmentHeader(readFirstLine(file)));
  if ((current?.segment ?? 1) >= number) return;
  const staged = join(paths.rotated, stagingName());
  try {
    wrapDiskErrors('link', paths.segment(number), () => fs.linkSync(paths.segment(number), staged));
    wrapDiskErrors('rename', paths.events, () => fs.renameSync(staged, paths.events));
  } finally {
    fs.rmSync(staged, { force: true });
  }
  await syncFolder(paths.folder);
}

async function linkRotated(paths: SessionPaths, file: number, target: string, size: number): Promise<void> {
  const there = ifExists(() => fs.lstatSync(target));
  if (there && there.ino === fs.fstatSync(file).ino) return;
  // A copy of an earlier state of this file is replaced: restoring a backup of a file with two names makes two files.
  // Anything else stays.
  if (there && !isPrefixOf(target, file))
    throw corruptLog(target, 'it already exists and is not the segment to be closed');
  const staged = join(paths.rotated, stagingName());
  try {
    if (!tryHardLink(paths.events, staged)) await copySegment(file, staged, size);
    else if (fs.lstatSync(staged).ino !== fs.fstatSync(file).ino)
      throw corruptLog(paths.events, 'it was replaced while in use');
    wrapDiskErrors('rename', target, () => fs.renameSync(staged, target));
  } finally {
    fs.rmSync(staged, { force: true });
  }
}

/** False if the file system has no hard links. */
function tryHardLink(from: string, to: string): boolean {
  try {
    fs.linkSync(from, to);
    return true;
  } catch (error) {
    if (lacksHardLinks(error)) return false;
    throw toDiskError(error, 'link', to);
  }
}

/** Copies the first `size` bytes of an open file to a new one, durably. */
export async function copySegment(file: number, to: string, size: number): Promise<void> {
  const fd = wrapDiskErrors('write', to, () => fs.openSync(to, 'wx', 0o600));
  try {
    for (let at = 0; at < size; at += CHUNK_BYTES) writeAll(fd, readBytes(file, at, Math.min(size, at + CHUNK_BYTES)));
    await fdatasync(fd);
  } catch (error) {
    throw toDiskError(error, 'write', to);
  } finally {
    fs.closeSync(fd);
  }
}

function isPrefixOf(path: string, file: number): boolean {
  return withOpenFile(path, (other) => {
    const { size } = fs.fstatSync(other);
    for (let at = 0; at < size; at += CHUNK_BYTES) {
      const to = Math.min(size, at + CHUNK_BYTES);
      if (!readBytes(other, at, to).equals(readBytes(file, at, to))) return false;
    }
    return true;
  });
}
