import { readlinkSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { z } from 'zod';
import { defineTool, optional, type Tool } from './define.ts';
import { printable } from './file-errors.ts';
import { inFolder } from './held-folder.ts';
import { lookAt, sizeOf } from './open-file.ts';
import { type Fence, openFence, type Place } from './paths.ts';
import { type Entry, walk } from './walk.ts';

const DEFAULT_DEPTH = 2;
const MAX_ENTRIES = 500;
/** Entries beyond this are not even counted. */
const MAX_COUNTED = 100_000;

const ARGS = z.strictObject({
  path: optional(z.string().describe('The folder, relative to the work folder; that itself if left out.')),
  depth: optional(z.int().min(1).max(20).describe(`Levels shown; ${DEFAULT_DEPTH} if left out.`)),
});

/** `list_files`: what is in a folder. */
export function listFilesTool(readAlso: string[]): Tool {
  return defineTool({
    name: 'list_files',
    description: 'Lists a folder with sizes. Folders end in `/`, links are shown as `name -> target` and not followed.',
    args: ARGS,
    replay: 'safe',
    touches: [],
    subject: ({ path = '.' }) => path,
    kind: 'path',
    async run({ path = '.', depth = DEFAULT_DEPTH }, context) {
      const fence = await openFence(context.work, readAlso);
      const place = await fence.toRead(path);
      const only = entryAt(place, fence);
      if (only.kind !== 'folder') return { ok: true, text: lineOf(only, fence) };
      const lines: string[] = [];
      let count = 0;
      for await (const entry of walk(place.real, fence, depth)) {
        context.signal.throwIfAborted();
        if (++count <= MAX_ENTRIES) lines.push(lineOf(entry, fence));
        if (count >= MAX_COUNTED) break;
      }
      if (count === 0) return { ok: true, text: '(the folder is empty)' };
      if (count > MAX_ENTRIES) lines.push(`… and ${left(count)} more; name a folder in \`path\`, or a smaller depth`);
      return { ok: true, text: lines.join('\n') };
    },
  });
}

function left(count: number): string {
  return count >= MAX_COUNTED ? `over ${MAX_COUNTED - MAX_ENTRIES}` : String(count - MAX_ENTRIES);
}

function entryAt(place: Place, fence: Fence): Entry {
  const stat = lookAt(place, fence);
  return { real: place.real, kind: stat.isDirectory() ? 'folder' : stat.isFile() ? 'file' : 'other' };
}

function lineOf({ real, kind }: Entry, fence: Fence): string {
  const name = fence.shown(real);
  switch (kind) {
    case 'folder':
      return `${name}/`;
    case 'link':
      return `${name} -> ${printable(targetOf(real, fence))}`;
    case 'file':
      return `${name}  ${sizeOf(real, fence)}`;
    case 'other':
      return `${name}  (a device, a pipe or a socket)`;
    default:
      return kind satisfies never;
  }
}

function targetOf(real: string, fence: Fence): string {
  try {
    return inFolder(fence.way(dirname(real)), (folder) => readlinkSync(folder.at(basename(real))));
  } catch {
    return '?';
  }
}
