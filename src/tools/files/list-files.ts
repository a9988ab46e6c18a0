import { readlinkSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';
import { z } from 'zod';
import { startDeadline } from '../../base/async.ts';
import { escapeControlChars } from '../../base/strings.ts';
import { attempt, UserError } from '../../base/user-error.ts';
import type { ToolContext } from '../../engine/ports/tool-ports.ts';
import { MAX_INLINE_CHARS } from '../../protocol/session/log-entry.ts';
import {
  chunk,
  MAX_ITEMS_PER_PART,
  MAX_PARTS,
  PARTS_TOOL,
  PartsArgs,
  type PartsPage,
  partSize,
} from '../../protocol/tool-calls/own-tools.ts';
import { parseToolArgs } from '../../protocol/tool-calls/tool-args.ts';
import { defineTool, optional, type Tool } from '../common/define-tool.ts';
import { globToRegExp, openPatternThread } from './pattern-thread.ts';
import { formatFileSize, statOrThrow, withFolder, withFolderAsync, withOpenFile } from './safe-open.ts';
import { openWorkPaths, type ResolvedPath, type WorkPaths } from './work-paths.ts';

const DEFAULT_DEPTH = 2;
const MAX_ENTRIES = 500;
/** Entries beyond this are not even counted. */
const MAX_COUNTED = 100_000;

const ARGS = z.strictObject({
  path: optional(z.string().describe('By default the work folder.')),
  depth: optional(z.int().min(1).max(20).describe(`Levels, by default ${DEFAULT_DEPTH}.`)),
});

/** `list_files`: lists a folder. */
export function listFilesTool(readAlso: string[]): Tool {
  return defineTool({
    name: 'list_files',
    description: 'Lists a folder with sizes.',
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
  return attempt(() => withFolder(paths, dirname(real), (folder) => readlinkSync(folder.at(basename(real))))) ?? '?';
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
  const found = await withFolderAsync(paths, folder, (handle) =>
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

const MAX_FILE_BYTES = 8 * 1024 * 1024;
const MATCH_MS = 10_000;
/** A page is stored whole in the event log, with room for the text around the items. */
const PAGE_CHARACTERS = MAX_INLINE_CHARS - 1000;

/**
 * `parts`: a page of the items of a step with `each`, as a `PartsPage` in JSON. Hidden: the engine calls it. Files that
 * appear or disappear between two pages may or may not be listed, but nothing is listed twice and nothing that stays is
 * missed.
 */
export function listPartsTool(readAlso: string[]): Tool {
  const tool = defineTool({
    name: PARTS_TOOL,
    description: 'Lists the parts of a step.',
    args: PartsArgs,
    replay: 'safe',
    touches: [],
    subject: ({ folder, file }) => file ?? folder ?? '.',
    kind: 'path',
    hidden: true,
    async run(args, context) {
      const { all, leftOut } = await findParts(args, readAlso, context);
      const group = args.group ?? partSize(all.length);
      if (group === undefined) throw tooManyParts(args, all.length);
      const { after } = args;
      const rest = after === undefined ? all.slice(args.from) : all.filter((path) => path > after);
      const { parts, more } = takePage(chunk(rest, group));
      const listing: PartsPage = { total: all.length, left_out: leftOut, group, parts, more };
      return { ok: true, text: JSON.stringify(listing) };
    },
  });
  // Subject to the rules of the tool that would do the same.
  return {
    ...tool,
    describeCall: (text) => ({
      ...tool.describeCall(text),
      ...(parseToolArgs(PARTS_TOOL, PartsArgs, text).file === undefined
        ? { tool: 'list_files' }
        : { tool: 'read_file', access: 'read' as const }),
    }),
  };
}

type FoundParts = { all: string[]; leftOut: number };

async function findParts(args: PartsArgs, readAlso: string[], context: ToolContext): Promise<FoundParts> {
  if (args.file !== undefined) return { all: await linesIn(args.file, readAlso, context), leftOut: 0 };
  if (args.folder === undefined) throw new UserError('Expected `folder` or `file`, got neither.');
  return filesIn(args.folder, args.match, readAlso, context);
}

async function linesIn(path: string, readAlso: string[], { work }: ToolContext): Promise<string[]> {
  const paths = await openWorkPaths(work, readAlso);
  return withOpenFile(await paths.resolveForRead(path), paths, async (file) => {
    if (file.size > MAX_FILE_BYTES)
      throw new UserError(`\`${path}\` has ${file.size} bytes; a list may have at most ${MAX_FILE_BYTES}.`);
    const lines = (await file.whole()).toString('utf8').split(/\r?\n/);
    return lines.map((line) => line.trim()).filter(Boolean);
  });
}

/** Paths of the files in and below a folder, sorted by code units; relative to the work folder if inside it. */
async function filesIn(
  folder: string,
  match: string | undefined,
  readAlso: string[],
  context: ToolContext,
): Promise<FoundParts> {
  const paths = await openWorkPaths(context.work, readAlso);
  const [home, resolved] = [await paths.resolveForRead('.'), await paths.resolveForRead(folder)];
  if (!statOrThrow({ ...resolved, displayName: folder }, paths).isDirectory())
    throw new UserError(`\`${folder}\` is not a folder. For a part per line of it, use \`file\`.`);
  const isHidden = (real: string) => basename(real).startsWith('.');
  const files: string[] = [];
  let leftOut = 0;
  for await (const { real, kind } of walkFolder(
    resolved.real,
    paths,
    Number.POSITIVE_INFINITY,
    (entry) => !isHidden(entry.real),
  )) {
    context.signal.throwIfAborted();
    if (kind === 'file' && !isHidden(real)) files.push(real);
    else if (kind !== 'folder' || isHidden(real)) leftOut += 1;
  }
  const chosen = await filterByGlob(files, resolved.real, match, context.signal);
  const named = chosen.map((real) => (paths.isWritable(real) ? relative(home.real, real) : real));
  return { all: named.sort((a, b) => (a < b ? -1 : 1)), leftOut };
}

async function filterByGlob(
  files: string[],
  folder: string,
  match: string | undefined,
  signal: AbortSignal,
): Promise<string[]> {
  if (match === undefined) return files;
  const limit = startDeadline(signal, MATCH_MS);
  const thread = openPatternThread(limit.signal);
  try {
    const hits = await thread.matches(
      globToRegExp(match),
      files.map((real) => relative(folder, real)),
    );
    return hits.flatMap(({ at }) => files[at] ?? []);
  } catch (error) {
    throw limit.hasPassed() ? new UserError(`\`match\` ${match} takes too long to match; use fewer stars.`) : error;
  } finally {
    limit.clear();
    await thread.close();
  }
}

/** As many items as fit, at least one. */
function takePage(groups: string[][]): { parts: string[][]; more: boolean } {
  const parts: string[][] = [];
  let size = 0;
  for (const group of groups) {
    size += [...JSON.stringify(group)].length + 1;
    if (size > PAGE_CHARACTERS) {
      if (parts.length === 0) throw new UserError(`The paths of a part are too long: ${size} characters together.`);
      return { parts, more: true };
    }
    parts.push(group);
  }
  return { parts, more: false };
}

function tooManyParts({ folder, file }: PartsArgs, total: number): UserError {
  const what = folder === undefined ? `\`${file}\` has ${total} lines` : `\`${folder}\` has ${total} files`;
  return new UserError(
    `${what}; ${MAX_PARTS * MAX_ITEMS_PER_PART} are the most: ${MAX_PARTS} parts of up to ${MAX_ITEMS_PER_PART}. Nothing was begun. Do it for one sub-folder after the other, or put fewer things into the list.`,
  );
}
