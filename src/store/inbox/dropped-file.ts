import * as fs from 'node:fs';
import { parseJsonOrWhy } from '../../base/json.ts';
import { sha256 } from '../../base/sha256.ts';
import { errorCode } from '../../base/user-error.ts';
import type { DroppedFile } from '../../engine/ports/store-ports.ts';
import type { FileIdentity } from '../../protocol/session/log-entry.ts';
import { MessageFile } from '../../protocol/session/message.ts';
import { firstBadUtf8Byte, TIMESTAMP_TICK_MS, withOpenFile } from '../fs/file-reads.ts';
import { type OpenFolder, statInFolder } from '../fs/open-folder.ts';
import { ifExists } from '../fs/store-errors.ts';
import { displayName, isJsonName } from '../layout/layout.ts';
import { describeSchemaErrors } from '../settings/schema-errors.ts';
import { isSameContent, type Readiness, type SeenFile } from './inbox-listing.ts';

/** The raw bytes of a name, since names may be invalid UTF-8. */
export const rawNameOf = (handle: { readonly path: string }) => Buffer.from(handle.path, 'latin1');

/** The context of one read of the inbox: the time of day before it, and whether the file system reports birth times. */
export type ReadContext = { at: number; hasBirthTimes: boolean };

/**
 * Reads one file of the inbox, or returns why it is not a message. 'gone': it no longer exists; 'pending': it changed
 * while being read. Throws only if nothing can be determined, such as with too many open files.
 */
export function readDroppedFile(
  inbox: OpenFolder,
  { raw, stat }: SeenFile,
  readiness: Readiness,
  context: ReadContext,
): DroppedFile | 'gone' | 'pending' {
  const toDrop = (hash: string, parsed: ParsedMessage) => toDroppedFile({ raw, stat }, hash, parsed, context);
  const refused = (why: string) => toDrop('', { ok: false, why });
  const why = describeBadFile(raw, stat);
  if (why) return refused(why);
  // A large file that is still being written is refused once, when it is complete.
  if (readiness === 'pending') return 'pending';
  if (stat.size > MAX_MESSAGE_BYTES)
    return refused(`too large: ${stat.size} bytes, at most ${MAX_MESSAGE_BYTES} allowed; send it as an attachment`);
  if (readiness === 'empty') return refused(EMPTY_FILE);
  try {
    const bytes = ifExists(() => readIfUnchanged(inbox.bytePath(raw), stat));
    if (bytes === undefined) return 'gone';
    return bytes ? toDrop(sha256(bytes), parseMessage(displayName(raw), bytes)) : 'pending';
  } catch (error) {
    // A link or a socket now; it was something else when listed.
    if (['ELOOP', 'ENXIO'].includes(errorCode(error) ?? '')) return 'pending';
    if (errorCode(error) !== 'EACCES') throw error;
    return refused('the daemon cannot read it; grant read permission (chmod u+r) and drop it again');
  }
}

function toDroppedFile(
  { raw, stat }: SeenFile,
  hash: string,
  parsed: ParsedMessage,
  { at, hasBirthTimes }: ReadContext,
): DroppedFile {
  const identity: FileIdentity = {
    ino: String(stat.ino),
    mtime_ns: String(stat.mtimeNs),
    sha256: hash,
    ctime_ns: String(stat.ctimeNs),
  };
  const isAged = at - Number(stat.ctimeMs) >= TIMESTAMP_TICK_MS;
  const handle = { path: raw.toString('latin1'), isAged };
  return { name: displayName(raw), identity, ...(hasBirthTimes && { born: stat.birthtimeNs }), handle, ...parsed };
}

/**
 * Whether a file is still what was read. Compares contents, since a write within one tick of the file system's clock
 * changes no timestamp. `moved`: it was renamed, which changes ctime.
 */
export function isUnchangedSinceRead(
  folder: OpenFolder,
  raw: Buffer | string,
  { identity, handle }: DroppedFile,
  moved = false,
): boolean {
  const stat = statInFolder(folder, raw);
  if (String(stat?.ino) !== identity.ino || !stat) return false;
  const isTouched =
    String(stat.mtimeNs) !== identity.mtime_ns || !(moved || String(stat.ctimeNs) === identity.ctime_ns);
  if (identity.sha256 === '') return !stat.isFile() || String(stat.mtimeNs) === identity.mtime_ns;
  if (!isTouched && handle.isAged) return true;
  if (!stat.isFile() || stat.size > MAX_MESSAGE_BYTES) return false;
  try {
    const bytes = readIfUnchanged(folder.bytePath(raw), stat);
    return bytes !== null && sha256(bytes) === identity.sha256;
  } catch (error) {
    if (['ENOENT', 'EACCES', 'ELOOP', 'ENXIO'].includes(errorCode(error) ?? '')) return false;
    throw error;
  }
}

/** Why a file cannot be read at all. */
function describeBadFile(raw: Buffer, stat: fs.BigIntStats): string | undefined {
  if (!raw.equals(Buffer.from(raw.toString()))) return "the file's name is not UTF-8; rename it and drop it again";
  if (stat.isSymbolicLink()) return 'a symbolic link: links are not followed; drop the file itself';
  if (stat.isDirectory()) return 'a folder: only files are messages; drop its files one by one';
  if (!stat.isFile()) return 'not a regular file but a pipe, socket or device; drop a file';
  if (stat.nlink > 1n) return 'a hard link: the file has another name elsewhere; drop a copy (cp)';
  return undefined;
}

/** The whole content; null if the file differs from the lstat before or after reading. */
export function readIfUnchanged(path: Buffer, seen: fs.BigIntStats): Buffer | null {
  return withOpenFile(path, (fd) => {
    if (!isSameContent(seen, fs.fstatSync(fd, { bigint: true }))) return null;
    const bytes = Buffer.alloc(Number(seen.size));
    let done = 0;
    for (let read = -1; read !== 0 && done < bytes.length; done += read) {
      read = fs.readSync(fd, bytes, done, bytes.length - done, null);
    }
    return done === bytes.length && isSameContent(seen, fs.fstatSync(fd, { bigint: true })) ? bytes : null;
  });
}

export const MAX_MESSAGE_BYTES = 10 * 1024 * 1024;

/** The content of a dropped file, or why it is not a message: what was expected, what was found. */
type ParsedMessage = { ok: true; message: MessageFile; json: boolean } | { ok: false; why: string };

const EMPTY_FILE = 'the file is empty; write the message into it';

/** Parses a dropped file. A text is kept as typed, except for a leading byte order mark. */
export function parseMessage(name: string, bytes: Buffer): ParsedMessage {
  if (/^(?:fffe|feff)/.test(bytes.toString('hex', 0, 2)))
    return invalidMessage('UTF-16 text, by its first two bytes; save it as UTF-8');
  const bad = firstBadUtf8Byte(bytes);
  if (bad !== undefined)
    return invalidMessage(
      `not UTF-8 text: byte ${bad} cannot be read; save it as UTF-8, or send a file that is no text with a message that names it in "attachments" (agentctl send --file)`,
    );
  const nul = bytes.indexOf(0);
  if (nul >= 0)
    return invalidMessage(
      `not text: byte ${nul} is a NUL; send it with a message that names it in "attachments" (agentctl send --file)`,
    );
  const text = bytes.toString().replace(/^\uFEFF/, '');
  if (text.trim() === '') return invalidMessage(EMPTY_FILE);
  if (!isJsonName(name)) return { ok: true, message: { text }, json: false };
  return parseJsonMessage(text);
}

function parseJsonMessage(text: string): ParsedMessage {
  try {
    const parsed = parseJsonOrWhy(text);
    return parsed.ok ? validateMessage(parsed.value) : invalidMessage(`not JSON: ${parsed.why}`);
  } catch (error) {
    // JSON that is nested thousands of levels deep overflows the stack.
    if (!(error instanceof RangeError)) throw error;
    return invalidMessage('JSON that is nested too deeply; a message is one object of a few keys');
  }
}

function validateMessage(value: unknown): ParsedMessage {
  const result = MessageFile.safeParse(value);
  if (result.success) return { ok: true, message: result.data, json: true };
  return invalidMessage(
    describeSchemaErrors(result.error.issues, value, MessageFile)
      .map((complaint) => complaint.text)
      .join('; '),
  );
}

const invalidMessage = (why: string): ParsedMessage => ({ ok: false, why });
