import { IMAGE_TYPES } from '../../base/file-kind.ts';
import { sha256 } from '../../base/sha256.ts';

/** An image that came in a message, under a name made from its bytes: the same image always has the same. */
export type DataImage = { name: string; bytes: Buffer };

const ENDINGS: Record<(typeof IMAGE_TYPES)[number], string> = {
  'image/png': 'png',
  'image/jpeg': 'jpg',
  'image/gif': 'gif',
  'image/webp': 'webp',
};
const DATA_URL = /^data:([a-z]+\/[\w.+-]+);base64,([A-Za-z0-9+/]+={0,2})$/i;

/** What an image may be given as, for who is told that it was not. */
export const IMAGE_WANTED = `an image as a data: URL in base64 (${IMAGE_TYPES.join(', ')})`;

/** The image of a `data:` URL; undefined where it is none that models are given. Nothing is ever fetched. */
export function readDataImage(url: string): DataImage | undefined {
  const [, given = '', base64 = ''] = DATA_URL.exec(url) ?? [];
  const type = IMAGE_TYPES.find((one) => one === given.toLowerCase());
  return (
    type && { name: `image-${sha256(base64).slice(0, 12)}.${ENDINGS[type]}`, bytes: Buffer.from(base64, 'base64') }
  );
}
