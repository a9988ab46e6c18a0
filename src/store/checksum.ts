import { crc32 } from 'node:zlib';

/** Bytes of `,"crc":"xxxxxxxx"}`, the end of every line. */
const END = 18;

/** A value as one line of JSON that ends with the crc32 of the bytes before `,"crc"`, and a line feed. */
export function withCrc(value: object): string {
  const head = JSON.stringify(value).slice(0, -1);
  return `${head},"crc":"${checksum(head)}"}\n`;
}

/** What `withCrc` was given, without its crc; undefined where a byte of it changed. The line feed is not part of `bytes`. */
export function checked(bytes: Buffer): { value: unknown } | undefined {
  const head = headOf(bytes);
  if (crcOf(bytes) !== checksum(head)) return undefined;
  return { value: JSON.parse(`${head.toString()}}`) };
}

/** The crc a line ends with; undefined where it does not end with one. */
export function crcOf(bytes: Buffer): string | undefined {
  return /^,"crc":"([0-9a-f]{8})"\}$/.exec(bytes.toString('latin1', Math.max(0, bytes.length - END)))?.[1];
}

/** What the crc of a line is made of. */
export const headOf = (bytes: Buffer): Buffer => bytes.subarray(0, Math.max(0, bytes.length - END));

/** Of a text: of its UTF-8 bytes. */
export const checksum = (bytes: Buffer | string): string => crc32(bytes).toString(16).padStart(8, '0');
