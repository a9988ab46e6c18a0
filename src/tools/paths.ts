import * as fs from 'node:fs';
import { basename, dirname, isAbsolute, join, relative, resolve } from 'node:path';
import { errorCode, UserError } from '../protocol/errors.ts';
import { sessionsAbove } from '../protocol/program-path.ts';
import { inWords, printable } from './file-errors.ts';
import type { Wanted } from './held-folder.ts';

/** A path that was found to lie inside the fence, links resolved, and the name the model knows it by. */
export type Place = { real: string; shown: string };

/** The folders the file tools may touch: `work/`, and for reading those a person named. */
export type Fence = {
  /** Where a path leads for reading. It may not exist. Throws UserError where it leads out. */
  toRead(asked: string): Promise<Place>;
  /** Where a file is to be written: inside `work/`, its last part no link. Throws UserError otherwise. */
  toWrite(asked: string): Promise<Place>;
  mayRead(real: string): boolean;
  mayWrite(real: string): boolean;
  /** The name of a real path for the model: relative to `work/` where it is inside. */
  shown(real: string): string;
  /** A real path as what is to be opened: the folder itself, by descriptors from where nothing can be swapped. */
  way(folder: string, make?: boolean): Wanted;
};

/**
 * A folder by the name it was given and by its real one: a model may use either, after a `pwd` for instance. `trusted` is on the way to
 * it, and no command can put a link there.
 */
type Root = { named: string; real: string; trusted: string };

/**
 * Paths are resolved without the thread pool: three short questions, each of which took longer to get there and back than to be
 * answered. Between them a call waits for nothing, so less can be swapped.
 */
export async function openFence(work: string, readAlso: string[]): Promise<Fence> {
  const home = homeAt(work);
  const others = readAlso.map(rootAt).filter((root) => root !== undefined);
  const mayWrite = (real: string) => isInside(home.real, real);
  const mayRead = (real: string) => [home, ...others].some((root) => isInside(root.real, real));
  const shown = (real: string) => printable(mayWrite(real) ? relative(home.real, real) || '.' : real);
  const leadsOut = (asked: string) =>
    new UserError(
      `\`${printable(asked)}\` leads out of the work folder. Name a path inside it, such as \`notes.txt\`` +
        `${others.map((root) => `, or one in ${root.named}`).join('')}.`,
    );

  /** The absolute path that the words mean, before the disk is asked: `x`, `work/x` and its absolute name are one. */
  const meant = (asked: string): string => {
    if (asked.includes('\0')) throw new UserError('A path cannot have a NUL character in it.');
    if (isAbsolute(asked)) {
      const path = resolve(asked);
      const root = [home, ...others].find(({ named, real }) => isInside(named, path) || isInside(real, path));
      if (!root) throw leadsOut(asked);
      return path;
    }
    const path = resolve(home.real, asked.replace(/^(?:\.\/+)*work(?:\/+|$)/, ''));
    if (![home, ...others].some(({ real }) => isInside(real, path))) throw leadsOut(asked);
    return path;
  };

  return {
    mayRead,
    mayWrite,
    shown,
    way(folder, make) {
      const root = [home, ...others].find(({ real }) => isInside(real, folder));
      // The folder around a root, where that itself is what is asked for.
      const trusted = root?.trusted ?? [home, ...others].find(({ real }) => dirname(real) === folder)?.trusted;
      if (trusted === undefined) throw leadsOut(folder);
      return { trusted, folder, make };
    },
    async toRead(asked) {
      const real = realOf(meant(asked), asked);
      if (!mayRead(real)) throw leadsOut(asked);
      return { real, shown: shown(real) };
    },
    async toWrite(asked) {
      const path = meant(asked);
      const link = linkAt(path);
      if (link !== undefined) throw new UserError(`${isLink(asked, link)} Write to that file by its own name.`);
      const real = realOf(path, asked);
      if (!mayWrite(real)) {
        throw mayRead(real) ? new UserError(`\`${printable(asked)}\` may be read, not written.`) : leadsOut(asked);
      }
      if (real === home.real || asked.endsWith('/')) throw new UserError(`\`${printable(asked)}\` names a folder.`);
      return { real, shown: shown(real) };
    },
  };
}

function rootAt(folder: string): Root | undefined {
  const real = realAt(folder);
  return real === undefined ? undefined : { named: resolve(folder), real, trusted: dirname(real) };
}

/**
 * A session's `work/`, or a folder in it. The workspace may be reached over links, but below it there is none: a command in a `work/`
 * that others share could lead them out by one. Throws UserError.
 */
function homeAt(work: string): Root {
  const named = resolve(work);
  const top = realAt(sessionsAbove(named) ?? dirname(named));
  const wanted = top === undefined ? undefined : join(top, relative(sessionsAbove(named) ?? dirname(named), named));
  const real = realAt(named);
  if (real === undefined || top === undefined) throw new UserError('The work folder is not there.');
  if (real !== wanted) throw new UserError('The work folder is reached over a symbolic link. Make it a folder again.');
  return { named, real, trusted: top };
}

/** The path with every link on its way resolved, as far as it exists. */
function realOf(path: string, asked: string): string {
  const missing: string[] = [];
  for (let at = path; ; at = dirname(at)) {
    try {
      return join(fs.realpathSync.native(at), ...missing);
    } catch (error) {
      if (errorCode(error) !== 'ENOENT') throw inWords(error, asked);
      const target = linkAt(at);
      if (target !== undefined) throw new UserError(`${isLink(basename(at), target)} That is not there.`);
      missing.unshift(basename(at));
    }
  }
}

function isLink(name: string, target: string): string {
  return `\`${printable(name)}\` is a link to \`${printable(target)}\`.`;
}

/** Whether a path is a folder or lies below it. Both absolute and normal. */
export function isInside(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder.endsWith('/') ? folder : `${folder}/`);
}

/** The real path; undefined where it cannot be told. */
export function realAt(path: string): string | undefined {
  try {
    return fs.realpathSync.native(path);
  } catch {
    return undefined;
  }
}

/** Where a link leads; undefined where there is none. */
function linkAt(path: string): string | undefined {
  try {
    return fs.readlinkSync(path);
  } catch {
    return undefined;
  }
}
