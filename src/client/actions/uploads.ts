import { attachBytes } from '../../store/inbox/sender.ts';
import type { SessionPaths } from '../../store/layout/layout.ts';
import { FileTooLarge } from '../sessions/client-errors.ts';

/** As much as one upload may hold. */
export const MAX_UPLOAD_BYTES = 100 * 1024 * 1024;

/** A file in the inbox that a message can refer to. `attachment` is its entry in `attachments`. */
export type UploadedFile = { session: string; attachment: string; bytes: number };

/** Puts bytes into the inbox as a file, durably. Throws `FileTooLarge`; then nothing stays behind. */
export async function receiveUpload(
  { folder }: SessionPaths,
  name: string,
  pieces: AsyncIterable<Uint8Array>,
): Promise<Omit<UploadedFile, 'session'>> {
  let bytes = 0;
  async function* counted() {
    for await (const piece of pieces) {
      bytes += piece.length;
      if (bytes > MAX_UPLOAD_BYTES) throw new FileTooLarge(MAX_UPLOAD_BYTES);
      yield piece;
    }
  }
  return { attachment: await attachBytes(folder, name, counted()), bytes };
}
