import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { inFolderLong } from './held-folder.ts';
import type { Fence } from './paths.ts';

export type Entry = { real: string; kind: 'file' | 'folder' | 'link' | 'other' };

/**
 * What is in a folder and `depth` - 1 levels below it, each folder before its content, sorted by name. Links are entries
 * and never followed. A folder that is gone, closed or not where it was has no content. `enter` may keep it out of one.
 */
export async function* walk(
  folder: string,
  fence: Fence,
  depth: number,
  enter = (_: Entry) => true,
): AsyncGenerator<Entry> {
  if (depth < 1) return;
  const found = await inFolderLong(fence.way(folder), (held) => readdir(held.at('.'), { withFileTypes: true })).catch(
    () => [],
  );
  found.sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const item of found) {
    const kind = item.isSymbolicLink() ? 'link' : item.isDirectory() ? 'folder' : item.isFile() ? 'file' : 'other';
    const entry: Entry = { real: join(folder, item.name), kind };
    yield entry;
    if (kind === 'folder' && enter(entry)) yield* walk(entry.real, fence, depth - 1, enter);
  }
}
