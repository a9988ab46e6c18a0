import * as fs from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { escapeControlChars } from '../../base/strings.ts';
import { attempt, errorCode, errorText, UserError } from '../../base/user-error.ts';
import { sessionsFolderAbove } from '../../protocol/workspace/session-names.ts';
import { isInside, realPathOrNone } from '../common/path-lookup.ts';

/** A path verified to lie inside the allowed folders, links resolved, and the name the model knows it by. */
export type ResolvedPath = { real: string; displayName: string };

/** The folders that the file tools may access: `work/`, and for reading also those that a person listed. */
export type WorkPaths = {
  /** Resolves a path for reading. It may not exist. Throws UserError if it leads outside. */
  resolveForRead(asked: string): Promise<ResolvedPath>;
  /** Resolves a path for writing: inside `work/`, the last part no link. Throws UserError otherwise. */
  resolveForWrite(asked: string): Promise<ResolvedPath>;
  isReadable(real: string): boolean;
  isWritable(real: string): boolean;
  /** The name of a real path for the model: relative to `work/` if inside. */
  displayName(real: string): string;
  /** Throws UserError unless this real path is in an allowed folder, or is the parent of one. */
  requireEnterable(folder: string): void;
};

/** A folder by its given and its real name: a model may use either, for instance after `pwd`. */
type AllowedFolder = { named: string; real: string };

/**
 * Paths are resolved synchronously: three short calls, for each of which the thread pool's round trip took longer than
 * the call. A call also does not yield between them, which leaves less time to swap a path.
 */
export async function openWorkPaths(work: string, readAlso: string[]): Promise<WorkPaths> {
  const home = workFolderAt(work);
  const others = readAlso.map(allowedFolderAt).filter((root) => root !== undefined);
  const mayWrite = (real: string) => isInside(home.real, real);
  const mayRead = (real: string) => [home, ...others].some((root) => isInside(root.real, real));
  const shown = (real: string) => escapeControlChars(mayWrite(real) ? relative(home.real, real) || '.' : real);
  const leadsOut = (asked: string) =>
    new UserError(
      `\`${escapeControlChars(asked)}\` leads out of the work folder. Name a path inside it, such as \`notes.txt\`` +
        `${others.map((root) => `, or one in ${root.named}`).join('')}.`,
    );

  /** The absolute path, without disk access: `x`, `work/x` and its absolute path mean the same file. */
  const meant = (asked: string): string => {
    if (asked.includes('\0')) throw new UserError('A path cannot contain a NUL character.');
    const path = resolve(home.real, asked.replace(/^(?:\.\/+)*work(?:\/+|$)/, ''));
    if (![home, ...others].some(({ named, real }) => isInside(named, path) || isInside(real, path)))
      throw leadsOut(asked);
    return path;
  };

  return {
    isReadable: mayRead,
    isWritable: mayWrite,
    displayName: shown,
    requireEnterable(folder) {
      // An allowed folder itself is looked at through its parent.
      const isParent = [home, ...others].some(({ real }) => dirname(real) === folder);
      if (!isParent && !mayRead(folder)) throw leadsOut(folder);
    },
    async resolveForRead(asked) {
      const real = resolveLinks(meant(asked), asked);
      if (!mayRead(real)) throw leadsOut(asked);
      return { real, displayName: shown(real) };
    },
    async resolveForWrite(asked) {
      const path = meant(asked);
      const link = linkTarget(path);
      if (link !== undefined) throw new UserError(`${linkMessage(asked, link)} Write to that file by its own name.`);
      const real = resolveLinks(path, asked);
      if (!mayWrite(real)) {
        throw mayRead(real)
          ? new UserError(`\`${escapeControlChars(asked)}\` may be read, not written.`)
          : leadsOut(asked);
      }
      if (real === home.real || asked.endsWith('/'))
        throw new UserError(`\`${escapeControlChars(asked)}\` names a folder.`);
      return { real, displayName: shown(real) };
    },
  };
}

function allowedFolderAt(folder: string): AllowedFolder | undefined {
  // `skills/` is often missing: an error and its stack take longer than this question.
  const real = fs.existsSync(folder) ? realPathOrNone(folder) : undefined;
  return real === undefined ? undefined : { named: resolve(folder), real };
}

/**
 * A session's `work/`, or a folder in it. The path to the workspace may contain links, but the path below it must not:
 * a command in a shared `work/` could use one to escape. Throws UserError.
 */
function workFolderAt(work: string): AllowedFolder {
  const named = resolve(work);
  const top = sessionsFolderAbove(named) ?? dirname(named);
  const [realTop, real] = [realPathOrNone(top), realPathOrNone(named)];
  if (real === undefined || realTop === undefined) throw new UserError('The work folder does not exist.');
  if (real !== join(realTop, relative(top, named)))
    throw new UserError('The work folder is reached over a symbolic link. Make it a folder again.');
  return { named, real };
}

/** The path with every link resolved, as far as it exists. */
function resolveLinks(path: string, asked: string): string {
  const missing: string[] = [];
  for (let at = path; ; at = dirname(at)) {
    try {
      return join(fs.realpathSync.native(at), ...missing);
    } catch (error) {
      if (errorCode(error) !== 'ENOENT') throw toFileError(error, asked);
      const target = linkTarget(at);
      if (target !== undefined) throw new UserError(`${linkMessage(basename(at), target)} That is not there.`);
      missing.unshift(basename(at));
    }
  }
}

function linkMessage(name: string, target: string): string {
  return `\`${escapeControlChars(name)}\` is a link to \`${escapeControlChars(target)}\`.`;
}

/** The target of a link; undefined if it is not a link. */
function linkTarget(path: string): string | undefined {
  return attempt(() => fs.readlinkSync(path));
}

const FILE_ERROR_TEXTS: Record<string, string> = {
  ENOENT: 'is not there; list_files shows what is',
  ENOTDIR: 'has a file in its path where a folder is needed',
  EEXIST: 'has a file in its path where a folder is needed',
  EISDIR: 'is a folder, not a file',
  EACCES: 'is not accessible to this user',
  EPERM: 'is not accessible to this user',
  EROFS: 'is on a disk that cannot be written',
  ENOSPC: 'could not be written: the disk is full',
  EDQUOT: 'could not be written: the quota is used up',
  ELOOP: 'goes through a link, or through too many of them',
  ENAMETOOLONG: 'is too long a name',
  ENXIO: 'is a socket or a pipe, not a file',
};

/** A file system error reworded for the model: with the path it asked for, without errno names. */
export function toFileError(error: unknown, shown: string): unknown {
  const words = FILE_ERROR_TEXTS[errorCode(error) ?? ''];
  if (error instanceof UserError || !errorCode(error)) return error;
  return new UserError(`\`${escapeControlChars(shown)}\` ${words ?? `cannot be used: ${errorText(error)}`}.`);
}
