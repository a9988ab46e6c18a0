import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { getOwn } from '../../base/collections.ts';
import { detectFileKind, SNIFF_BYTES } from '../../base/file-kind.ts';
import { parseJson } from '../../base/json.ts';
import { sha256 } from '../../base/sha256.ts';
import { escapeControlChars, formatBytes, truncate } from '../../base/strings.ts';
import { errorText } from '../../base/user-error.ts';
import type { ToolResult } from '../../engine/ports/tool-ports.ts';
import { type ImageFile, MAX_IMAGE_BYTES } from '../../protocol/session/message.ts';
import { openWorkPaths } from '../files/work-paths.ts';
import { writeWorkFile } from '../files/write-file.ts';

const ToolHints = z.looseObject({
  readOnlyHint: z.boolean().optional().catch(undefined),
  idempotentHint: z.boolean().optional().catch(undefined),
});

/** A tool as a server lists it. Only the name must be valid. */
export const ListedTool = z.looseObject({
  name: z.string().min(1),
  description: z.string().optional().catch(undefined),
  inputSchema: z.unknown().optional(),
  annotations: ToolHints.optional().catch(undefined),
});
export type ListedTool = z.infer<typeof ListedTool>;

/** The result of a call; its parts are validated one by one. */
export const ServerResult = z.looseObject({
  content: z.array(z.unknown()).default([]).catch([]),
  structuredContent: z.unknown().optional(),
  isError: z.boolean().optional().catch(undefined),
});
export type ServerResult = z.infer<typeof ServerResult>;

/**
 * A call without a result. `ran`: whether the server may have executed it; `refused` is the server's own answer.
 * `isLost`: this connection is no longer usable.
 */
export class CallFault extends Error {
  readonly ran: 'no' | 'maybe' | 'refused';
  readonly isLost: boolean;

  constructor(message: string, ran: CallFault['ran'], isLost = false) {
    super(message);
    this.name = 'CallFault';
    this.ran = ran;
    this.isLost = isLost;
  }
}

/** A call of a server's tool. `reply`: to what it asked before. */
export type ServerCall = {
  tool: ListedTool;
  args: Record<string, unknown>;
  reply?: { inputResponses: Record<string, object>; requestState?: string } | undefined;
};

/** A connection to a server. */
export type McpConnection = {
  /** All its tools, across all pages; invalid entries are skipped. */
  list(): Promise<ListedTool[]>;
  /** The result, or what the server wants to know first. Throws CallFault, or the signal's reason if that aborts. */
  call(call: ServerCall, signal: AbortSignal): Promise<ServerResult>;
  close(): Promise<void>;
};

const MAX_PARTS = 200;
const MAX_FILES = 50;
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

/** File extensions by content type; for others the address decides, else `.bin`. */
const FILE_EXTENSIONS: Record<string, string> = {
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
 * A server's result as the model reads it. Images, audio and other files are saved in `work/mcp/`, named after tool and
 * content, so that identical files are stored once; the text says where each is, and images are shown.
 */
export async function toToolResult(result: ServerResult, tool: string, work: string): Promise<ToolResult> {
  const images: ImageFile[] = [];
  const save = fileSaver(tool, work, (image) => images.push(image));
  const texts: string[] = [];
  const lines: string[] = [];
  for (const one of result.content.slice(0, MAX_PARTS)) {
    const part = Part.safeParse(one);
    if (part.success && part.data.type === 'text') texts.push(part.data.text);
    lines.push(part.success ? await describePart(part.data, save) : describeUnknownPart(one));
  }
  if (result.content.length > MAX_PARTS) lines.push(`[${result.content.length - MAX_PARTS} more parts were left out]`);
  const { structuredContent } = result;
  if (structuredContent !== undefined && structuredContent !== null && !isAlreadyInText(structuredContent, texts)) {
    lines.push(JSON.stringify(structuredContent));
  }
  const text = lines.filter((line) => line !== '').join('\n') || '(no output)';
  return { ok: result.isError !== true, text, ...(images.length > 0 && { images }) };
}

/** Servers repeat structured content as text for older clients: as it is, or as its only value. */
function isAlreadyInText(value: unknown, texts: string[]): boolean {
  const [only, ...others] = typeof value === 'object' && value !== null ? Object.values(value) : [];
  if (typeof only === 'string' && others.length === 0 && only === texts.join('\n')) return true;
  return texts.some((text) => isDeepStrictEqual(parseJson(text), value));
}

async function describePart(part: Part, save: SaveFile): Promise<string> {
  switch (part.type) {
    case 'text':
      return part.text;
    case 'image':
    case 'audio':
      return `[${part.type}: ${await save(part.data, part.mimeType, '')}]`;
    case 'resource_link': {
      const named = [part.name, part.uri, part.mimeType].filter((word) => word !== undefined && word !== '');
      return `[link: ${clipToLine(named.join(', '))}]`;
    }
    case 'resource': {
      const { uri, text, blob, mimeType } = part.resource;
      if (text !== undefined) return `[resource ${clipToLine(uri)}]\n${text}`;
      if (blob === undefined) return `[resource ${clipToLine(uri)}, without content]`;
      return `[resource ${clipToLine(uri)}: ${await save(blob, mimeType, uri)}]`;
    }
    default:
      return part satisfies never;
  }
}

function describeUnknownPart(part: unknown): string {
  const type = z.looseObject({ type: z.string() }).safeParse(part);
  return `[a part that cannot be shown: ${clipToLine(type.success ? type.data.type : 'without a type')}]`;
}

const clipToLine = (text: string) => truncate(escapeControlChars(text), 500);

/** Saves base64 as a file. Returns its path, size and type, or why that failed, since the rest of the result counts. */
type SaveFile = (data: string, mime: string | undefined, uri: string) => Promise<string>;

function fileSaver(tool: string, work: string, addImage: (image: ImageFile) => void): SaveFile {
  let files = 0;
  return async (data, mime, uri) => {
    if (++files > MAX_FILES) return `not saved: at most ${MAX_FILES} files of a result are`;
    const bytes = Buffer.from(data, 'base64');
    const hash = sha256(bytes);
    const mark = hash.slice(0, MARK_CHARS);
    try {
      const paths = await openWorkPaths(work, []);
      const resolved = await paths.resolveForWrite(
        `mcp/${toSafeName(tool.replace(/^mcp__/, ''), 60)}_${mark}.${extensionFor(mime, uri)}`,
      );
      await writeWorkFile(resolved, bytes, paths);
      const type = detectFileKind(bytes.subarray(0, SNIFF_BYTES))?.image;
      if (type && bytes.length <= MAX_IMAGE_BYTES)
        addImage({ path: resolved.displayName, type, bytes: bytes.length, sha256: hash });
      return `saved as work/${resolved.displayName}, ${formatBytes(bytes.length)}${mime ? `, ${clipToLine(mime)}` : ''}`;
    } catch (error) {
      return `not saved, ${errorText(error)}`;
    }
  };
}

function extensionFor(mime: string | undefined, uri: string): string {
  const kind = mime?.split(';')[0]?.trim().toLowerCase() ?? '';
  return getOwn(FILE_EXTENSIONS, kind) ?? /\.([A-Za-z0-9]{1,8})$/.exec(uri)?.[1]?.toLowerCase() ?? 'bin';
}

/** Letters, digits, `_` and `-` only, at most `max` of them. */
export function toSafeName(text: string, max: number): string {
  return text.replace(/[^a-zA-Z0-9_-]+/g, '_').slice(0, max) || '_';
}
