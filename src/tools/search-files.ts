import { basename } from 'node:path';
import { z } from 'zod';
import type { ToolContext, ToolResult } from '../engine/ports.ts';
import { UserError } from '../protocol/errors.ts';
import { binaryKind, KIND_BYTES } from '../protocol/file-kind.ts';
import { clip } from '../protocol/recorded.ts';
import { deadline } from './deadline.ts';
import { defineTool, optional, type Tool } from './define.ts';
import { globPattern } from './glob.ts';
import { withFile } from './open-file.ts';
import { type Fence, openFence } from './paths.ts';
import { compile } from './pattern.ts';
import { type PatternThread, patternThread } from './pattern-thread.ts';
import { filesToSearch } from './search-walk.ts';

const MAX_HITS = 200;
const MAX_LINE = 200;
const MAX_BYTES = 2 * 1024 * 1024;
const MAX_MS = 10_000;

/** What a search has come to so far, told also where it is stopped. */
type Findings = { hits: string[]; files: number; skipped: string[]; inFile: string };

const ARGS = z.strictObject({
  pattern: z.string().min(1).describe('The regular expression, without slashes around it.'),
  path: optional(z.string().describe('A folder or a file; the work folder if left out.')),
  glob: optional(
    z
      .string()
      .min(1)
      .describe('Only files whose name, or path from the work folder, fits, such as *.ts or src/**/*.md.'),
  ),
});

/** `search_files`: lines that match a regular expression. */
export function searchFilesTool(readAlso: string[], maxMs = MAX_MS): Tool {
  return defineTool({
    name: 'search_files',
    description:
      'Finds lines that match a JavaScript regular expression (case counts), as `path:line: text`. ' +
      '.git and node_modules are left out unless `path` names them.',
    args: ARGS,
    replay: 'safe',
    touches: [],
    subject: ({ path = '.' }) => path,
    kind: 'path',
    access: 'read',
    run: ({ pattern, path = '.', glob }, context) =>
      search(
        { pattern: compile(pattern, 'The pattern'), path, glob: glob === undefined ? undefined : globPattern(glob) },
        readAlso,
        {
          ...context,
          maxMs,
        },
      ),
  });
}

type Wanted = { pattern: RegExp; path: string; glob: RegExp | undefined };

async function search(
  wanted: Wanted,
  readAlso: string[],
  context: ToolContext & { maxMs: number },
): Promise<ToolResult> {
  const fence = await openFence(context.work, readAlso);
  const place = await fence.toRead(wanted.path);
  const found: Findings = { hits: [], files: 0, skipped: [], inFile: '' };
  const limit = deadline(context.signal, context.maxMs);
  const thread = patternThread(limit.signal);
  // The call was permitted for the folder it names; each file in it is held to the rules by its own path.
  const mayRead = (real: string) =>
    (context.permits?.(JSON.stringify({ pattern: '.', path: real })) ?? { is: 'allow' }).is === 'allow';
  try {
    for await (const files of filesToSearch(place, fence, limit.signal)) {
      const chosen = wanted.glob ? await thread.matches(wanted.glob, files.map(fence.shown)) : files.keys();
      for (const index of chosen) {
        const real = files[index];
        if (real !== undefined) await searchFile(real, wanted.pattern, { fence, thread, found, mayRead });
        if (found.hits.length > MAX_HITS) return report(found);
      }
    }
    return report(found);
  } catch (error) {
    if (!limit.passed()) throw error;
    return stopped(found, context.maxMs);
  } finally {
    limit.clear();
    await thread.close();
  }
}

type Searching = { fence: Fence; thread: PatternThread; found: Findings; mayRead(real: string): boolean };

async function searchFile(real: string, pattern: RegExp, { fence, thread, found, mayRead }: Searching): Promise<void> {
  const shown = fence.shown(real);
  found.inFile = shown;
  const text = mayRead(real) ? await readText(real, fence) : { why: 'a rule of the settings holds it back' };
  if (typeof text !== 'string') {
    found.skipped.push(`${shown} (${text.why})`);
    return;
  }
  found.files++;
  const lines = text.split(/\r?\n/);
  if (lines.at(-1) === '') lines.pop();
  for (const index of await thread.matches(pattern, lines, MAX_HITS + 1 - found.hits.length)) {
    found.hits.push(`${shown}:${index + 1}: ${clip(lines[index] ?? '', MAX_LINE)}`);
  }
}

async function readText(real: string, fence: Fence): Promise<string | { why: string }> {
  const read = withFile({ real, shown: basename(real) }, fence, async (file) => {
    if (file.size > MAX_BYTES) return { why: 'over 2 MiB' };
    const bytes = await file.whole();
    return binaryKind(bytes.subarray(0, KIND_BYTES)) ? { why: 'binary' } : bytes.toString('utf8');
  });
  return read.catch((error) => {
    if (error instanceof UserError) return { why: 'cannot be read' };
    throw error;
  });
}

function report(found: Findings): ToolResult {
  const lines = found.hits.slice(0, MAX_HITS);
  if (found.hits.length > MAX_HITS) lines.push(`[stopped at ${MAX_HITS} hits; narrow it with path or glob]`);
  if (lines.length === 0) lines.push(`no hits in ${found.files} ${found.files === 1 ? 'file' : 'files'}`);
  return { ok: true, text: [...lines, ...skippedNote(found)].join('\n') };
}

function stopped(found: Findings, ms: number): ToolResult {
  const note =
    `[stopped after ${ms / 1000} s, in ${found.inFile}: not everything was searched. ` +
    'Narrow it with path or glob; a repeat inside a repeat, as in (a+)+, can take for ever]';
  return { ok: false, text: [...found.hits.slice(0, MAX_HITS), ...skippedNote(found), note].join('\n') };
}

function skippedNote({ skipped }: Findings): string[] {
  if (skipped.length === 0) return [];
  const more = skipped.length > 5 ? ` and ${skipped.length - 5} more` : '';
  return [`[not searched: ${skipped.slice(0, 5).join(', ')}${more}]`];
}
