import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { ToolContext, ToolResult } from '../engine/ports.ts';
import { UserError } from '../protocol/errors.ts';
import { binaryKind, type ImageType, KIND_BYTES } from '../protocol/file-kind.ts';
import { MAX_IMAGE_BYTES } from '../protocol/images.ts';
import { INLINE_LIMIT } from '../protocol/recorded.ts';
import { defineTool, optional, type Tool } from './define.ts';
import { bytesInWords } from './file-errors.ts';
import { type Page, pageOf } from './lines.ts';
import { type OpenFile, withFile } from './open-file.ts';
import { type Fence, openFence, type Place } from './paths.ts';

const MAX_LINES = 2000;
/** A page with its header is shown to the model whole, never cut again. */
const MAX_CHARACTERS = INLINE_LIMIT - 500;

const ARGS = z.strictObject({
  path: z.string().describe('The file, relative to the work folder.'),
  offset: optional(z.int().min(1).describe('The first line wanted, from 1.')),
  limit: optional(z.int().min(1).describe('How many lines.')),
});

/** `read_file`: a page of a text file, or of an output that was too long to show. `told`: folders it is said to read besides. */
export function readFileTool(readAlso: string[], told = readAlso): Tool {
  return defineTool({
    name: 'read_file',
    description:
      `Reads a text file, shows an image (PNG, JPEG, GIF, WebP), or reads an output named \`blob:<hash>\`. At most ${MAX_LINES} lines or ${MAX_CHARACTERS} characters ` +
      'at a time; where that is not all, a first line says which lines these are.' +
      (told.length > 0 ? ` Besides the work folder these may be read: ${told.join(', ')}.` : ''),
    args: ARGS,
    replay: 'safe',
    touches: [],
    subject: ({ path }) => path,
    kind: 'path',
    access: 'read',
    async run({ path, offset = 1, limit = MAX_LINES }, context) {
      const want = { first: offset, lines: Math.min(limit, MAX_LINES), characters: MAX_CHARACTERS };
      if (path.startsWith('blob:')) return answer(path, await pageOf([await blob(path, context)], want));
      const fence = await openFence(context.work, readAlso);
      const place = await fence.toRead(path);
      return withFile(place, fence, async (file) => {
        const kind = binaryKind(file.start.subarray(0, KIND_BYTES));
        if (kind?.image) return picture(file, { place, fence, kind: kind.kind, type: kind.image });
        if (kind) return { ok: false, text: `\`${place.shown}\` is binary: ${bytesInWords(file.size)}, ${kind.kind}.` };
        return answer(place.shown, await pageOf(heeding(context.signal, file.pieces()), want));
      });
    },
  });
}

type Picture = { place: Place; fence: Fence; kind: string; type: ImageType };

/** An image is shown behind the results, where the model sees; only one below `work/`, where it can be found again later. */
async function picture(file: OpenFile, { place, fence, kind, type }: Picture): Promise<ToolResult> {
  const { size } = file;
  const what = `\`${place.shown}\` is ${kind}, ${bytesInWords(size)}`;
  if (size > MAX_IMAGE_BYTES)
    return {
      ok: false,
      text: `${what}. Only images of up to ${bytesInWords(MAX_IMAGE_BYTES)} are shown; make a smaller one.`,
    };
  if (!fence.mayWrite(place.real))
    return { ok: false, text: `${what}. To look at it, copy it into the work folder and read it there.` };
  const content = await file.whole();
  const sha256 = createHash('sha256').update(content).digest('hex');
  const image = { path: place.shown, type, bytes: content.length, sha256 };
  return { ok: true, text: `${what}; it is shown below, if you see images.`, images: [image] };
}

async function blob(path: string, context: ToolContext): Promise<Buffer> {
  const hash = /^blob:([0-9a-f]{64})$/.exec(path)?.[1];
  if (!hash) throw new UserError(`Wanted \`blob:\` and 64 hex digits, came \`${path}\`.`);
  const text = await context.blob(hash);
  if (text === undefined) throw new UserError(`No output \`${path}\` is kept in this session.`);
  return Buffer.from(text);
}

async function* heeding(signal: AbortSignal, pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  for await (const piece of pieces) {
    signal.throwIfAborted();
    yield piece;
  }
}

function answer(shown: string, { text, first, last, total, cut }: Page): ToolResult {
  if (total === 0) return { ok: true, text: '(the file is empty)' };
  if (first > total) {
    return { ok: false, text: `\`${shown}\` has ${total} lines; offset ${first} is past its end.` };
  }
  if (first === 1 && last === total && !cut) return { ok: true, text };
  const more = last < total ? `; read on with offset ${last + 1}` : '';
  const long = cut ? `; line ${first} is longer than shown` : '';
  return { ok: true, text: `lines ${first}-${last} of ${total}${long}${more}\n${text}` };
}
