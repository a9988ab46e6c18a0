import { basename, dirname, isAbsolute, join, relative, resolve } from 'node:path';
import { isInside, realAt } from '../paths.ts';

/** The folders that paths of a call are seen from: its own, and the `work/` this lies in. */
export type Folders = { work: string; top?: string | undefined };

/** A file by all its names: those it has with every link resolved, and those by which it was asked for. */
export type PathNames = { real: readonly string[]; asked: readonly string[] };

/**
 * The names of what a path leads to, as rules may name it: relative to `work/`, and absolute. `x`, `./x`, `work/x`, `a/../x`, its
 * absolute path and a link to it are one file.
 */
export function namesOfPath(path: string, { work, top }: Folders): PathNames {
  const roots = [...new Set([work, top ?? work].flatMap((folder) => [resolve(folder), realOf(resolve(folder))]))];
  const meant = isAbsolute(path) ? resolve(path) : resolve(work, withoutWork(path));
  const from = (place: string) => [
    ...roots.filter((root) => isInside(root, place)).map((root) => relative(root, place) || '.'),
    place,
  ];
  const real = from(realOf(meant));
  return { real, asked: from(meant).filter((name) => !real.includes(name)) };
}

/** A path without the `./` and the one `work/` that it may begin with, as the file tools read it. */
export const withoutWork = (path: string): string => path.replace(/^(?:\.\/+)*(?:work(?:\/+|$))?/, '') || '.';

/** The path with the links on its way resolved, as far as it is there. */
function realOf(path: string): string {
  return realAt(path) ?? join(realOf(dirname(path)), basename(path));
}
