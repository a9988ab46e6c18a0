import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { basename, join } from 'node:path';
import { errorCode, UserError } from '../protocol/errors.ts';
import { binaryKind, KIND_BYTES } from '../protocol/file-kind.ts';
import { type Attached, MAX_IMAGE_BYTES } from '../protocol/images.ts';
import { linkInPlace, stagingName } from './durable.ts';
import { ifThere, saying } from './errors.ts';
import { type Folder, inFolder, statIn } from './folder.ts';
import type { SessionPaths } from './layout.ts';
import { freeName, safeName } from './names.ts';

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;
const UPLOADS = 'uploads';

const inUploads = <T>(paths: SessionPaths, job: (uploads: Folder) => T): T =>
  inFolder(
    paths.folder,
    [
      { path: paths.work, make: true },
      { path: join(paths.work, UPLOADS), make: true },
    ],
    job,
  );

/** Through the inbox that is there, where a sender puts attachments. */
const inFiles = <T>(paths: SessionPaths, job: (files: Folder) => T): T =>
  inFolder(paths.folder, [{ path: paths.inbox }, { path: paths.inboxFiles, make: true }], job);

/** Free names under `work/` for attachments given as `.files/<name>`, and what they are. Throws UserError where one cannot be taken. */
export function attachmentPlaces(paths: SessionPaths, attachments: string[]): Attached[] {
  if (attachments.length === 0) return [];
  const places = new Set<string>();
  const facts = inFiles(paths, (files) =>
    attachments.map((attachment) => {
      const source = sourceOf(files, attachment);
      if (source?.stat.nlink !== 1n) throw notThere(attachment);
      return factsOf(files, source) ?? fail(attachment);
    }),
  );
  inUploads(paths, (uploads) => {
    for (const attachment of attachments) {
      const isTaken = (name: string) => places.has(`${UPLOADS}/${name}`) || statIn(uploads, name) !== undefined;
      places.add(`${UPLOADS}/${freeName(safeName(basename(attachment)), isTaken)}`);
    }
  });
  return [...places].flatMap((path, n) => {
    const fact = facts[n];
    return fact ? [{ path, ...fact }] : [];
  });
}

/** What a file is by its first bytes, and the hash of an image that can be shown; undefined where it was swapped meanwhile. */
function factsOf(files: Folder, { name, stat }: Source): Omit<Attached, 'path'> | undefined {
  const fd = fs.openSync(files.at(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  try {
    const opened = fs.fstatSync(fd, { bigint: true });
    if (opened.ino !== stat.ino || !opened.isFile()) return undefined;
    const bytes = Number(opened.size);
    const start = Buffer.alloc(Math.min(bytes, KIND_BYTES));
    const known = binaryKind(start.subarray(0, fs.readSync(fd, start, 0, start.length, 0)));
    const kind = known?.kind ?? 'text';
    if (!known?.image || bytes > MAX_IMAGE_BYTES) return { bytes, kind };
    const sha256 = createHash('sha256').update(fs.readFileSync(fd)).digest('hex');
    return { bytes, kind, image: { type: known.image, sha256 } };
  } finally {
    fs.closeSync(fd);
  }
}

function fail(attachment: string): never {
  throw notThere(attachment);
}

const notThere = (attachment: string) =>
  new UserError(
    `The attachment ${JSON.stringify(attachment)} must be a regular file in inbox/.files/ (no link, no folder), but none ` +
      'of that name is there. Put a copy there first, then drop the message again.',
  );

/**
 * Moves an attachment to its recorded place. One that is gone was moved before. A file that came to stand at the place
 * meanwhile gets a free name; it is not overwritten.
 */
export function takeAttachment(paths: SessionPaths, from: string, to: string): void {
  inFiles(paths, (files) => {
    const found = sourceOf(files, from);
    if (!found) return;
    const name = basename(to);
    saying('move an attachment to', join(paths.work, to), () =>
      inUploads(paths, (uploads) => {
        // A second name elsewhere would let the agent write to a file that is not in the session.
        if (found.stat.nlink > 1n && statIn(uploads, name)?.ino !== found.stat.ino) return;
        if (!place(files, found, uploads, name)) {
          const isTaken = (other: string) => statIn(uploads, other) !== undefined;
          fs.renameSync(uploads.at(name), uploads.at(freeName(name, isTaken)));
          place(files, found, uploads, name);
        }
        if (statIn(files, found.name)?.ino === found.stat.ino) fs.rmSync(files.at(found.name), { force: true });
      }),
    );
  });
}

type Source = { name: string; stat: fs.BigIntStats };

/** False where the place is taken by another file. */
function place(files: Folder, { name, stat }: Source, uploads: Folder, to: string): boolean {
  try {
    if (!linkInPlace(files.at(name), uploads.at(to))) return statIn(uploads, to)?.ino === stat.ino;
    // Swapped between the look and the link: what we linked is not what was offered.
    if (statIn(uploads, to)?.ino !== stat.ino) fs.rmSync(uploads.at(to), { force: true });
    return true;
  } catch (error) {
    if (errorCode(error) !== 'EXDEV' && !String(error).includes('EXDEV')) throw error;
  }
  if (statIn(uploads, to)) return false;
  copy(files, { name, stat }, uploads, to);
  return true;
}

/** For a `work/` on another file system. The copy gets its name when it is whole. */
function copy(files: Folder, { name, stat }: Source, uploads: Folder, to: string): void {
  const fd = fs.openSync(files.at(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  try {
    if (fs.fstatSync(fd, { bigint: true }).ino !== stat.ino) return;
    const door = `/proc/self/fd/${fd}`;
    const staged = uploads.at(stagingName());
    fs.copyFileSync(fs.existsSync(door) ? door : files.at(name), staged, fs.constants.COPYFILE_EXCL);
    fs.renameSync(staged, uploads.at(to));
  } finally {
    fs.closeSync(fd);
  }
}

function sourceOf(files: Folder, attachment: string): Source | undefined {
  const name = /^\.files\/([^/\0]+)$/.exec(attachment)?.[1];
  if (name === undefined) return undefined;
  try {
    const stat = ifThere(() => fs.lstatSync(files.at(name), { bigint: true }));
    return stat?.isFile() ? { name, stat } : undefined;
  } catch (error) {
    if (errorCode(error) === 'ENAMETOOLONG') return undefined;
    throw error;
  }
}
