import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { access, type FileHandle, lstat, open, rename, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, extname } from 'node:path';
import type { Readable } from 'node:stream';
import { z } from 'zod';
import { diffLines, formatBytes, similarityTo, truncate } from '../../base/strings.ts';
import { UserError } from '../../base/user-error.ts';
import { defineTool, optional, type Tool } from '../common/define-tool.ts';
import { realPathOfDescriptor, statIfExists, withFolderAsync, withOpenFile } from './safe-open.ts';
import { openWorkPaths, type ResolvedPath, toFileError, type WorkPaths } from './work-paths.ts';

const ARGS = z.strictObject({
  path: z.string().min(1).describe('The file, relative to the work folder.'),
  content: z.string().describe('All of its text.'),
});

/** `write_file`: writes a whole file. */
export function writeFileTool(readAlso: string[]): Tool {
  return defineTool({
    name: 'write_file',
    description:
      'Writes a file whole, making its folders. Replaces a file that is there; to change a part use edit_file.',
    args: ARGS,
    replay: 'safe',
    touches: ['work'],
    subject: ({ path }) => path,
    kind: 'path',
    access: 'write',
    display: ({ path, content }) => `${path}\n${diffLines('', content)}`,
    async run({ path, content }, context) {
      const paths = await openWorkPaths(context.work, readAlso);
      const resolved = await paths.resolveForWrite(path);
      const did = await writeWorkFile(resolved, content, paths);
      return { ok: true, text: `${did} \`${resolved.displayName}\`, ${formatBytes(Buffer.byteLength(content))}` };
    },
  });
}

const CREATE_FLAGS = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

/**
 * Writes a file atomically and durably: a crash leaves the old one or the new one. Creates missing folders and keeps
 * the mode of a file it replaces. Works through the folder as it was opened, even if its path changes meanwhile. Throws
 * UserError.
 */
export async function writeWorkFile(
  resolved: ResolvedPath,
  content: string | Uint8Array | Readable,
  paths: WorkPaths,
): Promise<'created' | 'replaced'> {
  const { real, displayName } = resolved;
  try {
    return await withFolderAsync(paths.folderRequest(dirname(real), true), async (folder) => {
      const target = folder.at(basename(real));
      const mode = await modeToKeep(target, displayName);
      await writeAndRename(folder.at(`.${randomUUID()}.tmp`), target, content, { mode, paths, resolved });
      await syncFolder(folder.at('.'));
      return mode === undefined ? 'created' : 'replaced';
    });
  } catch (error) {
    throw toFileError(error, displayName);
  }
}

type FileToReplace = { mode: number | undefined; paths: WorkPaths; resolved: ResolvedPath };

async function writeAndRename(
  temp: string,
  target: string,
  content: string | Uint8Array | Readable,
  kept: FileToReplace,
): Promise<void> {
  const handle = await open(temp, CREATE_FLAGS, 0o666);
  try {
    await writeTempFile(handle, temp, content, kept);
    await rename(temp, target);
  } catch (error) {
    await rm(temp, { force: true });
    throw error;
  } finally {
    await handle.close();
  }
}

async function writeTempFile(
  handle: FileHandle,
  temp: string,
  content: string | Uint8Array | Readable,
  { mode, paths, resolved }: FileToReplace,
): Promise<void> {
  const lies = realPathOfDescriptor(handle.fd, temp);
  if (lies === undefined || !paths.isWritable(lies))
    throw new UserError(`\`${resolved.displayName}\` changed while it was opened.`);
  await writeFile(handle, content);
  if (mode !== undefined) await handle.chmod(mode);
  await handle.sync();
}

/** The mode of the file to be replaced. A rename ignores its write protection, so that is checked here. */
async function modeToKeep(target: string, shown: string): Promise<number | undefined> {
  const stat = await lstat(target).catch(() => undefined);
  if (!stat) return undefined;
  if (stat.isDirectory()) throw new UserError(`\`${shown}\` is a folder, not a file.`);
  if (!stat.isFile()) throw new UserError(`\`${shown}\` is a link, a device or a pipe, not a file.`);
  await access(target, constants.W_OK);
  return stat.mode & 0o7777;
}

async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, constants.O_RDONLY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

const MAX_NAMES_TRIED = 10_000;

/** An unused path in a folder of `work/`: `report.pdf`, else `report-2.pdf`. */
export async function findFreePath(paths: WorkPaths, folder: string, name: string): Promise<ResolvedPath> {
  const ending = extname(name);
  const stem = name.slice(0, name.length - ending.length);
  for (let n = 1; n < MAX_NAMES_TRIED; n++) {
    const resolved = await paths.resolveForWrite(`${folder}/${n === 1 ? name : `${stem}-${n}${ending}`}`);
    if (statIfExists(resolved, paths) === undefined) return resolved;
  }
  throw new UserError(`\`${folder}\` is full of files called ${name}.`);
}

const MAX_BYTES = 8 * 1024 * 1024;
const MAX_SHOWN_LINES = 12;
const MAX_LINE = 300;
/** Lines compared to find the nearest match: more would block the daemon. */
const MAX_COMPARED = 20_000;

const EDIT_ARGS = z.strictObject({
  path: z.string().min(1).describe('The file, relative to the work folder.'),
  old: z.string().min(1).describe('The text to be replaced, exactly as it stands in the file.'),
  new: z.string().describe('What takes its place.'),
  all: optional(z.boolean().describe('Replace it everywhere.')),
});

/** `edit_file`: replaces an exact piece of a file's text. */
export function editFileTool(readAlso: string[]): Tool {
  return defineTool({
    name: 'edit_file',
    description: 'Replaces a piece of a text file. `old` must be in the file exactly, and once unless `all` is true.',
    args: EDIT_ARGS,
    replay: 'never',
    touches: ['work'],
    subject: ({ path }) => path,
    kind: 'path',
    access: 'write',
    display: (args) => `${args.path}${args.all ? ' (everywhere)' : ''}\n${diffLines(args.old, args.new)}`,
    async run({ path, old, new: replacement, all = false }, context) {
      const paths = await openWorkPaths(context.work, readAlso);
      const resolved = await paths.resolveForWrite(path);
      const text = await withOpenFile(resolved, paths, async (file) => {
        if (file.size > MAX_BYTES) throw new UserError(fileTooLong(resolved.displayName, file.size));
        return decodeUtf8(await file.whole());
      });
      if (text === undefined) throw new UserError(`\`${resolved.displayName}\` is not UTF-8 text; edit it with shell.`);
      if (old === replacement) throw new UserError('`old` and `new` are the same text; nothing to do.');
      const lines = findOccurrences(old, text);
      if (lines.length === 0) throw new UserError(notFound(resolved.displayName, old, text));
      if (lines.length > 1 && !all) throw new UserError(ambiguous(resolved.displayName, lines));
      await writeWorkFile(resolved, text.split(old).join(replacement), paths);
      return { ok: true, text: `replaced ${describeLines(lines)} of \`${resolved.displayName}\`` };
    },
  });
}

function fileTooLong(shown: string, size: number): string {
  return `\`${shown}\` has ${formatBytes(size)}, more than the ${MAX_BYTES} that can be edited; use shell, with sed for instance.`;
}

/** The line of each occurrence of the text, in order. */
function findOccurrences(old: string, text: string): number[] {
  const lines: number[] = [];
  let line = 1;
  let from = 0;
  for (let at = text.indexOf(old); at >= 0; at = text.indexOf(old, at + old.length)) {
    for (let next = text.indexOf('\n', from); next >= 0 && next < at; next = text.indexOf('\n', from)) {
      line++;
      from = next + 1;
    }
    lines.push(line);
  }
  return lines;
}

function describeLines(lines: number[]): string {
  const named = lines.slice(0, MAX_SHOWN_LINES).join(', ') + (lines.length > MAX_SHOWN_LINES ? ', …' : '');
  return lines.length === 1 ? `line ${named}` : `${lines.length} places (lines ${named})`;
}

function ambiguous(shown: string, lines: number[]): string {
  return `\`old\` is in \`${shown}\` at ${describeLines(lines)}. Give more of the text around the one you mean, or all: true.`;
}

function notFound(shown: string, old: string, text: string): string {
  if (text.includes('\r\n') && text.replaceAll('\r\n', '\n').includes(old)) {
    return `\`old\` is not in \`${shown}\` as written: its lines end in \\r\\n. Write the line ends so.`;
  }
  const near = nearestLines(old, text);
  const help = near ? `Nearest is:\n${near}\nCopy the text exactly.` : 'Read the file again.';
  return `\`old\` is not in \`${shown}\`. ${help}`;
}

/**
 * The part of the file whose first line is most similar to that of `old`, as many lines as `old` has, with line
 * numbers.
 */
function nearestLines(old: string, text: string): string {
  const wanted = old.split('\n');
  const lead = wanted.findIndex((line) => line.trim() !== '');
  const lines = text.split('\n');
  const like = similarityTo(truncate(wanted[lead] ?? '', MAX_LINE));
  let best = { score: 0, at: -1 };
  lines.slice(0, MAX_COMPARED).forEach((line, at) => {
    const score = line.length > 0 && line.length <= 4 * MAX_LINE ? like(line) : 0;
    if (score > best.score) best = { score, at };
  });
  if (best.at < 0) return '';
  const from = Math.max(0, best.at - Math.max(0, lead));
  return lines
    .slice(from, from + Math.min(wanted.length, MAX_SHOWN_LINES))
    .map((line, index) => `${from + index + 1}: ${truncate(line, MAX_LINE)}`)
    .join('\n');
}

/** The bytes as text; undefined if they are not UTF-8. A byte order mark is kept. */
function decodeUtf8(bytes: Buffer): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
