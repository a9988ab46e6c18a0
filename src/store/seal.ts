import * as fs from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { errorCode } from '../protocol/errors.ts';
import { createFile, ownFolder, stagingName, syncFolder, writeAll } from './durable.ts';
import { ifThere, inWords, saying } from './errors.ts';
import type { SessionPaths } from './layout.ts';
import { readAt } from './lines.ts';
import { corrupt, type Header, headerText } from './segments.ts';

const CHUNK = 256 * 1024;
const fdatasync = promisify(fs.fdatasync);

/**
 * Seals the segment that `file` holds, all of which is on disk, and puts the next one in its place. After each step a reader finds
 * every event once: the old file gets a second name, durably; the new one, with its header, is made durable beside it; one
 * rename puts it under the name that is written to. `recheck` is asked just before that. Answers the new file's header.
 */
export async function seal(
  paths: SessionPaths,
  file: number,
  header: Omit<Header, 'v' | 'prev'>,
  recheck: () => void,
): Promise<string> {
  ownFolder(paths.sealed);
  const target = paths.segment(header.segment - 1);
  await nameSealed(paths, file, target, header.prev_bytes);
  await syncFolder(paths.sealed);
  await syncFolder(paths.folder);
  const text = headerText({ ...header, prev: target.slice(paths.sealed.length + 1) });
  const staged = join(paths.sealed, stagingName());
  await createFile(staged, text);
  try {
    recheck();
    saying('begin a new segment at', paths.events, () => fs.renameSync(staged, paths.events));
  } catch (error) {
    fs.rmSync(staged, { force: true });
    throw error;
  }
  return text;
}

async function nameSealed(paths: SessionPaths, file: number, target: string, size: number): Promise<void> {
  const there = ifThere(() => fs.lstatSync(target));
  if (there && there.ino === fs.fstatSync(file).ino) return;
  // A copy of an earlier state of ours, as a backup makes of two names of one file, gives way; anything else stays.
  if (there && !isBeginning(target, file)) throw corrupt(target, 'it is there already, and not what is to be sealed');
  const staged = join(paths.sealed, stagingName());
  try {
    if (!linked(paths.events, staged)) await copy(file, staged, size);
    else if (fs.lstatSync(staged).ino !== fs.fstatSync(file).ino)
      throw corrupt(paths.events, 'it was replaced while in use');
    saying('seal', target, () => fs.renameSync(staged, target));
  } finally {
    fs.rmSync(staged, { force: true });
  }
}

/** False where the file system has no hard links. */
function linked(from: string, to: string): boolean {
  try {
    fs.linkSync(from, to);
    return true;
  } catch (error) {
    if (['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'].includes(errorCode(error) ?? '')) return false;
    throw inWords(error, 'link', to);
  }
}

async function copy(file: number, to: string, size: number): Promise<void> {
  const fd = saying('write', to, () => fs.openSync(to, 'wx', 0o600));
  try {
    for (let at = 0; at < size; at += CHUNK) writeAll(fd, readAt(file, at, Math.min(size, at + CHUNK)));
    await fdatasync(fd);
  } catch (error) {
    throw inWords(error, 'write', to);
  } finally {
    fs.closeSync(fd);
  }
}

function isBeginning(path: string, file: number): boolean {
  const other = fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK);
  try {
    const { size } = fs.fstatSync(other);
    for (let at = 0; at < size; at += CHUNK) {
      const to = Math.min(size, at + CHUNK);
      if (!readAt(other, at, to).equals(readAt(file, at, to))) return false;
    }
    return true;
  } finally {
    fs.closeSync(other);
  }
}
