/** What begins a file of a kind; `at` is where, 0 if not said. From the formats' own specifications. */
const KINDS: Array<{ kind: string; magic: string; at?: number }> = [
  { kind: 'a PNG image', magic: '\x89PNG\r\n\x1a\n' },
  { kind: 'a JPEG image', magic: '\xff\xd8\xff' },
  { kind: 'a GIF image', magic: 'GIF8' },
  { kind: 'a WebP image', magic: 'WEBP', at: 8 },
  { kind: 'a PDF document', magic: '%PDF-' },
  { kind: 'a zip archive (or an office document, or a jar)', magic: 'PK\x03\x04' },
  { kind: 'a gzip archive', magic: '\x1f\x8b' },
  { kind: 'an xz archive', magic: '\xfd7zXZ\0' },
  { kind: 'a zstd archive', magic: '\x28\xb5\x2f\xfd' },
  { kind: 'a tar archive', magic: 'ustar', at: 257 },
  { kind: 'an SQLite database', magic: 'SQLite format 3\0' },
  { kind: 'a program (ELF)', magic: '\x7fELF' },
  { kind: 'a program (Mach-O)', magic: '\xcf\xfa\xed\xfe' },
  { kind: 'UTF-16 text (iconv -f UTF-16 -t UTF-8 makes it readable)', magic: '\xff\xfe' },
  { kind: 'UTF-16 text (iconv -f UTF-16 -t UTF-8 makes it readable)', magic: '\xfe\xff' },
];

/** How much of a file's beginning `binaryKind` wants to see, in bytes. */
export const KIND_BYTES = 8192;

/** What kind of binary file begins like this; undefined for text, in whatever one-byte encoding or UTF-8. */
export function binaryKind(start: Buffer): string | undefined {
  const known = KINDS.find(({ magic, at = 0 }) => start.toString('latin1', at, at + magic.length) === magic);
  if (known) return known.kind;
  return start.includes(0) ? 'of an unknown type' : undefined;
}

/** The text of the bytes; undefined where they are not UTF-8. A byte order mark is kept. */
export function utf8(bytes: Buffer): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
