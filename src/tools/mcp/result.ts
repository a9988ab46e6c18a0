import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import type { ToolResult } from '../../engine/ports.ts';
import { errorText } from '../../protocol/errors.ts';
import { binaryKind, KIND_BYTES } from '../../protocol/file-kind.ts';
import { type ImageFile, MAX_IMAGE_BYTES } from '../../protocol/images.ts';
import { own } from '../../protocol/own.ts';
import { clip } from '../../protocol/recorded.ts';
import { bytesInWords, printable } from '../file-errors.ts';
import { openFence } from '../paths.ts';
import { replaceFile } from '../replace-file.ts';
import { safe } from './names.ts';
import type { Came } from './spoken.ts';

const MOST_PARTS = 200;
const MOST_FILES = 50;
const MARK_CHARS = 12;

const File = z.looseObject({ data: z.string(), mimeType: z.string().optional().catch(undefined) });
const Link = z.looseObject({
  uri: z.string(),
  name: z.string().optional().catch(undefined),
  mimeType: z.string().optional().catch(undefined),
});
const Part = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('text'), text: z.string() }),
  File.extend({ type: z.literal('image') }),
  File.extend({ type: z.literal('audio') }),
  Link.extend({ type: z.literal('resource_link') }),
  z.looseObject({
    type: z.literal('resource'),
    resource: Link.extend({ text: z.string().optional(), blob: z.string().optional() }),
  }),
]);
type Part = z.infer<typeof Part>;

/** File names a kind of content gets; what is not here is told by its address or is `.bin`. */
const ENDINGS: Record<string, string> = {
  'image/png': 'png',
  'image/jpeg': 'jpg',
  'image/gif': 'gif',
  'image/webp': 'webp',
  'image/svg+xml': 'svg',
  'audio/mpeg': 'mp3',
  'audio/wav': 'wav',
  'audio/ogg': 'ogg',
  'video/mp4': 'mp4',
  'application/pdf': 'pdf',
  'application/json': 'json',
  'application/zip': 'zip',
  'application/gzip': 'gz',
  'text/plain': 'txt',
  'text/html': 'html',
  'text/csv': 'csv',
  'text/markdown': 'md',
};

/**
 * What a server answered, as the model reads it. Images, sound and other files go to `work/mcp/`, named after tool and content,
 * so that the same file twice is one; the text says where each is, and images are shown.
 */
export async function resultOf(came: Came, tool: string, work: string): Promise<ToolResult> {
  const images: ImageFile[] = [];
  const save = saver(tool, work, (image) => images.push(image));
  const texts: string[] = [];
  const lines: string[] = [];
  for (const one of came.content.slice(0, MOST_PARTS)) {
    const part = Part.safeParse(one);
    if (part.success && part.data.type === 'text') texts.push(part.data.text);
    lines.push(part.success ? await inWords(part.data, save) : unknownPart(one));
  }
  if (came.content.length > MOST_PARTS) lines.push(`[${came.content.length - MOST_PARTS} more parts were left out]`);
  const { structuredContent } = came;
  if (structuredContent !== undefined && structuredContent !== null && !isTold(structuredContent, texts)) {
    lines.push(JSON.stringify(structuredContent));
  }
  const text = lines.filter((line) => line !== '').join('\n') || '(no output)';
  return { ok: came.isError !== true, text, ...(images.length > 0 && { images }) };
}

/** Servers give what they have as JSON as a text too, for clients that know no better: as it is, or as its only value. */
function isTold(value: unknown, texts: string[]): boolean {
  const [only, ...others] = typeof value === 'object' && value !== null ? Object.values(value) : [];
  if (typeof only === 'string' && others.length === 0 && only === texts.join('\n')) return true;
  return texts.some((text) => {
    try {
      return isDeepStrictEqual(JSON.parse(text), value);
    } catch {
      return false;
    }
  });
}

async function inWords(part: Part, save: Save): Promise<string> {
  switch (part.type) {
    case 'text':
      return part.text;
    case 'image':
    case 'audio':
      return `[${part.type}: ${await save(part.data, part.mimeType, '')}]`;
    case 'resource_link': {
      const named = [part.name, part.uri, part.mimeType].filter((word) => word !== undefined && word !== '');
      return `[link: ${shown(named.join(', '))}]`;
    }
    case 'resource': {
      const { uri, text, blob, mimeType } = part.resource;
      if (text !== undefined) return `[resource ${shown(uri)}]\n${text}`;
      if (blob === undefined) return `[resource ${shown(uri)}, without content]`;
      return `[resource ${shown(uri)}: ${await save(blob, mimeType, uri)}]`;
    }
    default:
      return part satisfies never;
  }
}

function unknownPart(part: unknown): string {
  const type = z.looseObject({ type: z.string() }).safeParse(part);
  return `[a part that cannot be shown: ${shown(type.success ? type.data.type : 'without a type')}]`;
}

const shown = (text: string) => clip(printable(text), 500);

/** Puts base64 into a file. Answers with its path, size and kind, or with why that failed: the rest of the result still counts. */
type Save = (data: string, mime: string | undefined, uri: string) => Promise<string>;

function saver(tool: string, work: string, shows: (image: ImageFile) => void): Save {
  let files = 0;
  return async (data, mime, uri) => {
    if (++files > MOST_FILES) return `not saved, ${MOST_FILES} files of one result are`;
    const bytes = Buffer.from(data, 'base64');
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    const mark = sha256.slice(0, MARK_CHARS);
    try {
      const fence = await openFence(work, []);
      const place = await fence.toWrite(`mcp/${safe(tool.replace(/^mcp__/, ''), 60)}_${mark}.${endingOf(mime, uri)}`);
      await replaceFile(place, bytes, fence);
      const type = binaryKind(bytes.subarray(0, KIND_BYTES))?.image;
      if (type && bytes.length <= MAX_IMAGE_BYTES) shows({ path: place.shown, type, bytes: bytes.length, sha256 });
      return `saved as work/${place.shown}, ${bytesInWords(bytes.length)}${mime ? `, ${shown(mime)}` : ''}`;
    } catch (error) {
      return `not saved, ${errorText(error)}`;
    }
  };
}

function endingOf(mime: string | undefined, uri: string): string {
  const kind = mime?.split(';')[0]?.trim().toLowerCase() ?? '';
  return own(ENDINGS, kind) ?? /\.([A-Za-z0-9]{1,8})$/.exec(uri)?.[1]?.toLowerCase() ?? 'bin';
}
