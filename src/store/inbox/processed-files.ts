import * as fs from 'node:fs';
import { basename, join } from 'node:path';
import { detectFileKind, SNIFF_BYTES } from '../../base/file-kind.ts';
import { sha256 } from '../../base/sha256.ts';
import { errorCode, UserError } from '../../base/user-error.ts';
import type { DroppedFile } from '../../engine/ports/store-ports.ts';
import { type Attachment, MAX_IMAGE_BYTES, type RejectionReason } from '../../protocol/session/message.ts';
import { linkIfFree, stagingName } from '../fs/durable-write.ts';
import { withOpenFile } from '../fs/file-reads.ts';
import { type OpenFolder, statInFolder, withFolder } from '../fs/open-folder.ts';
import { ifExists, wrapDiskErrors } from '../fs/store-errors.ts';
import { freeName, type SessionPaths, safeName } from '../layout/layout.ts';
import { isUnchangedSinceRead, rawNameOf } from './dropped-file.ts';

/** How many files that cannot be moved out of the inbox are remembered. */
const MAX_IMMOVABLE = 10_000;
/** Errors of a file that may not be moved or is a mount point. */
const IMMOVABLE_CODES = ['EACCES', 'EPERM', 'EBUSY', 'EXDEV'];

const immovableKeyOf = (ino: string, mtimeNs: string) => `${ino}:${mtimeNs}`;

/** Moves processed files out of the inbox. */
export function openProcessedFiles(paths: SessionPaths, now: () => Date) {
  const immovable = new Set<string>();

  /** False if the file has to stay. */
  function move(from: Buffer, to: Buffer, shown: string, { identity }: DroppedFile): boolean {
    try {
      ifExists(() => fs.renameSync(from, to));
      return true;
    } catch (error) {
      if (!IMMOVABLE_CODES.includes(errorCode(error) ?? ''))
        return wrapDiskErrors('move a message to', shown, () => {
          throw error;
        });
      const [oldest] = immovable;
      if (immovable.size >= MAX_IMMOVABLE && oldest !== undefined) immovable.delete(oldest);
      immovable.add(immovableKeyOf(identity.ino, identity.mtime_ns));
      return false;
    }
  }

  return {
    isLeft: (stat: fs.BigIntStats) => immovable.has(immovableKeyOf(String(stat.ino), String(stat.mtimeNs))),

    moveToDone(inbox: OpenFolder, drop: DroppedFile, seq: number): void {
      const raw = rawNameOf(drop.handle);
      // Written to since it was read: the new content stays in the inbox and becomes a separate message.
      if (!isUnchangedSinceRead(inbox, raw, drop)) return;
      withFolder(paths.folder, [{ path: paths.done, make: true }], (done) => {
        const name = freeNameIn(done, `${seq}-${safeName(drop.name)}`);
        if (!move(inbox.bytePath(raw), done.bytePath(name), `${paths.done}/${name}`, drop)) return;
        // Since the check, somebody may have renamed a new message onto the name or written to this one. If so, it goes
        // back under a free name.
        if (statInFolder(done, name) && !isUnchangedSinceRead(done, name, drop, true)) {
          fs.renameSync(done.bytePath(name), inbox.bytePath(freeNameIn(inbox, safeName(drop.name))));
        }
      });
    },

    moveToRejected(inbox: OpenFolder, drop: DroppedFile, why: string): void {
      const raw = rawNameOf(drop.handle);
      if (!isUnchangedSinceRead(inbox, raw, drop)) return;
      withFolder(paths.folder, [{ path: paths.rejected, make: true }], (rejected) => {
        const isTaken = (name: string) => name.endsWith('.why.json') || statInFolder(rejected, name) !== undefined;
        const name = freeName(safeName(drop.name), isTaken);
        const reason: RejectionReason = { name: drop.name, why, at: now().toISOString() };
        const staged = stagingName();
        // The reason is written first: after a crash in between, the file is still in the inbox and is found again.
        wrapDiskErrors('refuse a message into', `${paths.rejected}/${name}`, () => {
          fs.writeFileSync(rejected.bytePath(staged), `${JSON.stringify(reason, null, 2)}\n`, {
            flag: 'wx',
            mode: 0o600,
          });
          fs.renameSync(rejected.bytePath(staged), rejected.bytePath(`${name}.why.json`));
        });
        const isAway = move(inbox.bytePath(raw), rejected.bytePath(name), `${paths.rejected}/${name}`, drop);
        // The reply has given the reason. Without its file, it would be reported again after each restart.
        if (!isAway) fs.rmSync(rejected.bytePath(`${name}.why.json`), { force: true });
      });
    },
  };
}

const freeNameIn = (folder: OpenFolder, name: string) =>
  freeName(name, (one) => statInFolder(folder, one) !== undefined);

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

/** Runs `job` in `inbox/.files/`, where senders put attachments. */
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
    return { bytes, kind, image: { type: known.image, sha256: sha256(fs.readFileSync(fd)) } };
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
