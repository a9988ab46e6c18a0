import * as fs from 'node:fs';
import type { Drop } from '../engine/ports.ts';
import { errorCode } from '../protocol/errors.ts';
import type { FileIdentity } from '../protocol/event.ts';
import { sha256 } from './blobs.ts';
import { ifThere } from './errors.ts';
import { type Folder, statIn } from './folder.ts';
import { EMPTY, MAX_MESSAGE_BYTES, readMessage, type Said } from './message-file.ts';
import { shownName } from './names.ts';
import { isSame, type Readiness, type Seen } from './readiness.ts';
import { TICK_MS } from './unchanged.ts';

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;

/** Raw bytes of a name: the handle of a drop must find names that are not UTF-8, too. */
export const rawOf = (handle: { readonly path: string }) => Buffer.from(handle.path, 'latin1');

/** How the files of one look are judged: the time of day before it, and whether the file system tells when a file was made. */
export type Looking = { at: number; tellsBirth: boolean };

/**
 * Reads one file of the inbox, or says why it is no message. 'gone': it is not there any more; 'pending': it changed under us.
 * Throws only where nothing can be said about the file, such as on too many open files.
 */
export function readDrop(
  inbox: Folder,
  { raw, stat }: Seen,
  readiness: Readiness,
  looking: Looking,
): Drop | 'gone' | 'pending' {
  const toDrop = (hash: string, said: Said) => dropOf({ raw, stat }, hash, said, looking);
  const refused = (why: string) => toDrop('', { ok: false, why });
  const why = shapeFault(raw, stat);
  if (why) return refused(why);
  if (readiness === 'pending') return 'pending';
  if (readiness === 'empty') return refused(EMPTY);
  try {
    const bytes = ifThere(() => readUnchanged(inbox.at(raw), stat));
    if (bytes === undefined) return 'gone';
    return bytes ? toDrop(sha256(bytes), readMessage(shownName(raw), bytes)) : 'pending';
  } catch (error) {
    // A link, a socket: it was something else when we looked.
    if (['ELOOP', 'ENXIO'].includes(errorCode(error) ?? '')) return 'pending';
    if (errorCode(error) !== 'EACCES') throw error;
    return refused('the daemon may not read it; give it read permission (chmod u+r) and drop it again');
  }
}

function dropOf({ raw, stat }: Seen, hash: string, said: Said, { at, tellsBirth }: Looking): Drop {
  const identity: FileIdentity = {
    ino: String(stat.ino),
    mtime_ns: String(stat.mtimeNs),
    sha256: hash,
    ctime_ns: String(stat.ctimeNs),
  };
  const isAged = at - Number(stat.ctimeMs) >= TICK_MS;
  const handle = { path: raw.toString('latin1'), isAged };
  return { name: shownName(raw), identity, ...(tellsBirth && { born: stat.birthtimeNs }), handle, ...said };
}

/**
 * Whether a file is still what was read, by its content: what is written within one tick of the file system's clock changes no
 * time. `moved`: it has another name by now, and a move changes ctime.
 */
export function isAsRead(folder: Folder, raw: Buffer | string, { identity, handle }: Drop, moved = false): boolean {
  const stat = statIn(folder, raw);
  if (String(stat?.ino) !== identity.ino || !stat) return false;
  const isTouched =
    String(stat.mtimeNs) !== identity.mtime_ns || !(moved || String(stat.ctimeNs) === identity.ctime_ns);
  if (identity.sha256 === '') return !stat.isFile() || String(stat.mtimeNs) === identity.mtime_ns;
  if (!isTouched && handle.isAged) return true;
  if (!stat.isFile() || stat.size > MAX_MESSAGE_BYTES) return false;
  try {
    const bytes = readUnchanged(folder.at(raw), stat);
    return bytes !== null && sha256(bytes) === identity.sha256;
  } catch (error) {
    if (['ENOENT', 'EACCES', 'ELOOP', 'ENXIO'].includes(errorCode(error) ?? '')) return false;
    throw error;
  }
}

/** What keeps a file from being read at all. */
function shapeFault(raw: Buffer, stat: fs.BigIntStats): string | undefined {
  if (!raw.equals(Buffer.from(raw.toString()))) return "the file's name is not UTF-8; rename it and drop it again";
  if (stat.isSymbolicLink()) return 'a symbolic link: links are not followed; drop the file itself';
  if (stat.isDirectory()) return 'a folder: only files are messages; drop its files one by one';
  if (!stat.isFile()) return 'not a regular file but a pipe, socket or device; drop a file';
  if (stat.nlink > 1n) return 'a hard link: the file has another name elsewhere; drop a copy (cp)';
  if (stat.size > MAX_MESSAGE_BYTES) {
    return `too large: ${stat.size} bytes, wanted at most ${MAX_MESSAGE_BYTES}; send it as an attachment`;
  }
  return undefined;
}

/** The whole content; null where it is not what lstat saw, before or after the reading. */
export function readUnchanged(path: Buffer, seen: fs.BigIntStats): Buffer | null {
  const fd = fs.openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  try {
    if (!isSame(seen, fs.fstatSync(fd, { bigint: true }))) return null;
    const bytes = Buffer.alloc(Number(seen.size));
    let done = 0;
    for (let read = -1; read !== 0 && done < bytes.length; done += read) {
      read = fs.readSync(fd, bytes, done, bytes.length - done, null);
    }
    return done === bytes.length && isSame(seen, fs.fstatSync(fd, { bigint: true })) ? bytes : null;
  } finally {
    fs.closeSync(fd);
  }
}
