import { readlinkSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { z } from 'zod';
import { defineTool, optional, type Tool } from '../common/define-tool.ts';
import { escapeControlChars } from '../common/tool-text.ts';
import { formatFileSize, statOrThrow, withFolder, withFolderAsync } from './safe-open.ts';
import { openWorkPaths, type ResolvedPath, type WorkPaths } from './work-paths.ts';

const DEFAULT_DEPTH = 2;
const MAX_ENTRIES = 500;
/** Entries beyond this are not even counted. */
const MAX_COUNTED = 100_000;

const ARGS = z.strictObject({
  path: optional(z.string().describe('The folder, relative to the work folder; that itself if left out.')),
  depth: optional(z.int().min(1).max(20).describe(`Levels shown; ${DEFAULT_DEPTH} if left out.`)),
});

/** `list_files`: lists a folder. */
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
      const paths = await openWorkPaths(context.work, readAlso);
      const resolved = await paths.resolveForRead(path);
      const only = entryAt(resolved, paths);
      if (only.kind !== 'folder') return { ok: true, text: entryLine(only, paths) };
      const lines: string[] = [];
      let count = 0;
      for await (const entry of walkFolder(resolved.real, paths, depth)) {
        context.signal.throwIfAborted();
        if (++count <= MAX_ENTRIES) lines.push(entryLine(entry, paths));
        if (count >= MAX_COUNTED) break;
      }
      if (count === 0) return { ok: true, text: '(the folder is empty)' };
      if (count > MAX_ENTRIES)
        lines.push(`… and ${countOmitted(count)} more; name a folder in \`path\`, or a smaller depth`);
      return { ok: true, text: lines.join('\n') };
    },
  });
}

function countOmitted(count: number): string {
  return count >= MAX_COUNTED ? `over ${MAX_COUNTED - MAX_ENTRIES}` : String(count - MAX_ENTRIES);
}

function entryAt(resolved: ResolvedPath, paths: WorkPaths): FolderEntry {
  const stat = statOrThrow(resolved, paths);
  return { real: resolved.real, kind: stat.isDirectory() ? 'folder' : stat.isFile() ? 'file' : 'other' };
}

function entryLine({ real, kind }: FolderEntry, paths: WorkPaths): string {
  const name = paths.displayName(real);
  switch (kind) {
    case 'folder':
      return `${name}/`;
    case 'link':
      return `${name} -> ${escapeControlChars(readLinkTarget(real, paths))}`;
    case 'file':
      return `${name}  ${formatFileSize(real, paths)}`;
    case 'other':
      return `${name}  (a device, a pipe or a socket)`;
    default:
      return kind satisfies never;
  }
}

function readLinkTarget(real: string, paths: WorkPaths): string {
  try {
    return withFolder(paths.folderRequest(dirname(real)), (folder) => readlinkSync(folder.at(basename(real))));
  } catch {
    return '?';
  }
}

type FolderEntry = { real: string; kind: 'file' | 'folder' | 'link' | 'other' };

/**
 * Entries of a folder and `depth` - 1 levels below it, each folder before its content, sorted by name. Links are listed
 * and never followed. A folder that is gone, unreadable or replaced counts as empty. `enter` may exclude folders.
 */
export async function* walkFolder(
  folder: string,
  paths: WorkPaths,
  depth: number,
  enter = (_: FolderEntry) => true,
): AsyncGenerator<FolderEntry> {
  if (depth < 1) return;
  const found = await withFolderAsync(paths.folderRequest(folder), (handle) =>
    readdir(handle.at('.'), { withFileTypes: true }),
  ).catch(() => []);
  found.sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const item of found) {
    const kind = item.isSymbolicLink() ? 'link' : item.isDirectory() ? 'folder' : item.isFile() ? 'file' : 'other';
    const entry: FolderEntry = { real: join(folder, item.name), kind };
    yield entry;
    if (kind === 'folder' && enter(entry)) yield* walkFolder(entry.real, paths, depth - 1, enter);
  }
}
