import * as fs from 'node:fs';
import { join } from 'node:path';
import type { Blobs } from '../../engine/ports/store-ports.ts';
import { placeNewFile, stagingName, syncFolder } from '../fs/durable-write.ts';
import { sha256Hex } from '../fs/file-reads.ts';
import { CorruptLogError, ifExists, wrapDiskErrors } from '../fs/store-errors.ts';

/**
 * Texts by the hash of their UTF-8 bytes. A file whose content does not match its name throws CorruptLogError. Blobs
 * never use the disk reserve: a long text would leave no space for the line that ends a call.
 */
export function openBlobs(folder: string): Blobs {
  return {
    async put(text) {
      const hash = sha256Hex(text);
      const path = join(folder, hash);
      // An earlier process may have died before it synced the folder, so an existing blob is synced as well.
      if (ifExists(() => isMarkedUsed(path))) await syncFolder(folder);
      else await placeNewFile(join(folder, stagingName()), path, text);
      return hash;
    },
    async get(hash) {
      if (!/^[0-9a-f]{64}$/.test(hash)) return undefined;
      const path = join(folder, hash);
      const bytes = wrapDiskErrors('read', path, () => ifExists(() => readBlobFile(path)));
      if (bytes && sha256Hex(bytes) !== hash) throw new CorruptLogError(path, 'its content is not what its name says.');
      return bytes?.toString();
    },
  };
}

/** Gives a blob the present time, so that retention, which may be at work, keeps it. Throws ENOENT if there is none. */
function isMarkedUsed(path: string): true {
  const now = new Date();
  fs.lutimesSync(path, now, now);
  return true;
}

/** A file's bytes; does not follow a link or wait for a pipe. */
function readBlobFile(path: string): Buffer {
  const fd = fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK);
  try {
    return fs.readFileSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}
