import * as fs from 'node:fs';
import { folderIds } from '../store/index.ts';

/** A change this recent may share its time with one that comes after the look: time stamps stand still for a tick. */
const RECENT_MS = 2000n;

/** A folder as it is now. */
export type Look = {
  /** Tells it from another of the same name. */
  id: string;
  mtime: bigint;
  /** Its time cannot tell whether something came in after this look. */
  recent: boolean;
};

/**
 * Looks at a folder: undefined where there is none; links are not followed. Throws what lstat throws otherwise. `used`: a folder of this
 * file system that was changed after it was made.
 */
export function looks(used: string): (path: string) => Look | undefined {
  const idOf = folderIds(used);
  return (path) => {
    const stat = fs.lstatSync(path, { bigint: true, throwIfNoEntry: false });
    if (!stat?.isDirectory()) return undefined;
    const age = BigInt(Date.now()) - stat.mtimeMs;
    return {
      id: idOf(stat),
      mtime: stat.mtimeNs,
      recent: age < RECENT_MS && age > -RECENT_MS,
    };
  };
}

/** Whether something may have come in between two looks at the same folder. */
export const mayDiffer = (before: Look, now: Look): boolean => before.recent || before.mtime !== now.mtime;
