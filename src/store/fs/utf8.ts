import { isUtf8 } from 'node:buffer';

/** Offset of the first byte that is not valid UTF-8; undefined if all of it is. */
export function firstBadUtf8Byte(bytes: Buffer): number | undefined {
  if (isUtf8(bytes)) return undefined;
  let at = 0;
  // Skips large valid chunks first: character by character, 10 MiB take a second.
  for (let end = chunkEnd(bytes, at); end > at && isUtf8(bytes.subarray(at, end)); end = chunkEnd(bytes, at)) at = end;
  for (;;) {
    const first = bytes[at] ?? 0;
    const length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (at + length > bytes.length || !isUtf8(bytes.subarray(at, at + length))) return at;
    at += length;
  }
}

/** The end of a chunk of about 4 KiB that does not split a character. */
function chunkEnd(bytes: Buffer, from: number): number {
  let end = Math.min(from + 4096, bytes.length);
  for (let back = 0; back < 3 && ((bytes[end] ?? 0) & 0xc0) === 0x80; back++) end--;
  return end;
}

/** A byte that is not UTF-8 in a text: a lone surrogate, U+DC00 plus the byte, which no UTF-8 text holds. */
const escapeByte = (char: string): string => String.fromCharCode(0xdc00 + char.charCodeAt(0));

/**
 * Bytes as text without losing any: from the first byte on that is not UTF-8, each one above ASCII becomes a lone
 * surrogate, which readers recognize.
 */
export function decodeLossless(bytes: Buffer): string {
  const bad = firstBadUtf8Byte(bytes);
  if (bad === undefined) return bytes.toString();
  const rest = bytes
    .subarray(bad)
    .toString('latin1')
    .replace(/[\x80-\xff]/g, escapeByte);
  return bytes.subarray(0, bad).toString() + rest;
}
