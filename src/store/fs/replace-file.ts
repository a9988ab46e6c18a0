import * as fs from 'node:fs';
import { dirname } from 'node:path';
import writeFileAtomic from 'write-file-atomic';
import { stagingName, syncFolder } from './durable-write.ts';
import { DiskError, toDiskError } from './store-errors.ts';

/**
 * Replaces a file that only this daemon writes: a reader sees the old or the new content, never a part. `durable`: the
 * new one survives a power cut when this returns. Not for `plan.json`, which people write too.
 *
 * write-file-atomic 7 ignores the count of its write, so that on a full disk it can resolve with a file cut short, and
 * it never syncs the folder. So it writes a neighbour, and the name changes hands only once the size is right.
 */
export async function replaceFile(path: string, content: string, { durable = false } = {}): Promise<void> {
  const staged = `${dirname(path)}/${stagingName()}`;
  try {
    await writeFileAtomic(staged, content, { mode: 0o600 });
    const [size, wanted] = [fs.statSync(staged).size, Buffer.byteLength(content)];
    if (size !== wanted) {
      throw new DiskError('ENOSPC', `Could not write ${path}: only ${size} of ${wanted} bytes fit. Free some space.`);
    }
    fs.renameSync(staged, path);
  } catch (error) {
    fs.rmSync(staged, { force: true });
    throw toDiskError(error, 'write', path);
  }
  if (durable) await syncFolder(dirname(path));
}
