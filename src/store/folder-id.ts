import * as fs from 'node:fs';
import { dirname } from 'node:path';
import { ifThere } from './errors.ts';

/** What a file system says of a folder, as far as it tells it from others. */
export type Facts = Pick<fs.BigIntStats, 'dev' | 'ino' | 'birthtimeNs' | 'ctimeNs'>;

/**
 * Gives a folder an id that stays the same as long as it lives, and that no other folder made under its name later has: the
 * number of an inode alone is given out again, by tmpfs and ext4 at once, so the time of birth is part of it where it is told.
 * `used`: paths on the same file system that were changed after they were made. Only they show that times of birth are told:
 * elsewhere 0 or the last change stands in their place, and an id with that in it would change with every file.
 */
export function folderIds(...used: string[]): (facts: Facts) => string {
  const areTold = tellsBirth(...used);
  return ({ dev, ino, birthtimeNs }) => `${dev}:${ino}${areTold ? `:${birthtimeNs}` : ''}`;
}

/** Whether the file system of these paths, which were changed after they were made, tells when a file was made. */
export const tellsBirth = (...used: string[]): boolean =>
  used.some((path) => {
    const facts = factsAt(path);
    return facts !== undefined && facts.birthtimeNs !== 0n && facts.birthtimeNs !== facts.ctimeNs;
  });

/** Asks whether the folder at a path is still the one that is there now. One that is made again changes the folder it is in. */
export function sameFolder(path: string): () => boolean {
  const first = factsAt(path);
  return () => {
    const now = factsAt(path);
    if (!first || !now) return first === now;
    const idOf = folderIds(path, dirname(path));
    return idOf(first) === idOf(now);
  };
}

const factsAt = (path: string): Facts | undefined => ifThere(() => fs.lstatSync(path, { bigint: true }));
