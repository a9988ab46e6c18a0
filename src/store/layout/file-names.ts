import { randomInt } from 'node:crypto';

const MAX_NAME_BYTES = 180;
const UNSHOWABLE = /[\p{Cc}\p{Zl}\p{Zp}\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffd]/gu;

/** Names that are never messages: hidden files, and what editors and downloads leave half-made. */
export function isIgnoredName(raw: Buffer): boolean {
  return /^\.|^#.*#$|(?:~|\.tmp|\.part|\.swp|\.crdownload)$/is.test(raw.toString('latin1'));
}

/** A name with `.msg.` in it promises that its file came in whole. */
export const isCompleteByName = (raw: Buffer) => raw.includes('.msg.');

export const isJsonName = (name: string) => /\.json$/i.test(name);

/** A file's name as text fit to be shown: line breaks, control characters and what is not UTF-8 become `_`. */
export const displayName = (raw: Buffer) => raw.toString().replace(UNSHOWABLE, '_');

/** A shown name fit to be a part of a path: one plain name of at most 180 bytes that keeps its extension. */
export function safeName(shown: string): string {
  const plain = shown.replaceAll('/', '_').replace(/^(?=[-.])|^$/, '_');
  const [stem, extension] = splitName(plain);
  return truncateToBytes(stem, MAX_NAME_BYTES - Buffer.byteLength(extension)) + extension;
}

/** `x.png`, `x-2.png`, `x-3.png`, …: the first that is not taken. */
export function freeName(name: string, isTaken: (name: string) => boolean): string {
  const [stem, extension] = splitName(name);
  for (let n = 1; ; n++) {
    // Many of one name are a flood; chance finds room there faster than counting.
    const suffix = n === 1 ? '' : `-${n <= 50 ? n : randomInt(2 ** 40)}`;
    if (!isTaken(stem + suffix + extension)) return stem + suffix + extension;
  }
}

/** `x.earlier.md`: what a reply is called that lay under the name of another one. */
export function supersededName(name: string): string {
  const [stem, extension] = splitName(name);
  return `${truncateToBytes(stem, MAX_NAME_BYTES - Buffer.byteLength(extension))}.earlier${extension}`;
}

/**
 * Where a name stands in the inbox: time in ns, from a ULID at the beginning of a `.msg.` name, else the file's own.
 */
export function inboxOrderOf(raw: Buffer, mtimeNs: bigint): bigint {
  const ulid = isCompleteByName(raw) && /^[0-7][0-9A-HJKMNP-TV-Z]{25}(?=\.)/i.exec(raw.toString('latin1'))?.[0];
  return ulid ? ulidTime(ulid.slice(0, 10)) * 1_000_000n : mtimeNs;
}

/** A bug where it throws: names of replies are made from names that were checked. */
export function assertReplyName(name: string): void {
  const isPlain = name !== '' && !name.startsWith('.') && !/[/\0]/.test(name) && Buffer.byteLength(name) <= 255;
  if (!isPlain) throw new Error(`Not a valid reply name: ${JSON.stringify(name)}`);
}

const ulidTime = (text: string) =>
  [...text.toUpperCase()].reduce((sum, c) => sum * 32n + BigInt('0123456789ABCDEFGHJKMNPQRSTVWXYZ'.indexOf(c)), 0n);

function splitName(name: string): [string, string] {
  const extension = /(?<=.)(?:\.msg)?\.[A-Za-z0-9]{1,12}$/.exec(name)?.[0] ?? '';
  return [name.slice(0, name.length - extension.length), extension];
}

function truncateToBytes(text: string, max: number): string {
  let [bytes, kept] = [0, ''];
  for (const char of text) {
    bytes += Buffer.byteLength(char);
    if (bytes > max) break;
    kept += char;
  }
  return kept;
}

/** The session at the top of a family: `demo` of `demo~step_1~step_2`. */
export const rootSessionOf = (name: string): string => name.split('~', 1)[0] ?? name;

/** The session this one works for; undefined where it is nobody's child. */
export function parentSessionOf(name: string): string | undefined {
  const at = name.lastIndexOf('~');
  return at > 0 ? name.slice(0, at) : undefined;
}

/** The session whose settings, `work/` and memory this one goes by: the root of its family, as long as that exists. */
export function familyRootOf(name: string, exists: (session: string) => boolean): string {
  const root = rootSessionOf(name);
  return root !== '' && (root === name || exists(root)) ? root : name;
}
