import * as fs from 'node:fs';
import { syncFolder, writeAll } from './durable.ts';
import { ifThere, saying } from './errors.ts';
import type { SessionPaths } from './layout.ts';

const CHUNK = 256 * 1024;

/** Copies what follows `good` bytes of the record to a file beside it, durably: cutting it off then destroys nothing. */
export async function saveTornEnd(paths: SessionPaths, good: number): Promise<void> {
  const from = fs.openSync(paths.events, fs.constants.O_RDONLY | fs.constants.O_NOFOLLOW);
  const path = freePath(paths.torn(good));
  try {
    saying('write', path, () => {
      const to = fs.openSync(path, 'wx', 0o600);
      try {
        const buffer = Buffer.alloc(CHUNK);
        let at = good;
        for (let read = -1; read !== 0; at += read) {
          read = fs.readSync(from, buffer, 0, CHUNK, at);
          writeAll(to, buffer.subarray(0, read));
        }
        fs.fdatasyncSync(to);
      } finally {
        fs.closeSync(to);
      }
    });
  } finally {
    fs.closeSync(from);
  }
  await syncFolder(paths.folder);
}

function freePath(path: string): string {
  let free = path;
  for (let n = 2; ifThere(() => fs.lstatSync(free)); n++) free = `${path}-${n}`;
  return free;
}
