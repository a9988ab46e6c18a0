import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { copyFile, type FileHandle, open } from 'node:fs/promises';
import { createPacer } from '../../base/async.ts';
import { sha256 } from '../../base/sha256.ts';
import { UserError } from '../../base/user-error.ts';
import { createFile, stagingName, syncFolder } from '../fs/durable-write.ts';
import { listNames, statIfExists } from '../fs/file-reads.ts';
import { DiskError, toDiskError } from '../fs/store-errors.ts';
import type { SessionPaths } from '../layout/layout.ts';
import { SLICE_MS } from './manifest-file.ts';

const { COPYFILE_FICLONE } = fs.constants;
const CHUNK_BYTES = 1024 * 1024;

/** The contents of files by their hash: plain files in `checkpoints/contents/`, each written once. */
export type Contents = {
  /**
   * Reads the first `size` bytes of an open file and returns their SHA-256. A copy is kept from the next `commit` on.
   */
  put(file: FileHandle, size: number): Promise<string>;
  /** Puts what was staged in place, durably. Returns how many bytes were added. Throws the signal's reason. */
  commit(signal: AbortSignal): Promise<number>;
  /** Removes what was staged. */
  discard(): void;
};

/** For the only writer of a session's folder. */
export function openContents({ checkpointContents: folder }: Pick<SessionPaths, 'checkpointContents'>): Contents {
  /** By hash: where the copy is, or null if there was one. */
  const staged = new Map<string, { path: string; size: number } | null>();

  /** Whether a content still has to be copied. From now on it counts as known. */
  const isNew = (sha256: string, copy: { path: string; size: number }): boolean => {
    if (staged.has(sha256)) return false;
    const isThere = isMarkedUsed(`${folder}/${sha256}`);
    staged.set(sha256, isThere ? null : copy);
    return !isThere;
  };

  return {
    async put(file, size) {
      const path = `${folder}/${stagingName()}`;
      if (size <= CHUNK_BYTES) {
        const bytes = await readStart(file, size);
        const hash = sha256(bytes);
        if (isNew(hash, { path, size })) await createFile(path, bytes);
        return hash;
      }
      try {
        await copyOpenFile(file, path);
        const hash = await syncAndHash(path);
        if (!isNew(hash, { path, size })) fs.rmSync(path, { force: true });
        return hash;
      } catch (error) {
        fs.rmSync(path, { force: true });
        throw toDiskError(error, 'write', path);
      }
    },
    async commit(signal) {
      const pace = createPacer(SLICE_MS, signal);
      let added = 0;
      for (const [sha256, copy] of staged) {
        await pace();
        if (!copy) continue;
        fs.renameSync(copy.path, `${folder}/${sha256}`);
        added += copy.size;
      }
      // Also for what was there already: an earlier process may have died before it synced the folder.
      if (staged.size > 0) await syncFolder(folder);
      staged.clear();
      return added;
    },
    discard() {
      for (const copy of staged.values()) if (copy) fs.rmSync(copy.path, { force: true });
      staged.clear();
    },
  };
}

/** Whether there is such a file; if so, its time is set, so that a sweep that is going on keeps it. */
function isMarkedUsed(path: string): boolean {
  if (!statIfExists(path)?.isFile()) return false;
  const now = new Date();
  fs.lutimesSync(path, now, now);
  return true;
}

async function readStart(file: FileHandle, size: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafe(size);
  let done = 0;
  while (done < size) {
    const { bytesRead } = await file.read(bytes, done, size - done, done);
    if (bytesRead === 0) break;
    done += bytesRead;
  }
  return bytes.subarray(0, done);
}

/** The SHA-256 of the first `size` bytes of an open file, in hex; all of them if left out. */
export async function hashFile(file: FileHandle, size = Number.POSITIVE_INFINITY): Promise<string> {
  const sum = createHash('sha256');
  const chunk = Buffer.allocUnsafe(Math.min(size, CHUNK_BYTES));
  for (let done = 0; done < size; ) {
    const { bytesRead } = await file.read(chunk, 0, Math.min(chunk.length, size - done), done);
    if (bytesRead === 0) break;
    sum.update(chunk.subarray(0, bytesRead));
    done += bytesRead;
  }
  return sum.digest('hex');
}

/** A clone where the file system can. Without /proc, the bytes are copied. */
async function copyOpenFile(file: FileHandle, to: string): Promise<void> {
  const through = `/proc/self/fd/${file.fd}`;
  if (fs.existsSync(through)) {
    await copyFile(through, to, COPYFILE_FICLONE);
    fs.chmodSync(to, 0o600);
    return;
  }
  const copy = await open(to, 'wx', 0o600);
  try {
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
    for (let at = 0; ; ) {
      const { bytesRead } = await file.read(chunk, 0, chunk.length, at);
      if (bytesRead === 0) break;
      await copy.writeFile(chunk.subarray(0, bytesRead));
      at += bytesRead;
    }
  } finally {
    await copy.close();
  }
}

async function syncAndHash(path: string): Promise<string> {
  const copy = await open(path, 'r+');
  try {
    await copy.datasync();
    return await hashFile(copy);
  } finally {
    await copy.close();
  }
}

/**
 * Puts a copy of a content at `to`, on disk, with these permissions. Throws UserError if it is missing or damaged, and
 * leaves nothing at `to` then.
 */
export async function copyContent(paths: SessionPaths, sha256: string, to: string, mode: number): Promise<void> {
  const from = `${paths.checkpointContents}/${sha256}`;
  try {
    await copyFile(from, to, COPYFILE_FICLONE);
    fs.chmodSync(to, 0o600);
    const found = await syncAndHash(to);
    if (found !== sha256) throw new UserError(`${from} is damaged: its content has the hash ${found}.`);
    fs.chmodSync(to, mode);
  } catch (error) {
    fs.rmSync(to, { force: true });
    const missing = error instanceof UserError || statIfExists(from) !== undefined;
    throw missing ? toDiskError(error, 'write', to) : new DiskError('ENOENT', `${from} is missing.`);
  }
}

/** Removes contents that no manifest names and that are older than `before` (ms). Returns the bytes that are left. */
export async function sweepContents(
  { checkpointContents: folder }: Pick<SessionPaths, 'checkpointContents'>,
  isNamed: (sha256: string) => boolean,
  before: number,
  pace: () => Promise<void>,
): Promise<number> {
  let bytes = 0;
  for (const name of listNames(folder)) {
    await pace();
    const stat = statIfExists(`${folder}/${name}`);
    if (!stat || !/^[0-9a-f]{64}$/.test(name)) continue;
    if (isNamed(name) || stat.ctimeMs >= before) bytes += stat.size;
    else fs.rmSync(`${folder}/${name}`, { force: true });
  }
  return bytes;
}
