import * as fs from 'node:fs';
import { basename, join } from 'node:path';
import { errorCode, UserError } from '../protocol/errors.ts';
import { linkInPlace, ownFolder } from './durable.ts';
import { ifThere, saying } from './errors.ts';
import type { SessionPaths } from './layout.ts';
import { freeName, safeName } from './names.ts';

const UPLOADS = 'uploads';

/** Free names under `work/` for attachments given as `.files/<name>`. Throws UserError where one cannot be taken. */
export function attachmentPlaces(paths: SessionPaths, attachments: string[]): string[] {
  const places: string[] = [];
  const uploads = join(paths.work, UPLOADS);
  for (const attachment of attachments) {
    if (sourceOf(paths, attachment)?.nlink !== 1) {
      throw new UserError(
        `The attachment ${JSON.stringify(attachment)} must be a regular file in inbox/.files/ (no link, no folder), but none ` +
          'of that name is there. Put a copy there first, then drop the message again.',
      );
    }
    const isTaken = (name: string) =>
      places.includes(`${UPLOADS}/${name}`) || ifThere(() => fs.lstatSync(join(uploads, name))) !== undefined;
    places.push(`${UPLOADS}/${freeName(safeName(basename(attachment)), isTaken)}`);
  }
  return places;
}

/**
 * Moves an attachment to its recorded place. One that is gone was moved before. A file that came to stand at the place
 * meanwhile gets a free name; it is not overwritten.
 */
export function takeAttachment(paths: SessionPaths, from: string, to: string): void {
  const found = sourceOf(paths, from);
  if (!found) return;
  const source = found.path;
  ownFolder(paths.work);
  const uploads = ownFolder(join(paths.work, UPLOADS));
  const target = join(uploads, basename(to));
  saying('move an attachment to', target, () => {
    if (!place(source, target)) {
      const isTaken = (name: string) => ifThere(() => fs.lstatSync(join(uploads, name))) !== undefined;
      fs.renameSync(target, join(uploads, freeName(basename(to), isTaken)));
      place(source, target);
    }
    fs.rmSync(source, { force: true });
  });
}

/** False where the place is taken by another file. */
function place(source: string, target: string): boolean {
  try {
    return linkInPlace(source, target) || fs.lstatSync(source).ino === ifThere(() => fs.lstatSync(target))?.ino;
  } catch (error) {
    if (errorCode(error) !== 'EXDEV') throw error;
  }
  // `work/` is on another file system. The copy gets its name when it is whole.
  if (ifThere(() => fs.lstatSync(target))) return false;
  const staged = `${target}.part`;
  fs.rmSync(staged, { force: true });
  fs.copyFileSync(source, staged, fs.constants.COPYFILE_EXCL);
  fs.renameSync(staged, target);
  return true;
}

function sourceOf(paths: SessionPaths, attachment: string): { path: string; nlink: number } | undefined {
  const name = /^\.files\/([^/\0]+)$/.exec(attachment)?.[1];
  if (name === undefined) return undefined;
  const path = join(paths.inboxFiles, name);
  try {
    const stat = fs.lstatSync(path);
    return stat.isFile() ? { path, nlink: stat.nlink } : undefined;
  } catch (error) {
    if (['ENOENT', 'ENAMETOOLONG'].includes(errorCode(error) ?? '')) return undefined;
    throw error;
  }
}
