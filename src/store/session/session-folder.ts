import * as fs from 'node:fs';
import { basename, join } from 'node:path';
import { sha256 } from '../../base/sha256.ts';
import type { Blobs, SessionStore } from '../../engine/ports/store-ports.ts';
import { openEventLog } from '../event-log/event-log.ts';
import type { SessionToken } from '../event-log/log-writers.ts';
import type { EventLogOptions } from '../event-log/open-log.ts';
import {
  ensureFolder,
  placeNewFile,
  removeOldStaging,
  removeStaging,
  stagingName,
  syncFolder,
} from '../fs/durable-write.ts';
import { readFileBytes } from '../fs/file-reads.ts';
import { CorruptLogError, ifExists, wrapDiskErrors } from '../fs/store-errors.ts';
import { type InboxOptions, openInbox } from '../inbox/inbox.ts';
import { sessionPaths } from '../layout/layout.ts';
import { openPlanFile } from '../plan/plan-file.ts';
import { openTemplates } from '../templates/template-store.ts';
import { openApprovalFiles } from './approval-files.ts';
import { openLiveText, openOutbox } from './outbox.ts';
import { openSnapshotStore } from './snapshots.ts';
import { listExistingFiles, openCallFolders, readImage } from './work-files.ts';

export type SessionFolderOptions = Pick<EventLogOptions, 'now' | 'disk' | 'segmentBytes' | 'closedEpoch' | 'own'> &
  Pick<InboxOptions, 'askWriters' | 'runGuarded'> & {
    /** The writer's epoch; 1 if ownership is not tracked. */
    epoch?: number;
    /** Milliseconds of a monotonic clock. */
    elapsed?: () => number;
    /** Where the tools work; default: the session's own `work/`. */
    work?: string;
    /** The `session.json` that receives the rules people add; default: the session's own. */
    settings?: string;
    /** The folder of the templates; without it there are none. */
    templates?: string;
  };

/**
 * Opens a session's folder for its only writer. Creates missing folders and removes staging files of an earlier writer;
 * throws UserError if something else is in a folder's place. Closing gives the token back.
 */
export function openSessionFolder(folder: string, token: SessionToken, options: SessionFolderOptions): SessionStore {
  try {
    return openedFolder(folder, token, options);
  } catch (error) {
    token.giveBack();
    throw error;
  }
}

function openedFolder(folder: string, token: SessionToken, options: SessionFolderOptions): SessionStore {
  const paths = sessionPaths(folder);
  const world = { epoch: 1, elapsed: () => performance.now(), ...options, token };
  for (const path of foldersOfSession(folder)) ensureFolder(path);
  for (const path of [folder, paths.blobs, paths.outboxStaging, paths.plans, paths.rejected]) removeStaging(path);
  if (fs.existsSync(paths.rotated)) removeStaging(ensureFolder(paths.rotated));
  removeOldStaging(paths.inboxStaging, world.now(), 'all');
  const journal = openEventLog(paths, world);
  const inbox = openInbox(paths, world);
  const live = openLiveText(paths.live);
  const work = world.work ?? paths.work;
  return {
    name: basename(folder),
    eventLog: journal,
    snapshots: openSnapshotStore(paths),
    blobs: openBlobs(paths.blobs),
    inbox,
    outbox: openOutbox(paths, world.disk),
    plan: openPlanFile(paths, world.elapsed),
    live,
    calls: openCallFolders(paths.tools, world),
    templates: openTemplates(world.templates),
    approvals: openApprovalFiles(paths, world.settings ?? paths.settings),
    async work(sub) {
      const root = ensureFolder(work);
      return sub === undefined ? root : ensureFolder(join(root, sub));
    },
    files: async (paths, most) => listExistingFiles(ensureFolder(work), paths, most),
    image: async (image) => readImage(ensureFolder(work), image),
    async close() {
      try {
        await journal.close();
        inbox.close();
        live.close();
      } finally {
        token.giveBack();
      }
    },
  };
}

/** The folders of a session, parents first. */
export function foldersOfSession(folder: string): string[] {
  const paths = sessionPaths(folder);
  return [
    paths.inbox,
    paths.inboxStaging,
    paths.inboxFiles,
    paths.outbox,
    paths.outboxStaging,
    paths.outboxRead,
    paths.plans,
    paths.planHistory,
    paths.blobs,
    paths.work,
    paths.tools,
    paths.done,
    paths.rejected,
  ];
}

/**
 * Texts by the hash of their UTF-8 bytes. A file whose content does not match its name throws CorruptLogError. Blobs
 * never use the disk reserve: a long text would leave no space for the line that ends a call.
 */
export function openBlobs(folder: string): Blobs {
  return {
    async put(text) {
      const hash = sha256(text);
      const path = join(folder, hash);
      // An earlier process may have died before it synced the folder, so an existing blob is synced as well.
      if (ifExists(() => isMarkedUsed(path))) await syncFolder(folder);
      else await placeNewFile(join(folder, stagingName()), path, text);
      return hash;
    },
    async get(hash) {
      if (!/^[0-9a-f]{64}$/.test(hash)) return undefined;
      const path = join(folder, hash);
      const bytes = wrapDiskErrors('read', path, () => ifExists(() => readFileBytes(path)));
      if (bytes && sha256(bytes) !== hash) throw new CorruptLogError(path, 'its content is not what its name says.');
      return bytes?.toString();
    },
  };
}

/** Sets a blob's time to now, so that retention, which may be running, keeps it. Throws ENOENT if there is none. */
function isMarkedUsed(path: string): true {
  const now = new Date();
  fs.lutimesSync(path, now, now);
  return true;
}
