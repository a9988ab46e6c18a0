/** Image formats that models accept. */
export const IMAGE_TYPES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'] as const;
export type ImageType = (typeof IMAGE_TYPES)[number];

/** The kind of a file, in words; `image`: its type, if models accept it. */
export type FileKind = { kind: string; image?: ImageType };

type MagicNumber = FileKind & { magic: string; at?: number };

/**
 * The bytes that identify a kind of file; `at` is their offset, 0 if left out. From the formats' own specifications.
 */
const MAGIC_NUMBERS: MagicNumber[] = [
  { kind: 'a PNG image', magic: '\x89PNG\r\n\x1a\n', image: 'image/png' },
  { kind: 'a JPEG image', magic: '\xff\xd8\xff', image: 'image/jpeg' },
  { kind: 'a GIF image', magic: 'GIF87a', image: 'image/gif' },
  { kind: 'a GIF image', magic: 'GIF89a', image: 'image/gif' },
  { kind: 'a WebP image', magic: 'WEBP', at: 8, image: 'image/webp' },
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

/** How many bytes of a file's beginning `detectFileKind` needs. */
export const SNIFF_BYTES = 8192;

/** The kind of a binary file that starts like this; undefined for text, in any one-byte encoding or UTF-8. */
export function detectFileKind(start: Uint8Array): FileKind | undefined {
  const known = MAGIC_NUMBERS.find(({ magic, at = 0 }) => {
    for (let n = 0; n < magic.length; n++) if (start[at + n] !== magic.charCodeAt(n)) return false;
    return true;
  });
  if (known) return { kind: known.kind, ...(known.image && { image: known.image }) };
  return start.includes(0) ? { kind: 'of an unknown type' } : undefined;
}
