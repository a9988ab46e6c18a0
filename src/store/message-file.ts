import { isUtf8 } from 'node:buffer';
import { MessageFile } from '../protocol/message.ts';
import { complaints, parseJson } from './complaints.ts';
import { isJsonName } from './names.ts';

export const MAX_MESSAGE_BYTES = 10 * 1024 * 1024;

/** What a dropped file says, or why it is no message: what was wanted, what came. */
export type Said = { ok: true; message: MessageFile; json: boolean } | { ok: false; why: string };

export const EMPTY = 'the file is empty; write the message into it';

/** Understands the bytes of a dropped file. A text is kept as typed, but for a byte order mark at its beginning. */
export function readMessage(name: string, bytes: Buffer): Said {
  const bad = badUtf8(bytes);
  if (bad !== undefined) return refused(`not UTF-8 text: byte ${bad} cannot be read; save it as UTF-8`);
  const nul = bytes.indexOf(0);
  if (nul >= 0) return refused(`not a text: byte ${nul} is a NUL; send it as an attachment instead`);
  const text = bytes.toString().replace(/^\uFEFF/, '');
  if (text.trim() === '') return refused(EMPTY);
  if (!isJsonName(name)) return { ok: true, message: { text }, json: false };
  return readJsonMessage(text);
}

function readJsonMessage(text: string): Said {
  try {
    const parsed = parseJson(text);
    return parsed.ok ? checked(parsed.value) : refused(`not JSON: ${parsed.why}`);
  } catch (error) {
    // What is nested some thousand deep cannot even be shown.
    if (!(error instanceof RangeError)) throw error;
    return refused('JSON that is nested too deeply; a message is one object of a few keys');
  }
}

function checked(value: unknown): Said {
  const result = MessageFile.safeParse(value);
  if (result.success) return { ok: true, message: result.data, json: true };
  return refused(
    complaints(result.error.issues, value, MessageFile)
      .map((complaint) => complaint.text)
      .join('; '),
  );
}

const refused = (why: string): Said => ({ ok: false, why });

/** Offset of the first byte that begins no UTF-8 character; undefined where all is well. */
function badUtf8(bytes: Buffer): number | undefined {
  if (isUtf8(bytes)) return undefined;
  let at = 0;
  // By large pieces first: one character at a time, 10 MiB take a second.
  for (let end = pieceEnd(bytes, at); end > at && isUtf8(bytes.subarray(at, end)); end = pieceEnd(bytes, at)) at = end;
  for (;;) {
    const first = bytes[at] ?? 0;
    const length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (at + length > bytes.length || !isUtf8(bytes.subarray(at, at + length))) return at;
    at += length;
  }
}

/** The end of a piece of about 4 KiB that does not cut a character in two. */
function pieceEnd(bytes: Buffer, from: number): number {
  let end = Math.min(from + 4096, bytes.length);
  for (let back = 0; back < 3 && ((bytes[end] ?? 0) & 0xc0) === 0x80; back++) end--;
  return end;
}
