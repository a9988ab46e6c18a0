import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { dirname, join } from 'node:path';
import { errorCode, UserError } from '../protocol/errors.ts';
import type { ImageFile } from '../protocol/images.ts';
import { type Folder, inFolder, statIn } from './folder.ts';

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;

/** Not there, or not to be reached by this name. */
const ABSENT: ReadonlySet<string | undefined> = new Set([
  undefined,
  'ENOENT',
  'ENOTDIR',
  'ELOOP',
  'ENAMETOOLONG',
  'EACCES',
]);

/**
 * Runs `job` in the folder of a path below `work`, which no link leads to; undefined where that is not there. A path is text with
 * `/` between its parts, none of them `..`.
 */
function below<T>(work: string, path: string, job: (folder: Folder, name: string) => T): T | undefined {
  const parts = path.split('/');
  const name = parts.pop() ?? '';
  if ([...parts, name].some((part) => part === '' || part === '.' || part === '..' || part.includes('\0')))
    return undefined;
  const way = parts.map((_, n) => ({ path: join(work, ...parts.slice(0, n + 1)) }));
  try {
    return inFolder(dirname(work), [{ path: work }, ...way], (folder) => job(folder, name));
  } catch (error) {
    const code = errorCode(error);
    if ((error instanceof UserError || code !== undefined) && ABSENT.has(code)) return undefined;
    throw error;
  }
}

/** Of paths such as `work/a/x.csv`, the regular files that are there, through no link; at most `most`. */
export function filesAt(work: string, paths: readonly string[], most: number): string[] {
  const found: string[] = [];
  for (const path of paths) {
    if (found.length >= most) break;
    const inside = /^work\/(.+)$/s.exec(path)?.[1];
    if (inside === undefined) continue;
    if (below(work, inside, (folder, name) => statIn(folder, name)?.isFile())) found.push(path);
  }
  return found;
}

/** The bytes of an image below `work`; undefined where it is no longer what it was. */
export function imageAt(work: string, { path, bytes, sha256 }: ImageFile): Buffer | undefined {
  return below(work, path, (folder, name) => {
    const fd = fs.openSync(folder.at(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    try {
      const stat = fs.fstatSync(fd);
      if (!stat.isFile() || stat.size !== bytes) return undefined;
      const content = fs.readFileSync(fd);
      return createHash('sha256').update(content).digest('hex') === sha256 ? content : undefined;
    } finally {
      fs.closeSync(fd);
    }
  });
}
