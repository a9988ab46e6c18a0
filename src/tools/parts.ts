import { basename, relative } from 'node:path';
import type { ToolContext } from '../engine/ports.ts';
import { UserError } from '../protocol/errors.ts';
import { grouped, groupSize, type Listing, MOST_IN_ONE, MOST_PARTS, PARTS, PartsArgs } from '../protocol/listing.ts';
import { INLINE_LIMIT } from '../protocol/recorded.ts';
import { readArgs } from './args.ts';
import { deadline } from './deadline.ts';
import { defineTool, type Tool } from './define.ts';
import { globPattern } from './glob.ts';
import { lookAt, withFile } from './open-file.ts';
import { openFence } from './paths.ts';
import { patternThread } from './pattern-thread.ts';
import { walk } from './walk.ts';

const FILE_BYTES = 8 * 1024 * 1024;
const MATCH_MS = 10_000;
/** A page is kept whole in the record, with room for what stands around the parts. */
const PAGE_CHARACTERS = INLINE_LIMIT - 1000;

/**
 * `parts`: a page of what a step with `each` is done for, as a `Listing` in JSON. Hidden: the engine calls it. What comes or goes in
 * the folder between two pages is found or not, but nothing is listed twice and nothing that stays is missed.
 */
export function partsTool(readAlso: string[]): Tool {
  const tool = defineTool({
    name: PARTS,
    description: 'Lists the parts of a step.',
    args: PartsArgs,
    replay: 'safe',
    touches: [],
    subject: ({ folder, file }) => file ?? folder ?? '.',
    kind: 'path',
    hidden: true,
    async run(args, context) {
      const { all, leftOut } = await everything(args, readAlso, context);
      const group = args.group ?? groupSize(all.length);
      if (group === undefined) throw tooMany(args, all.length);
      const { after } = args;
      const rest = after === undefined ? all.slice(args.from) : all.filter((path) => path > after);
      const { parts, more } = page(grouped(rest, group));
      const listing: Listing = { total: all.length, left_out: leftOut, group, parts, more };
      return { ok: true, text: JSON.stringify(listing) };
    },
  });
  // It is held to the rules of the tool that would do the same.
  return {
    ...tool,
    tell: (text) => ({
      ...tool.tell(text),
      ...(readArgs(PARTS, PartsArgs, text).file === undefined
        ? { tool: 'list_files' }
        : { tool: 'read_file', access: 'read' as const }),
    }),
  };
}

type Found = { all: string[]; leftOut: number };

async function everything(args: PartsArgs, readAlso: string[], context: ToolContext): Promise<Found> {
  if (args.file !== undefined) return { all: await linesOf(args.file, readAlso, context), leftOut: 0 };
  if (args.folder === undefined) throw new UserError('Wanted `folder` or `file`, came neither.');
  return filesIn(args.folder, args.match, readAlso, context);
}

async function linesOf(path: string, readAlso: string[], { work }: ToolContext): Promise<string[]> {
  const fence = await openFence(work, readAlso);
  return withFile(await fence.toRead(path), fence, async (file) => {
    if (file.size > FILE_BYTES)
      throw new UserError(`\`${path}\` has ${file.size} bytes; ${FILE_BYTES} are the most for a list.`);
    const lines = (await file.whole()).toString('utf8').split(/\r?\n/);
    return lines.map((line) => line.trim()).filter(Boolean);
  });
}

/** Paths of the files in and below a folder, sorted by their code units; relative to the work folder where they are in it. */
async function filesIn(
  folder: string,
  match: string | undefined,
  readAlso: string[],
  context: ToolContext,
): Promise<Found> {
  const fence = await openFence(context.work, readAlso);
  const [home, place] = [await fence.toRead('.'), await fence.toRead(folder)];
  if (!lookAt({ ...place, shown: folder }, fence).isDirectory())
    throw new UserError(`\`${folder}\` is not a folder. For a part per line of it, use \`file\`.`);
  const isHidden = (real: string) => basename(real).startsWith('.');
  const files: string[] = [];
  let leftOut = 0;
  for await (const { real, kind } of walk(
    place.real,
    fence,
    Number.POSITIVE_INFINITY,
    (entry) => !isHidden(entry.real),
  )) {
    context.signal.throwIfAborted();
    if (kind === 'file' && !isHidden(real)) files.push(real);
    else if (kind !== 'folder' || isHidden(real)) leftOut += 1;
  }
  const chosen = await matching(files, place.real, match, context.signal);
  const named = chosen.map((real) => (fence.mayWrite(real) ? relative(home.real, real) : real));
  return { all: named.sort((a, b) => (a < b ? -1 : 1)), leftOut };
}

async function matching(
  files: string[],
  folder: string,
  match: string | undefined,
  signal: AbortSignal,
): Promise<string[]> {
  if (match === undefined) return files;
  const limit = deadline(signal, MATCH_MS);
  const thread = patternThread(limit.signal);
  try {
    const hits = await thread.matches(
      globPattern(match),
      files.map((real) => relative(folder, real)),
    );
    return hits.flatMap((index) => files[index] ?? []);
  } catch (error) {
    throw limit.passed() ? new UserError(`\`match\` ${match} takes too long to try; use fewer stars.`) : error;
  } finally {
    limit.clear();
    await thread.close();
  }
}

/** As many parts as fit, at least one. */
function page(groups: string[][]): { parts: string[][]; more: boolean } {
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

function tooMany({ folder, file }: PartsArgs, total: number): UserError {
  const what = folder === undefined ? `\`${file}\` has ${total} lines` : `\`${folder}\` has ${total} files`;
  return new UserError(
    `${what}; ${MOST_PARTS * MOST_IN_ONE} are the most: ${MOST_PARTS} parts of up to ${MOST_IN_ONE}. Nothing was begun. Do it for one sub-folder after the other, or put fewer things into the list.`,
  );
}
