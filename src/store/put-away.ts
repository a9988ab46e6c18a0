import * as fs from 'node:fs';
import type { Drop } from '../engine/ports.ts';
import { errorCode } from '../protocol/errors.ts';
import { sha256 } from './blobs.ts';
import { stagingName } from './durable.ts';
import { ifThere, saying } from './errors.ts';
import { type Folder, inFolder, statIn } from './folder.ts';
import type { SessionPaths } from './layout.ts';
import { MAX_MESSAGE_BYTES } from './message-file.ts';
import { freeName, safeName } from './names.ts';
import { rawOf, readUnchanged } from './read-drop.ts';

/** Files that stay in the inbox since they may not be moved: so many are remembered. */
const MAX_LEFT = 10_000;
/** No right to move it, or it is no file of this file system but one mounted there. */
const IMMOVABLE = ['EACCES', 'EPERM', 'EBUSY', 'EXDEV'];

const keyOf = (ino: string, mtimeNs: string) => `${ino}:${mtimeNs}`;

/** Moves what was dealt with out of the inbox. */
export function openPutAway(paths: SessionPaths, now: () => Date) {
  const left = new Set<string>();

  /** False where the file has to stay. */
  function move(from: Buffer, to: Buffer, shown: string, { identity }: Drop): boolean {
    try {
      ifThere(() => fs.renameSync(from, to));
      return true;
    } catch (error) {
      if (!IMMOVABLE.includes(errorCode(error) ?? ''))
        return saying('move a message to', shown, () => {
          throw error;
        });
      const [oldest] = left;
      if (left.size >= MAX_LEFT && oldest !== undefined) left.delete(oldest);
      left.add(keyOf(identity.ino, identity.mtime_ns));
      return false;
    }
  }

  return {
    isLeft: (stat: fs.BigIntStats) => left.has(keyOf(String(stat.ino), String(stat.mtimeNs))),

    settle(inbox: Folder, drop: Drop, seq: number): void {
      const raw = rawOf(drop.handle);
      if (!isStillDropped(inbox, raw, drop)) return;
      inFolder(paths.folder, [{ path: paths.done, make: true }], (done) => {
        const name = free(done, `${seq}-${safeName(drop.name)}`);
        if (!move(inbox.at(raw), done.at(name), `${paths.done}/${name}`, drop)) return;
        // Somebody may have renamed a new message onto the name since we looked: that one goes back, under a free name.
        const moved = statIn(done, name);
        if (moved && String(moved.ino) !== drop.identity.ino) {
          fs.renameSync(done.at(name), inbox.at(free(inbox, safeName(drop.name))));
        }
      });
    },

    refuse(inbox: Folder, drop: Drop, why: string): void {
      const raw = rawOf(drop.handle);
      if (String(statIn(inbox, raw)?.ino) !== drop.identity.ino) return;
      inFolder(paths.folder, [{ path: paths.rejected, make: true }], (rejected) => {
        const isTaken = (name: string) => name.endsWith('.why.json') || statIn(rejected, name) !== undefined;
        const name = freeName(safeName(drop.name), isTaken);
        const reason = JSON.stringify({ name: drop.name, why, at: now().toISOString() }, null, 2);
        const staged = stagingName();
        // The reason first: a crash in between leaves a reason without its file, and the next look finds the file again.
        saying('refuse a message into', `${paths.rejected}/${name}`, () => {
          fs.writeFileSync(rejected.at(staged), `${reason}\n`, { flag: 'wx', mode: 0o600 });
          fs.renameSync(rejected.at(staged), rejected.at(`${name}.why.json`));
        });
        const isAway = move(inbox.at(raw), rejected.at(name), `${paths.rejected}/${name}`, drop);
        // The reply has said it; a reason without its file would come again after each restart.
        if (!isAway) fs.rmSync(rejected.at(`${name}.why.json`), { force: true });
      });
    },
  };
}

const free = (folder: Folder, name: string) => freeName(name, (one) => statIn(folder, one) !== undefined);

/** Changed since it was read means new words: they stay in the inbox and become a message of their own. */
function isStillDropped(inbox: Folder, raw: Buffer, { identity }: Drop): boolean {
  const there = statIn(inbox, raw);
  if (!there || String(there.ino) !== identity.ino) return false;
  if (String(there.mtimeNs) === identity.mtime_ns) return true;
  if (!there.isFile() || there.size > MAX_MESSAGE_BYTES) return false;
  try {
    const bytes = readUnchanged(inbox.at(raw), there);
    return bytes !== null && sha256(bytes) === identity.sha256;
  } catch (error) {
    if (['ENOENT', 'EACCES', 'ELOOP', 'ENXIO'].includes(errorCode(error) ?? '')) return false;
    throw error;
  }
}
