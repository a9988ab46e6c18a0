import type { Recorded } from '../protocol/event.ts';
import { headAndTail } from '../protocol/recorded.ts';
import type { Blobs } from './ports.ts';

/** A text for the record: inline up to `max` code points, else as a blob with its head and tail. */
export async function cut(text: string, max: number, blobs: Blobs): Promise<Recorded> {
  // No text has more code points than UTF-16 units, so most need no counting.
  if (text.length <= max) return { text };
  const chars = [...text].length;
  if (chars <= max) return { text };
  const blob = await blobs.put(text);
  return { blob, head: headAndTail(text, max, `read_file "blob:${blob}"`), chars };
}
