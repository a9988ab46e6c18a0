import * as fs from 'node:fs';
import { basename, join } from 'node:path';
import { detectFileKind, SNIFF_BYTES } from '../../base/file-kind.ts';
import { errorCode, UserError } from '../../base/user-error.ts';
import { type Attachment, MAX_IMAGE_BYTES } from '../../protocol/session/message.ts';
import { linkIfFree, stagingName } from '../fs/durable-write.ts';
import { sha256Hex, withOpenFile } from '../fs/file-reads.ts';
import { type OpenFolder, statInFolder, withFolder } from '../fs/open-folder.ts';
import { ifExists, wrapDiskErrors } from '../fs/store-errors.ts';
import type { SessionPaths } from '../layout/layout.ts';
import { freeName, safeName } from '../layout/layout.ts';

const UPLOADS_FOLDER = 'uploads';

const withUploads = <T>(paths: SessionPaths, job: (uploads: OpenFolder) => T): T =>
  withFolder(
    paths.folder,
    [
      { path: paths.work, make: true },
      { path: join(paths.work, UPLOADS_FOLDER), make: true },
    ],
    job,
  );

/** Uses the current inbox's folder where senders put attachments. */
const withInboxFiles = <T>(paths: SessionPaths, job: (files: OpenFolder) => T): T =>
  withFolder(paths.folder, [{ path: paths.inbox }, { path: paths.inboxFiles, make: true }], job);

/**
 * Free names under `work/` for attachments given as `.files/<name>`, and their types. Throws UserError if one cannot be
 * accepted.
 */
export function placeAttachments(paths: SessionPaths, attachments: string[]): Attachment[] {
  if (attachments.length === 0) return [];
  const places = new Set<string>();
  const facts = withInboxFiles(paths, (files) =>
    attachments.map((attachment) => {
      const source = findAttachment(files, attachment);
      if (source?.stat.nlink !== 1n) throw missingAttachment(attachment);
      return inspectAttachment(files, source) ?? failMissing(attachment);
    }),
  );
  withUploads(paths, (uploads) => {
    for (const attachment of attachments) {
      const isTaken = (name: string) =>
        places.has(`${UPLOADS_FOLDER}/${name}`) || statInFolder(uploads, name) !== undefined;
      places.add(`${UPLOADS_FOLDER}/${freeName(safeName(basename(attachment)), isTaken)}`);
    }
  });
  return [...places].flatMap((path, n) => {
    const fact = facts[n];
    return fact ? [{ path, ...fact }] : [];
  });
}

/**
 * The type of a file by its first bytes, and the hash of an image that can be shown; undefined if it was swapped
 * meanwhile.
 */
function inspectAttachment(files: OpenFolder, { name, stat }: AttachmentSource): Omit<Attachment, 'path'> | undefined {
  return withOpenFile(files.bytePath(name), (fd) => {
    const opened = fs.fstatSync(fd, { bigint: true });
    if (opened.ino !== stat.ino || !opened.isFile()) return undefined;
    const bytes = Number(opened.size);
    const start = Buffer.alloc(Math.min(bytes, SNIFF_BYTES));
    const known = detectFileKind(start.subarray(0, fs.readSync(fd, start, 0, start.length, 0)));
    const kind = known?.kind ?? 'text';
    if (!known?.image || bytes > MAX_IMAGE_BYTES) return { bytes, kind };
    return { bytes, kind, image: { type: known.image, sha256: sha256Hex(fs.readFileSync(fd)) } };
  });
}

function failMissing(attachment: string): never {
  throw missingAttachment(attachment);
}

const missingAttachment = (attachment: string) =>
  new UserError(
    `The attachment ${JSON.stringify(attachment)} must be a regular file in inbox/.files/ (no link, no folder), but there is no ` +
      'such file. Put a copy there first, then drop the message again.',
  );

/**
 * Moves an attachment to its recorded path. A missing one was moved before. A file that appeared at the path meanwhile
 * is renamed to a free name, not overwritten.
 */
export function moveAttachment(paths: SessionPaths, from: string, to: string): void {
  withInboxFiles(paths, (files) => {
    const found = findAttachment(files, from);
    if (!found) return;
    const name = basename(to);
    wrapDiskErrors('move an attachment to', join(paths.work, to), () =>
      withUploads(paths, (uploads) => {
        // A second hard link elsewhere would let the agent write to a file outside the session.
        if (found.stat.nlink > 1n && statInFolder(uploads, name)?.ino !== found.stat.ino) return;
        if (!linkAttachment(files, found, uploads, name)) {
          const isTaken = (other: string) => statInFolder(uploads, other) !== undefined;
          fs.renameSync(uploads.bytePath(name), uploads.bytePath(freeName(name, isTaken)));
          linkAttachment(files, found, uploads, name);
        }
        if (statInFolder(files, found.name)?.ino === found.stat.ino)
          fs.rmSync(files.bytePath(found.name), { force: true });
      }),
    );
  });
}

type AttachmentSource = { name: string; stat: fs.BigIntStats };

/** False if the path is taken by another file. */
function linkAttachment(files: OpenFolder, { name, stat }: AttachmentSource, uploads: OpenFolder, to: string): boolean {
  try {
    if (!linkIfFree(files.bytePath(name), uploads.bytePath(to))) return statInFolder(uploads, to)?.ino === stat.ino;
    // Swapped between the check and the link: what we linked is not what was offered.
    if (statInFolder(uploads, to)?.ino !== stat.ino) fs.rmSync(uploads.bytePath(to), { force: true });
    return true;
  } catch (error) {
    if (errorCode(error) !== 'EXDEV' && !String(error).includes('EXDEV')) throw error;
  }
  if (statInFolder(uploads, to)) return false;
  copyAttachment(files, { name, stat }, uploads, to);
  return true;
}

/** For a `work/` on another file system. The copy gets its name once it is complete. */
function copyAttachment(files: OpenFolder, { name, stat }: AttachmentSource, uploads: OpenFolder, to: string): void {
  withOpenFile(files.bytePath(name), (fd) => {
    if (fs.fstatSync(fd, { bigint: true }).ino !== stat.ino) return;
    const door = `/proc/self/fd/${fd}`;
    const staged = uploads.bytePath(stagingName());
    fs.copyFileSync(fs.existsSync(door) ? door : files.bytePath(name), staged, fs.constants.COPYFILE_EXCL);
    fs.renameSync(staged, uploads.bytePath(to));
  });
}

function findAttachment(files: OpenFolder, attachment: string): AttachmentSource | undefined {
  const name = /^\.files\/([^/\0]+)$/.exec(attachment)?.[1];
  if (name === undefined) return undefined;
  try {
    const stat = ifExists(() => fs.lstatSync(files.bytePath(name), { bigint: true }));
    return stat?.isFile() ? { name, stat } : undefined;
  } catch (error) {
    if (errorCode(error) === 'ENAMETOOLONG') return undefined;
    throw error;
  }
}
