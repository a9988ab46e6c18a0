import * as fs from 'node:fs';
import { errorCode } from '../../base/user-error.ts';
import type { DroppedFile } from '../../engine/ports/store-ports.ts';
import type { RejectionReason } from '../../protocol/session/message.ts';
import { stagingName } from '../fs/durable-write.ts';
import { type OpenFolder, statInFolder, withFolder } from '../fs/open-folder.ts';
import { ifExists, wrapDiskErrors } from '../fs/store-errors.ts';
import type { SessionPaths } from '../layout/layout.ts';
import { freeName, safeName } from '../layout/layout.ts';
import { isUnchangedSinceRead, rawNameOf } from './dropped-file.ts';

/** How many files are remembered that stay in the inbox because they may not be moved. */
const MAX_IMMOVABLE = 10_000;
/** No permission to move it, or it is a mount point. */
const IMMOVABLE_CODES = ['EACCES', 'EPERM', 'EBUSY', 'EXDEV'];

const immovableKeyOf = (ino: string, mtimeNs: string) => `${ino}:${mtimeNs}`;

/** Moves processed files out of the inbox. */
export function openProcessedFiles(paths: SessionPaths, now: () => Date) {
  const immovable = new Set<string>();

  /** False if the file has to stay. */
  function move(from: Buffer, to: Buffer, shown: string, { identity }: DroppedFile): boolean {
    try {
      ifExists(() => fs.renameSync(from, to));
      return true;
    } catch (error) {
      if (!IMMOVABLE_CODES.includes(errorCode(error) ?? ''))
        return wrapDiskErrors('move a message to', shown, () => {
          throw error;
        });
      const [oldest] = immovable;
      if (immovable.size >= MAX_IMMOVABLE && oldest !== undefined) immovable.delete(oldest);
      immovable.add(immovableKeyOf(identity.ino, identity.mtime_ns));
      return false;
    }
  }

  return {
    isLeft: (stat: fs.BigIntStats) => immovable.has(immovableKeyOf(String(stat.ino), String(stat.mtimeNs))),

    moveToDone(inbox: OpenFolder, drop: DroppedFile, seq: number): void {
      const raw = rawNameOf(drop.handle);
      // Written to since it was read: the new content stays in the inbox and becomes a separate message.
      if (!isUnchangedSinceRead(inbox, raw, drop)) return;
      withFolder(paths.folder, [{ path: paths.done, make: true }], (done) => {
        const name = freeNameIn(done, `${seq}-${safeName(drop.name)}`);
        if (!move(inbox.bytePath(raw), done.bytePath(name), `${paths.done}/${name}`, drop)) return;
        // Somebody may have renamed a new message onto the name, or written to this one, since the check: it goes back
        // under a free name.
        if (statInFolder(done, name) && !isUnchangedSinceRead(done, name, drop, true)) {
          fs.renameSync(done.bytePath(name), inbox.bytePath(freeNameIn(inbox, safeName(drop.name))));
        }
      });
    },

    moveToRejected(inbox: OpenFolder, drop: DroppedFile, why: string): void {
      const raw = rawNameOf(drop.handle);
      if (!isUnchangedSinceRead(inbox, raw, drop)) return;
      withFolder(paths.folder, [{ path: paths.rejected, make: true }], (rejected) => {
        const isTaken = (name: string) => name.endsWith('.why.json') || statInFolder(rejected, name) !== undefined;
        const name = freeName(safeName(drop.name), isTaken);
        const reason: RejectionReason = { name: drop.name, why, at: now().toISOString() };
        const staged = stagingName();
        // The reason first: after a crash in between, the file is still in the inbox and is found again.
        wrapDiskErrors('refuse a message into', `${paths.rejected}/${name}`, () => {
          fs.writeFileSync(rejected.bytePath(staged), `${JSON.stringify(reason, null, 2)}\n`, {
            flag: 'wx',
            mode: 0o600,
          });
          fs.renameSync(rejected.bytePath(staged), rejected.bytePath(`${name}.why.json`));
        });
        const isAway = move(inbox.bytePath(raw), rejected.bytePath(name), `${paths.rejected}/${name}`, drop);
        // The reply has reported it; a reason without its file would be reported again after each restart.
        if (!isAway) fs.rmSync(rejected.bytePath(`${name}.why.json`), { force: true });
      });
    },
  };
}

const freeNameIn = (folder: OpenFolder, name: string) =>
  freeName(name, (one) => statInFolder(folder, one) !== undefined);
