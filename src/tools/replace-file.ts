import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { access, type FileHandle, lstat, mkdir, open, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { UserError } from '../protocol/errors.ts';
import { inWords } from './file-errors.ts';
import { whereIs } from './open-file.ts';
import type { Fence, Place } from './paths.ts';

const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

/**
 * Puts a file in place, whole and durable: a crash leaves the old one or the new one. Makes missing folders and keeps the
 * mode of a file it replaces. Throws UserError.
 */
export async function replaceFile(
  place: Place,
  content: string | Uint8Array | Readable,
  fence: Fence,
): Promise<'created' | 'replaced'> {
  try {
    const folder = dirname(place.real);
    await mkdir(folder, { recursive: true });
    const mode = await modeOf(place);
    const temp = join(folder, `.${randomUUID()}.tmp`);
    const handle = await open(temp, CREATE, 0o666);
    try {
      await write(handle, temp, content, { mode, fence, place });
      await rename(temp, place.real);
    } catch (error) {
      await rm(whereIs(handle.fd, temp) ?? temp, { force: true });
      throw error;
    } finally {
      await handle.close();
    }
    await syncFolder(folder);
    return mode === undefined ? 'created' : 'replaced';
  } catch (error) {
    throw inWords(error, place.shown);
  }
}

async function write(
  handle: FileHandle,
  temp: string,
  content: string | Uint8Array | Readable,
  { mode, fence, place }: { mode: number | undefined; fence: Fence; place: Place },
): Promise<void> {
  const lies = whereIs(handle.fd, temp);
  if (lies === undefined || !fence.mayWrite(lies))
    throw new UserError(`\`${place.shown}\` changed while it was opened.`);
  await writeFile(handle, content);
  if (mode !== undefined) await handle.chmod(mode);
  await handle.sync();
}

/** The mode of the file that will be replaced. A rename would pass over its write protection, so that is asked here. */
async function modeOf(place: Place): Promise<number | undefined> {
  const stat = await lstat(place.real).catch(() => undefined);
  if (!stat) return undefined;
  if (stat.isDirectory()) throw new UserError(`\`${place.shown}\` is a folder, not a file.`);
  if (!stat.isFile()) throw new UserError(`\`${place.shown}\` is a link, a device or a pipe, not a file.`);
  await access(place.real, constants.W_OK);
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
