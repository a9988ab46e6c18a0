import { isUtf8 } from 'node:buffer';

/** How far into a page its own word for its encoding is looked for, as the HTML standard has it. */
const META_BYTES = 1024;

/**
 * The text of a body. In this order: its byte order mark, the header's charset, the page's own word (`<meta charset>`, an XML
 * declaration), UTF-8 where it is that, and windows-1252, as browsers do.
 */
export function textOf(bytes: Buffer, contentType: string): string {
  const said = [markOf(bytes), /charset\s*=\s*["']?([^\s"';]+)/i.exec(contentType)?.[1], inPage(bytes)];
  for (const label of said) {
    const text = label === undefined ? undefined : decoded(bytes, label);
    if (text !== undefined) return text;
  }
  return new TextDecoder(isUtf8(bytes) ? 'utf-8' : 'windows-1252').decode(bytes);
}

function markOf(bytes: Buffer): string | undefined {
  if (bytes.subarray(0, 3).equals(Buffer.from([0xef, 0xbb, 0xbf]))) return 'utf-8';
  if (bytes.subarray(0, 2).equals(Buffer.from([0xff, 0xfe]))) return 'utf-16le';
  if (bytes.subarray(0, 2).equals(Buffer.from([0xfe, 0xff]))) return 'utf-16be';
  return undefined;
}

function inPage(bytes: Buffer): string | undefined {
  const start = bytes.toString('latin1', 0, META_BYTES);
  const meta = /<meta\b[^>]*?\bcharset\s*=\s*["']?\s*([^\s"'/>;]+)/i.exec(start)?.[1];
  return meta ?? /^<\?xml\b[^>]*?\bencoding\s*=\s*["']([^"']+)/.exec(start)?.[1];
}

/** Undefined where nobody knows the label, or this Node was built without the encoding. */
function decoded(bytes: Buffer, label: string): string | undefined {
  try {
    return new TextDecoder(label).decode(bytes);
  } catch {
    return undefined;
  }
}
