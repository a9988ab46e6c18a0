import * as fs from 'node:fs';
import { dirname } from 'node:path';
import { isDiskFull } from '../../base/user-error.ts';
import { createFile, stagingName, syncFolder, writeAll } from './durable-write.ts';
import { toDiskError, wrapDiskErrors } from './store-errors.ts';

/**
 * Replaces a file that only this daemon writes: a reader sees the old or the new content, never a part. `durable`: the
 * new one survives a power cut when this returns. Not for `plan.json`, which people write too.
 */
export async function replaceFile(path: string, content: string, { durable = false } = {}): Promise<void> {
  const staged = `${dirname(path)}/${stagingName()}`;
  await createFile(staged, content, { meant: path });
  try {
    fs.renameSync(staged, path);
  } catch (error) {
    fs.rmSync(staged, { force: true });
    throw toDiskError(error, 'write', path);
  }
  if (durable) await syncFolder(dirname(path));
}

/**
 * The same for a file that must be written even on a full disk: without space for a new one, the old one is overwritten
 * in place, padded with spaces to its old length so that no further byte is needed. A power cut may then leave a
 * mixture, which readers must treat as missing.
 */
export async function replaceOrOverwriteFile(path: string, content: string): Promise<void> {
  try {
    await replaceFile(path, content, { durable: true });
  } catch (error) {
    if (!isDiskFull(error)) throw error;
    wrapDiskErrors('write', path, () => overwriteFile(path, content));
  }
}

function overwriteFile(path: string, content: string): void {
  const fd = fs.openSync(path, fs.constants.O_WRONLY | fs.constants.O_NOFOLLOW);
  try {
    const bytes = Buffer.from(content.padEnd(fs.fstatSync(fd).size - Buffer.byteLength(content) + content.length));
    writeAll(fd, bytes, (to, all, offset) => fs.writeSync(to, all, offset, all.length - offset, offset));
    fs.fdatasyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}
