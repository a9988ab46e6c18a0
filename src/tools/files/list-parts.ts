import { basename, relative } from 'node:path';
import { UserError } from '../../base/user-error.ts';
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
import { startDeadline } from '../common/call-deadline.ts';
import { defineTool, type Tool } from '../common/define-tool.ts';
import { parseToolArgs } from '../common/tool-args.ts';
import { walkFolder } from './list-files.ts';
import { globToRegExp, openPatternThread } from './pattern-thread.ts';
import { statOrThrow, withOpenFile } from './safe-open.ts';
import { openWorkPaths } from './work-paths.ts';

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
  if (args.folder === undefined) throw new UserError('Wanted `folder` or `file`, came neither.');
  return filesIn(args.folder, args.match, readAlso, context);
}

async function linesIn(path: string, readAlso: string[], { work }: ToolContext): Promise<string[]> {
  const paths = await openWorkPaths(work, readAlso);
  return withOpenFile(await paths.resolveForRead(path), paths, async (file) => {
    if (file.size > MAX_FILE_BYTES)
      throw new UserError(`\`${path}\` has ${file.size} bytes; ${MAX_FILE_BYTES} are the most for a list.`);
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
    return hits.flatMap((index) => files[index] ?? []);
  } catch (error) {
    throw limit.hasPassed() ? new UserError(`\`match\` ${match} takes too long to try; use fewer stars.`) : error;
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
