import * as fs from 'node:fs';
import type { Drop } from '../engine/ports.ts';
import { errorCode } from '../protocol/errors.ts';
import type { FileIdentity } from '../protocol/event.ts';
import { sha256 } from './blobs.ts';
import { ifThere } from './errors.ts';
import type { Folder } from './folder.ts';
import { EMPTY, MAX_MESSAGE_BYTES, readMessage, type Said } from './message-file.ts';
import { shownName } from './names.ts';
import { isSame, type Readiness, type Seen } from './readiness.ts';

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;

/** Raw bytes of a name as text and back: the handle of a drop must find names that are not UTF-8, too. */
const handleOf = (raw: Buffer) => ({ path: raw.toString('latin1') });
export const rawOf = (handle: { readonly path: string }) => Buffer.from(handle.path, 'latin1');

/**
 * Reads one file of the inbox, or says why it is no message. 'gone': it is not there any more; 'pending': it changed under us.
 * Throws only where nothing can be said about the file, such as on too many open files.
 */
export function readDrop(inbox: Folder, { raw, stat }: Seen, readiness: Readiness): Drop | 'gone' | 'pending' {
  const refused = (why: string) => toDrop(raw, stat, '', { ok: false, why });
  const why = shapeFault(raw, stat);
  if (why) return refused(why);
  if (readiness === 'pending') return 'pending';
  if (readiness === 'empty') return refused(EMPTY);
  try {
    const bytes = ifThere(() => readUnchanged(inbox.at(raw), stat));
    if (bytes === undefined) return 'gone';
    return bytes ? toDrop(raw, stat, sha256(bytes), readMessage(shownName(raw), bytes)) : 'pending';
  } catch (error) {
    // A link, a socket: it was something else when we looked.
    if (['ELOOP', 'ENXIO'].includes(errorCode(error) ?? '')) return 'pending';
    if (errorCode(error) !== 'EACCES') throw error;
    return refused('the daemon may not read it; give it read permission (chmod u+r) and drop it again');
  }
}

function toDrop(raw: Buffer, stat: fs.BigIntStats, hash: string, said: Said): Drop {
  const identity: FileIdentity = { ino: String(stat.ino), mtime_ns: String(stat.mtimeNs), sha256: hash };
  return { name: shownName(raw), identity, handle: handleOf(raw), ...said };
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
