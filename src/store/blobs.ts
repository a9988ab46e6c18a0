import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { join } from 'node:path';
import type { Blobs } from '../engine/ports.ts';
import { putInPlace, stagingName, syncFolder, type Write } from './durable.ts';
import { ifThere, RecordCorrupt, saying } from './errors.ts';

export const sha256 = (bytes: Uint8Array | string) => createHash('sha256').update(bytes).digest('hex');

/** Texts by the hash of their UTF-8 bytes. A file that does not hold what its name says throws RecordCorrupt. They are part of the record: `write` may use what is reserved for it. */
export function openBlobs(folder: string, write?: Write): Blobs {
  return {
    async put(text) {
      const hash = sha256(text);
      const path = join(folder, hash);
      // An earlier process may have died before it synced the folder, so that is done for a blob that is there as well.
      if (ifThere(() => fs.lstatSync(path))) await syncFolder(folder);
      else await putInPlace(join(folder, stagingName()), path, text, write);
      return hash;
    },
    async get(hash) {
      if (!/^[0-9a-f]{64}$/.test(hash)) return undefined;
      const path = join(folder, hash);
      const bytes = saying('read', path, () => ifThere(() => readPlainFile(path)));
      if (bytes && sha256(bytes) !== hash) throw new RecordCorrupt(path, 'its content is not what its name says.');
      return bytes?.toString();
    },
  };
}

/** A file's bytes; a link is not followed and a pipe not waited for. */
function readPlainFile(path: string): Buffer {
  const fd = fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW | fs.constants.O_NONBLOCK);
  try {
    return fs.readFileSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}
