import { basename } from 'node:path';
import { z } from 'zod';
import { startDeadline } from '../../base/async.ts';
import { detectFileKind, SNIFF_BYTES } from '../../base/file-kind.ts';
import { truncate } from '../../base/strings.ts';
import { UserError } from '../../base/user-error.ts';
import type { ToolContext, ToolResult } from '../../engine/ports/tool-ports.ts';
import { defineTool, optional, type Tool } from '../common/define-tool.ts';
import { walkFolder } from './list-files.ts';
import { compilePattern, globToRegExp, openPatternThread, type PatternThread } from './pattern-thread.ts';
import { statOrThrow, withOpenFile } from './safe-open.ts';
import { openWorkPaths, type ResolvedPath, type WorkPaths } from './work-paths.ts';

const MAX_HITS = 200;
const MAX_LINE = 200;
/** How much of a long line is shown before the match. */
const MAX_BEFORE = 60;
const MAX_BYTES = 2 * 1024 * 1024;
const MAX_MS = 10_000;

/** Progress of a search, reported also when it is stopped. */
type SearchProgress = { hits: string[]; files: number; skipped: string[]; inFile: string; glob: string | undefined };

const ARGS = z.strictObject({
  pattern: z.string().min(1).describe('Without slashes around it.'),
  path: optional(z.string().describe('A folder or file, by default the work folder.')),
  glob: optional(z.string().min(1).describe('Only such files: *.ts, src/**/*.md.')),
});

/** `search_files`: lines that match a regular expression. */
export function searchFilesTool(readAlso: string[], maxMs = MAX_MS): Tool {
  return defineTool({
    name: 'search_files',
    description:
      'Lines that match a JavaScript RegExp (case counts), as `path:line: text`. .git and node_modules only if `path` names them.',
    args: ARGS,
    replay: 'safe',
    touches: [],
    subject: ({ path = '.' }) => path,
    kind: 'path',
    access: 'read',
    run: ({ pattern, path = '.', glob }, context) =>
      runSearch({ pattern: compilePattern(pattern, 'The pattern'), path, glob }, readAlso, { ...context, maxMs }),
  });
}

type SearchRequest = { pattern: RegExp; path: string; glob: string | undefined };

async function runSearch(
  wanted: SearchRequest,
  readAlso: string[],
  context: ToolContext & { maxMs: number },
): Promise<ToolResult> {
  const paths = await openWorkPaths(context.work, readAlso);
  const resolved = await paths.resolveForRead(wanted.path);
  const found: SearchProgress = { hits: [], files: 0, skipped: [], inFile: '', glob: wanted.glob };
  const glob = wanted.glob === undefined ? undefined : globToRegExp(wanted.glob);
  const limit = startDeadline(context.signal, context.maxMs);
  const thread = openPatternThread(limit.signal);
  // The call was permitted for the folder it names; each file in it is still checked against the rules by its own path.
  const mayRead = (real: string) =>
    (context.permits?.(JSON.stringify({ pattern: '.', path: real })) ?? { is: 'allow' }).is === 'allow';
  try {
    for await (const files of filesToSearch(resolved, paths, limit.signal)) {
      const chosen = glob
        ? (await thread.matches(glob, files.map(paths.displayName))).map(({ at }) => at)
        : files.keys();
      for (const index of chosen) {
        const real = files[index];
        if (real !== undefined) await searchFile(real, wanted.pattern, { paths, thread, found, mayRead });
        if (found.hits.length > MAX_HITS) return searchResult(found);
      }
    }
    return searchResult(found);
  } catch (error) {
    if (!limit.hasPassed()) throw error;
    return timedOutResult(found, context.maxMs);
  } finally {
    limit.clear();
    await thread.close();
  }
}

type Searching = { paths: WorkPaths; thread: PatternThread; found: SearchProgress; mayRead(real: string): boolean };

async function searchFile(real: string, pattern: RegExp, { paths, thread, found, mayRead }: Searching): Promise<void> {
  const shown = paths.displayName(real);
  found.inFile = shown;
  const text = mayRead(real) ? await readText(real, paths) : { why: 'a rule of the settings forbids it' };
  if (typeof text !== 'string') {
    found.skipped.push(`${shown} (${text.why})`);
    return;
  }
  found.files++;
  const lines = text.split(/\r?\n/);
  if (lines.at(-1) === '') lines.pop();
  for (const { at, start } of await thread.matches(pattern, lines, MAX_HITS + 1 - found.hits.length)) {
    found.hits.push(`${shown}:${at + 1}: ${partAround(lines[at] ?? '', start)}`);
  }
}

/** The part of a line around the match; lines of a bundle can be very long. */
function partAround(line: string, start: number): string {
  const near = line.length > MAX_LINE ? Math.max(0, start - MAX_BEFORE) : 0;
  const from = isLowSurrogate(line, near) ? near + 1 : near;
  return truncate(`${from > 0 ? '…' : ''}${line.slice(from, from + 2 * MAX_LINE)}`, MAX_LINE);
}

const isLowSurrogate = (text: string, at: number): boolean => (text.charCodeAt(at) & 0xfc00) === 0xdc00;

async function readText(real: string, paths: WorkPaths): Promise<string | { why: string }> {
  const read = withOpenFile({ real, displayName: basename(real) }, paths, async (file) => {
    if (file.size > MAX_BYTES) return { why: 'over 2 MiB' };
    const bytes = await file.whole();
    return detectFileKind(bytes.subarray(0, SNIFF_BYTES))
      ? { why: 'binary' }
      : bytes.toString('utf8').replace(/^\ufeff/, '');
  });
  return read.catch((error) => {
    if (error instanceof UserError) return { why: 'cannot be read' };
    throw error;
  });
}

function searchResult(found: SearchProgress): ToolResult {
  const lines = found.hits.slice(0, MAX_HITS);
  if (found.hits.length > MAX_HITS) lines.push(`[stopped at ${MAX_HITS} hits; narrow it with path or glob]`);
  if (lines.length === 0) lines.push(noHits(found));
  return { ok: true, text: [...lines, ...skippedNote(found)].join('\n') };
}

function noHits({ files, skipped, glob }: SearchProgress): string {
  if (glob === undefined || files + skipped.length > 0) return `no hits in ${files} ${files === 1 ? 'file' : 'files'}`;
  return (
    `no file there fits the glob \`${glob}\`. With a slash in it, it is compared with the path from the work folder, ` +
    'as in src/**/*.md; without one, with the name. It may have *, **, ? and {a,b}.'
  );
}

function timedOutResult(found: SearchProgress, ms: number): ToolResult {
  const note =
    `[stopped after ${ms / 1000} s, in ${found.inFile}: not everything was searched. ` +
    'Narrow it with path or glob; a repeat inside a repeat, as in (a+)+, can take forever]';
  return { ok: false, text: [...found.hits.slice(0, MAX_HITS), ...skippedNote(found), note].join('\n') };
}

function skippedNote({ skipped }: SearchProgress): string[] {
  if (skipped.length === 0) return [];
  const more = skipped.length > 5 ? ` and ${skipped.length - 5} more` : '';
  return [`[not searched: ${skipped.slice(0, 5).join(', ')}${more}]`];
}

/** Large folders that are skipped unless named. */
const SKIPPED_FOLDERS = new Set(['.git', 'node_modules']);
/** Files per batch. */
const BATCH_FILES = 200;

/**
 * The real paths of the files in and below a folder, or of the one file, in batches. Throws once the signal is aborted.
 */
async function* filesToSearch(resolved: ResolvedPath, paths: WorkPaths, signal: AbortSignal): AsyncGenerator<string[]> {
  const { real } = resolved;
  if (!statOrThrow(resolved, paths).isDirectory()) {
    yield [real];
    return;
  }
  let batch: string[] = [];
  for await (const entry of walkFolder(
    real,
    paths,
    Number.POSITIVE_INFINITY,
    ({ real: folder }) => !SKIPPED_FOLDERS.has(basename(folder)),
  )) {
    signal.throwIfAborted();
    if (entry.kind === 'file') batch.push(entry.real);
    if (batch.length < BATCH_FILES) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}
