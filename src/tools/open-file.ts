import { constants } from 'node:fs';
import { type FileHandle, lstat, open, readlink, realpath } from 'node:fs/promises';
import { UserError } from '../protocol/errors.ts';
import { inWords } from './file-errors.ts';
import type { Fence, Place } from './paths.ts';

const READ = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/**
 * Opens a regular file for reading and hands it to `use`. Between resolving a path and opening it a folder can be
 * swapped for a link, so what was opened is asked where it lies. Never hangs on a pipe. Throws UserError.
 */
export async function withFile<T>(
  place: Place,
  fence: Fence,
  use: (handle: FileHandle, size: number) => Promise<T>,
): Promise<T> {
  const handle = await open(place.real, READ).catch((error) => {
    throw inWords(error, place.shown);
  });
  try {
    const lies = await whereIs(handle, place.real);
    if (lies === undefined || !fence.mayRead(lies))
      throw new UserError(`\`${place.shown}\` changed while it was opened.`);
    const stat = await handle.stat();
    if (stat.isDirectory()) throw new UserError(`\`${place.shown}\` is a folder; list_files shows what is in it.`);
    if (!stat.isFile()) throw new UserError(`\`${place.shown}\` is a device or a pipe, not a file.`);
    return await use(handle, stat.size);
  } finally {
    await handle.close();
  }
}

/** The real path of an open file: the kernel's word where it gives one; else its path, if that still names this file. */
export async function whereIs(handle: FileHandle, path: string): Promise<string | undefined> {
  try {
    return await readlink(`/proc/self/fd/${handle.fd}`);
  } catch {
    const real = await realpath(path).catch(() => undefined);
    if (real === undefined) return undefined;
    const [named, opened] = [await lstat(real, { bigint: true }), await handle.stat({ bigint: true })];
    return named.ino === opened.ino && named.dev === opened.dev ? real : undefined;
  }
}
