import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { access, type FileHandle, lstat, open, rename, rm, writeFile } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import type { Readable } from 'node:stream';
import { UserError } from '../protocol/errors.ts';
import { inWords } from './file-errors.ts';
import { inFolderLong } from './held-folder.ts';
import { whereIs } from './open-file.ts';
import type { Fence, Place } from './paths.ts';

const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

/**
 * Puts a file in place, whole and durable: a crash leaves the old one or the new one. Makes missing folders and keeps the
 * mode of a file it replaces. All of it happens in the folder as it was opened, wherever its path leads by then. Throws UserError.
 */
export async function replaceFile(
  place: Place,
  content: string | Uint8Array | Readable,
  fence: Fence,
): Promise<'created' | 'replaced'> {
  const { real, shown } = place;
  try {
    return await inFolderLong(fence.way(dirname(real), true), async (folder) => {
      const target = folder.at(basename(real));
      const mode = await modeOf(target, shown);
      await put(folder.at(`.${randomUUID()}.tmp`), target, content, { mode, fence, place });
      await syncFolder(folder.at('.'));
      return mode === undefined ? 'created' : 'replaced';
    });
  } catch (error) {
    throw inWords(error, shown);
  }
}

type Kept = { mode: number | undefined; fence: Fence; place: Place };

async function put(temp: string, target: string, content: string | Uint8Array | Readable, kept: Kept): Promise<void> {
  const handle = await open(temp, CREATE, 0o666);
  try {
    await write(handle, temp, content, kept);
    await rename(temp, target);
  } catch (error) {
    await rm(temp, { force: true });
    throw error;
  } finally {
    await handle.close();
  }
}

async function write(
  handle: FileHandle,
  temp: string,
  content: string | Uint8Array | Readable,
  { mode, fence, place }: Kept,
): Promise<void> {
  const lies = whereIs(handle.fd, temp);
  if (lies === undefined || !fence.mayWrite(lies))
    throw new UserError(`\`${place.shown}\` changed while it was opened.`);
  await writeFile(handle, content);
  if (mode !== undefined) await handle.chmod(mode);
  await handle.sync();
}

/** The mode of the file that will be replaced. A rename would pass over its write protection, so that is asked here. */
async function modeOf(target: string, shown: string): Promise<number | undefined> {
  const stat = await lstat(target).catch(() => undefined);
  if (!stat) return undefined;
  if (stat.isDirectory()) throw new UserError(`\`${shown}\` is a folder, not a file.`);
  if (!stat.isFile()) throw new UserError(`\`${shown}\` is a link, a device or a pipe, not a file.`);
  await access(target, constants.W_OK);
  return stat.mode & 0o7777;
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, constants.O_RDONLY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
