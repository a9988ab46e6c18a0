import * as fs from 'node:fs';
import { rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { sha256 } from '../../base/sha256.ts';
import { errorCode, UserError } from '../../base/user-error.ts';
import type { CallFolders } from '../../engine/ports/store-ports.ts';
import type { ImageFile } from '../../protocol/session/message.ts';
import { type Clocks, openChangeDetector, readRegularFile } from '../fs/file-reads.ts';
import { type OpenFolder, statInFolder, withFolder } from '../fs/open-folder.ts';
import { toDiskError } from '../fs/store-errors.ts';

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;

/** Error codes that mean: missing, or not reachable by this name. */
const ABSENT_CODES: ReadonlySet<string | undefined> = new Set([
  undefined,
  'ENOENT',
  'ENOTDIR',
  'ELOOP',
  'ENAMETOOLONG',
  'EACCES',
]);

/**
 * Runs `job` in the folder of a path below `work`, following no link; undefined if it does not exist. A path is text
 * with `/` between its parts, none of them `..`.
 */
function inWorkFolder<T>(work: string, path: string, job: (folder: OpenFolder, name: string) => T): T | undefined {
  const parts = path.split('/');
  const name = parts.pop() ?? '';
  return isPlainPart(name) ? inFolderBelow(work, parts, (folder) => job(folder, name)) : undefined;
}

function inFolderBelow<T>(work: string, parts: readonly string[], job: (folder: OpenFolder) => T): T | undefined {
  if (!parts.every(isPlainPart)) return undefined;
  const way = parts.map((_, n) => ({ path: join(work, ...parts.slice(0, n + 1)) }));
  try {
    return withFolder(dirname(work), [{ path: work }, ...way], job);
  } catch (error) {
    const code = errorCode(error);
    if ((error instanceof UserError || code !== undefined) && ABSENT_CODES.has(code)) return undefined;
    throw error;
  }
}

const isPlainPart = (part: string): boolean => part !== '' && part !== '.' && part !== '..' && !part.includes('\0');

/** The existing regular files among paths such as `work/a/x.csv`, following no link; at most `most`. */
export function listExistingFiles(work: string, paths: readonly string[], most: number): string[] {
  const found: string[] = [];
  for (const path of paths) {
    if (found.length >= most) break;
    const inside = /^work\/(.+)$/s.exec(path)?.[1];
    if (inside === undefined) continue;
    if (inWorkFolder(work, inside, (folder, name) => statInFolder(folder, name)?.isFile())) found.push(path);
  }
  return found;
}

/** The entries of a folder below `work`, '' for `work` itself, following no link. At most `most` of them are read. */
export function listFolder(work: string, path: string, most: number): FolderEntries | undefined {
  return inFolderBelow(work, path === '' ? [] : path.split('/'), (folder) => {
    const opened = fs.opendirSync(folder.path('.'));
    try {
      const entries: FolderEntries['entries'] = [];
      for (let entry = opened.readSync(); entry; entry = opened.readSync()) {
        if (entries.length === most) return { entries, isWhole: false };
        const stat = statInFolder(folder, entry.name);
        if (stat) entries.push({ name: entry.name, stat });
      }
      return { entries, isWhole: true };
    } finally {
      opened.closeSync();
    }
  });
}

/** The bytes of an image below `work`; undefined if it has changed. */
export function readImage(work: string, { path, bytes, sha256: hash }: ImageFile): Buffer | undefined {
  return inWorkFolder(work, path, (folder, name) => {
    const content = readRegularFile(folder.bytePath(name), bytes);
    return content && sha256(content) === hash ? content : undefined;
  });
}

export type FolderEntries = { entries: Array<{ name: string; stat: fs.BigIntStats }>; isWhole: boolean };

/** Opens a regular file below `work` for reading, following no link; undefined if there is none. */
export function openFileBelow(work: string, path: string): { fd: number; stat: fs.Stats } | undefined {
  return inWorkFolder(work, path, (folder, name) => {
    const fd = fs.openSync(folder.bytePath(name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    const stat = fs.fstatSync(fd);
    if (stat.isFile()) return { fd, stat };
    fs.closeSync(fd);
    return undefined;
  });
}

/** Keys as the engine creates them: `12.0`, `12.check0`, `12.parts0`. Nothing else may become part of a path. */
const CALL_KEY = /^\d+\.(?:check|parts)?\d+$/;

/** The folders of calls in a session's `tools/`. */
export function openCallFolders(root: string, clocks: Clocks): CallFolders {
  const empty = openChangeDetector(root, clocks);
  const folder = (call: string): string => {
    if (!CALL_KEY.test(call)) throw new Error(`${JSON.stringify(call)} is no key of a call.`);
    return join(root, call);
  };
  return {
    pathOf: folder,
    // Synchronous: there are none or a few, and the thread pool's round trip takes ten times as long as the read.
    async list() {
      if (empty.isUnchanged()) return [];
      const keep = empty.beginRead();
      const calls = fs.readdirSync(root).filter((name) => CALL_KEY.test(name));
      if (calls.length === 0) keep();
      return calls;
    },
    async remove(call) {
      try {
        await rm(folder(call), { recursive: true, force: true });
      } catch (error) {
        throw toDiskError(error, 'delete', folder(call));
      }
    },
  };
}
