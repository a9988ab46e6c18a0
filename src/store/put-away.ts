import * as fs from 'node:fs';
import type { Drop } from '../engine/ports.ts';
import { errorCode } from '../protocol/errors.ts';
import { stagingName } from './durable.ts';
import { ifThere, saying } from './errors.ts';
import { type Folder, inFolder, statIn } from './folder.ts';
import type { SessionPaths } from './layout.ts';
import { freeName, safeName } from './names.ts';
import { isAsRead, rawOf } from './read-drop.ts';

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
      // Written to since it was read: those words stay in the inbox and become a message of their own.
      if (!isAsRead(inbox, raw, drop)) return;
      inFolder(paths.folder, [{ path: paths.done, make: true }], (done) => {
        const name = free(done, `${seq}-${safeName(drop.name)}`);
        if (!move(inbox.at(raw), done.at(name), `${paths.done}/${name}`, drop)) return;
        // Somebody may have renamed a new message onto the name since we looked, or written to this one: it goes back, under a free name.
        if (statIn(done, name) && !isAsRead(done, name, drop, true)) {
          fs.renameSync(done.at(name), inbox.at(free(inbox, safeName(drop.name))));
        }
      });
    },

    refuse(inbox: Folder, drop: Drop, why: string): void {
      const raw = rawOf(drop.handle);
      if (!isAsRead(inbox, raw, drop)) return;
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
