import * as fs from 'node:fs';
import { basename, join } from 'node:path';
import type { SessionStore } from '../engine/ports.ts';
import { openApprovals } from './approvals.ts';
import { openBlobs } from './blobs.ts';
import { openCallFolders } from './call-folders.ts';
import { ownFolder, sweepOld, sweepStaging } from './durable.ts';
import { type InboxOptions, openInbox } from './inbox.ts';
import { type JournalOptions, openJournal } from './journal.ts';
import { sessionPaths } from './layout.ts';
import { openLive } from './live.ts';
import { openOutbox } from './outbox.ts';
import { openPlanFile } from './plan-file.ts';
import type { SessionToken } from './session-token.ts';
import { openSnapshots } from './snapshots.ts';
import { openTemplates } from './templates.ts';
import { filesAt, imageAt } from './work-files.ts';

export type SessionOptions = Pick<JournalOptions, 'now' | 'disk' | 'segmentBytes'> &
  Pick<InboxOptions, 'askWriters'> & {
    /** Which owner of the workspace writes; 1 where ownership is not counted. */
    epoch?: number;
    /** Milliseconds of a clock that never goes back. */
    elapsed?: () => number;
    /** Where the tools work, if not in the session's own `work/`. */
    work?: string;
    /** The `session.json` that gets the rules people add, if not the session's own. */
    settings?: string;
    /** The folder of the templates; without it there are none. */
    templates?: string;
  };

/**
 * Opens a session's folder for its only writer. Makes the folders that are missing and removes what an earlier writer left
 * half-made; throws UserError where something else stands in a folder's place. Closing gives the token back.
 */
export function openSessionFolder(folder: string, token: SessionToken, options: SessionOptions): SessionStore {
  try {
    return openedFolder(folder, token, options);
  } catch (error) {
    token.giveBack();
    throw error;
  }
}

function openedFolder(folder: string, token: SessionToken, options: SessionOptions): SessionStore {
  const paths = sessionPaths(folder);
  const world = { epoch: 1, elapsed: () => performance.now(), ...options, token };
  for (const path of foldersOf(folder)) ownFolder(path);
  for (const path of [folder, paths.blobs, paths.outboxStaging, paths.plans, paths.rejected]) sweepStaging(path);
  if (fs.existsSync(paths.sealed)) sweepStaging(ownFolder(paths.sealed));
  sweepOld(paths.inboxStaging, world.now());
  const journal = openJournal(paths, world);
  const inbox = openInbox(paths, world);
  const live = openLive(paths.live);
  const work = world.work ?? paths.work;
  return {
    name: basename(folder),
    journal,
    snapshots: openSnapshots(paths),
    blobs: openBlobs(paths.blobs, world.disk?.write),
    inbox,
    outbox: openOutbox(paths),
    plan: openPlanFile(paths, world.elapsed),
    live,
    calls: openCallFolders(paths.tools, world),
    templates: openTemplates(world.templates),
    approvals: openApprovals(paths, world.settings ?? paths.settings),
    async work(sub) {
      const root = ownFolder(work);
      return sub === undefined ? root : ownFolder(join(root, sub));
    },
    files: async (paths, most) => filesAt(ownFolder(work), paths, most),
    image: async (image) => imageAt(ownFolder(work), image),
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
export function foldersOf(folder: string): string[] {
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
