import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { access, type FileHandle, lstat, open, rename, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, extname } from 'node:path';
import { Readable } from 'node:stream';
import { z } from 'zod';
import { sha256 } from '../../base/sha256.ts';
import { diffLines, formatBytes } from '../../base/strings.ts';
import { UserError } from '../../base/user-error.ts';
import { defineTool, type Tool } from '../common/define-tool.ts';
import { realPathOfDescriptor, statIfExists, withFolderAsync } from './safe-open.ts';
import { openWorkPaths, type ResolvedPath, toFileError, type WorkPaths } from './work-paths.ts';

const ARGS = z.strictObject({ path: z.string().min(1).describe('Relative to the work folder.'), content: z.string() });

/** `write_file`: writes a whole file. */
export function writeFileTool(readAlso: string[]): Tool {
  return defineTool({
    name: 'write_file',
    description: 'Writes a whole file, making its folders, in place of one that is there; edit_file changes a part.',
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
      const text = `${did} \`${resolved.displayName}\`, ${formatBytes(Buffer.byteLength(content))}`;
      return { ok: true, text, sha256: sha256(content) };
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
  // Reading it throws the same error; without a listener, one that comes before would end the daemon.
  if (content instanceof Readable) content.on('error', () => undefined);
  try {
    return await withFolderAsync(
      paths,
      dirname(real),
      async (folder) => {
        const target = folder.at(basename(real));
        const mode = await modeToKeep(target, displayName);
        await writeAndRename(folder.at(`.${randomUUID()}.tmp`), target, content, { mode, paths, resolved });
        await syncFolder(folder.at('.'));
        return mode === undefined ? 'created' : 'replaced';
      },
      true,
    );
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
