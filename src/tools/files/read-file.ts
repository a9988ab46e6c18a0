import { z } from 'zod';
import { detectFileKind, type ImageType, SNIFF_BYTES } from '../../base/file-kind.ts';
import { sha256 } from '../../base/sha256.ts';
import { formatBytes } from '../../base/strings.ts';
import { UserError } from '../../base/user-error.ts';
import type { ToolContext, ToolResult } from '../../engine/ports/tool-ports.ts';
import { MAX_INLINE_CHARS } from '../../protocol/session/log-entry.ts';
import { MAX_IMAGE_BYTES } from '../../protocol/session/message.ts';
import { chunk } from '../../protocol/tool-calls/own-tools.ts';
import { defineTool, optional, type Tool } from '../common/define-tool.ts';
import { type OpenFile, withOpenFile } from './safe-open.ts';
import { openWorkPaths, type ResolvedPath, type WorkPaths } from './work-paths.ts';

const MAX_LINES = 2000;
/** A page with its header is never truncated again before the model sees it. */
const MAX_CHARACTERS = MAX_INLINE_CHARS - 500;

const ARGS = z.strictObject({
  path: z.string().describe('Relative to the work folder.'),
  offset: optional(z.int().min(1).describe('First line, from 1.')),
  limit: optional(z.int().min(1).describe('Lines.')),
});

/**
 * `read_file`: a page of a text file, or of an output that was too long to show. `advertised`: folders its description
 * names besides `work/`.
 */
export function readFileTool(readAlso: string[], advertised = readAlso): Tool {
  return defineTool({
    name: 'read_file',
    description:
      `Reads a text file, an image, or an output named \`blob:<hash>\`: at most ${MAX_LINES} lines or ${MAX_CHARACTERS} characters at a time.` +
      (advertised.length > 0 ? ` Besides the work folder these may be read: ${advertised.join(', ')}.` : ''),
    args: ARGS,
    replay: 'safe',
    touches: [],
    subject: ({ path }) => path,
    kind: 'path',
    access: 'read',
    async run({ path, offset = 1, limit = MAX_LINES }, context) {
      const want = { first: offset, lines: Math.min(limit, MAX_LINES), characters: MAX_CHARACTERS };
      if (path.startsWith('blob:')) {
        const { text, note } = foldLongLines(await readBlob(path, context));
        return pageResult(path, await readPage([Buffer.from(text)], want), note);
      }
      const paths = await openWorkPaths(context.work, readAlso);
      const resolved = await paths.resolveForRead(path);
      return withOpenFile(resolved, paths, async (file) => {
        const kind = detectFileKind(file.start.subarray(0, SNIFF_BYTES));
        if (kind?.image) return imageResult(file, { resolved, paths, kind: kind.kind, type: kind.image });
        if (kind)
          return { ok: false, text: `\`${resolved.displayName}\` is binary: ${formatBytes(file.size)}, ${kind.kind}.` };
        return pageResult(resolved.displayName, await readPage(stopOnAbort(context.signal, file.pieces()), want));
      });
    },
  });
}

type ImageRead = { resolved: ResolvedPath; paths: WorkPaths; kind: string; type: ImageType };

/** Attaches an image to the result. It must be below `work/`, where it can be found again later. */
async function imageResult(file: OpenFile, { resolved, paths, kind, type }: ImageRead): Promise<ToolResult> {
  const { size } = file;
  const what = `\`${resolved.displayName}\` is ${kind}, ${formatBytes(size)}`;
  if (size > MAX_IMAGE_BYTES)
    return {
      ok: false,
      text: `${what}. Only images of up to ${formatBytes(MAX_IMAGE_BYTES)} are shown; make a smaller one.`,
    };
  if (!paths.isWritable(resolved.real))
    return { ok: false, text: `${what}. To look at it, copy it into the work folder and read it there.` };
  const content = await file.whole();
  const hash = sha256(content);
  const image = { path: resolved.displayName, type, bytes: content.length, sha256: hash };
  return { ok: true, text: `${what}; it is shown below, if you see images.`, images: [image] };
}

async function readBlob(path: string, context: ToolContext): Promise<string> {
  const hash = /^blob:([0-9a-f]{64})$/.exec(path)?.[1];
  if (!hash) throw new UserError(`Expected \`blob:\` and 64 hex digits, got \`${path}\`.`);
  const text = await context.blob(hash);
  if (text === undefined) throw new UserError(`This session has no output \`${path}\`.`);
  return text;
}

/**
 * A line that fills more than a page counts as several lines. Outputs in one line are common (JSON), and without this
 * `read_file`, which alone can read them, could not show their middle.
 */
function foldLongLines(text: string): { text: string; note: string } {
  const most = MAX_CHARACTERS - 1;
  const lines = text.split('\n');
  if (lines.every((line) => line.length <= most)) return { text, note: '' };
  const folded = lines.flatMap((line) =>
    line.length <= most ? [line] : chunk([...line], most).map((one) => one.join('')),
  );
  return { text: folded.join('\n'), note: `, where a line counts as several if it has more than ${most} characters` };
}

async function* stopOnAbort(signal: AbortSignal, pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  for await (const piece of pieces) {
    signal.throwIfAborted();
    yield piece;
  }
}

function pageResult(shown: string, { text, first, last, total, cut }: Page, note = ''): ToolResult {
  if (total === 0) return { ok: true, text: '(the file is empty)' };
  if (first > total) {
    return { ok: false, text: `\`${shown}\` has ${total} lines; offset ${first} is past its end.` };
  }
  if (first === 1 && last === total && !cut) return { ok: true, text };
  const more = last < total ? `; read on with offset ${last + 1}` : '';
  const long = cut ? `; line ${first} is longer than shown` : '';
  return { ok: true, text: `lines ${first}-${last} of ${total}${note}${long}${more}\n${text}` };
}

/** Lines `first` to `last` (from 1) of `total`, with their line ends. */
type Page = { text: string; first: number; last: number; total: number; cut: boolean };

const NEWLINE = 10;

/**
 * A page of a text that arrives in chunks, in memory bounded by the page size: from line `first` on, at most `lines`
 * lines and `characters` code points. Whole lines only, except that a first line longer than the page is `cut`.
 */
export async function readPage(
  pieces: AsyncIterable<Buffer> | Iterable<Buffer>,
  { first, lines, characters }: { first: number; lines: number; characters: number },
): Promise<Page> {
  // One character more than a page, at four bytes each: enough to know that the page is full.
  const most = 4 * (characters + 1);
  const taken: Buffer[] = [];
  let size = 0;
  let line = 1;
  let atLineStart = true;
  for await (const piece of pieces) {
    for (let from = 0; from < piece.length; ) {
      const newline = piece.indexOf(NEWLINE, from);
      const end = newline < 0 ? piece.length : newline + 1;
      if (line >= first && line < first + lines && size < most) {
        taken.push(piece.subarray(from, Math.min(end, from + most - size)));
        size += end - from;
      }
      atLineStart = newline >= 0;
      if (atLineStart) line++;
      from = end;
    }
  }
  const total = atLineStart ? line - 1 : line;
  return {
    ...wholeLines(Buffer.concat(taken).toString('utf8'), first, Math.min(total, first + lines - 1), characters),
    total,
  };
}

/** As many lines as fit in the page. */
function wholeLines(text: string, first: number, last: number, characters: number): Omit<Page, 'total'> {
  const points = [...text];
  if (points.length <= characters) return { text, first, last, cut: false };
  const page = points.slice(0, characters).join('');
  const whole = page.slice(0, page.lastIndexOf('\n') + 1);
  if (whole === '') return { text: page, first, last: first, cut: true };
  return { text: whole, first, last: first + whole.split('\n').length - 2, cut: false };
}
