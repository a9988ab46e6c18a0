import * as fs from 'node:fs';
import { errorCode } from '../../base/user-error.ts';
import type { RunGuarded } from '../../engine/ports/session-ports.ts';
import type { DroppedFile, Inbox } from '../../engine/ports/store-ports.ts';
import { syncFile } from '../fs/durable-write.ts';
import { contentKeyOf, openChangeDetector } from '../fs/file-reads.ts';
import {
  keepFolderOpen,
  type OpenFolder,
  reportsBirthTime,
  statInFolder,
  watchFolderIdentity,
  withFolder,
} from '../fs/open-folder.ts';
import { DiskError } from '../fs/store-errors.ts';
import type { SessionPaths } from '../layout/layout.ts';
import { isCompleteByName } from '../layout/layout.ts';
import { rawNameOf, readDroppedFile } from './dropped-file.ts';
import {
  type FindWriters,
  findWritersInProc,
  type InboxEntry,
  openInboxListing,
  openReadinessCheck,
  type SeenFile,
} from './inbox-listing.ts';
import { moveAttachment, openProcessedFiles, placeAttachments } from './processed-files.ts';

/** How many files are checked together, with one pass over /proc. */
const BATCH_SIZE = 64;
/** The most message bytes returned by one read, so that a full inbox does not fill the memory. */
const MAX_BATCH_BYTES = 32 * 1024 * 1024;
/** Size limit of a message that skips the queue; such messages are a few words long. */
const MAX_URGENT_BYTES = 64n * 1024n;

export type InboxOptions = {
  now: () => Date;
  elapsed: () => number;
  askWriters?: FindWriters;
  /** Tells the watchdog which session's message is being read. */
  runGuarded?: RunGuarded;
};
type JudgedFile = { one: InboxEntry; seen: SeenFile; drop: DroppedFile | 'gone' | 'pending' };

/** The folder where anyone drops messages. Nothing in it is trusted, followed, waited for or deleted. */
export function openInbox(paths: SessionPaths, options: InboxOptions): Inbox & { close(): void } {
  const inboxFolder = keepFolderOpen(paths.folder, [{ path: paths.inbox }]);
  const isSame = watchFolderIdentity(paths.folder);
  const listing = openInboxListing(options.elapsed, options.now);
  const processed = openProcessedFiles(paths, options.now);
  /** Remembers that the folder is empty, since the loop checks it before each step of a run. */
  const empty = openChangeDetector(paths.inbox, options);
  const readCandidates = candidateReader(paths, options, processed, listing);
  const readUrgent = urgentReader(listing, readCandidates);

  /** Undefined if somebody removed it. */
  const openInboxFolder = (): OpenFolder | undefined => {
    if (!isSame()) {
      // The open event log was removed with the folder; messages in the new folder are not for it.
      throw new DiskError('ESTALE', `${paths.folder} was removed and recreated; it is opened again.`);
    }
    try {
      return inboxFolder.now();
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return undefined;
      throw error;
    }
  };

  return {
    async listReady({ max = 64, ahead } = {}) {
      if (empty.isUnchanged()) return { drops: [], pending: false, more: false };
      const keep = empty.beginRead();
      const inbox = openInboxFolder();
      if (!inbox) return { drops: [], pending: false, more: false };
      const isFresh = await listing.refresh(inbox);
      const drops: DroppedFile[] = [];
      let [pending, more, room] = [!isFresh || listing.skipped(), false, MAX_BATCH_BYTES];
      const page = listing.page();
      if (max === 0) more = page.length > 0;
      else {
        for await (const { seen, drop } of readCandidates(inbox, page)) {
          if (drops.length >= max || room <= 0) {
            more = true;
            break;
          }
          if (drop === 'pending') pending = true;
          else if (drop !== 'gone') {
            drops.push(drop);
            room -= Number(seen.stat.size);
          }
        }
        if (!more && drops.length === 0 && page.length > 0) listing.turn();
        if (!more && listing.behind()) {
          more = drops.length > 0;
          pending = true;
        }
      }
      if (ahead && (more || listing.behind())) pending = (await readUrgent(inbox, drops, ahead)) || pending;
      // A sender such as `echo` syncs nothing. If its file were taken unsynced, a power cut could leave a part of it in
      // the inbox, which would then be taken as another message, since it differs from the logged one.
      const read = drops.filter((drop) => drop.identity.sha256 !== '');
      await Promise.all(read.map((drop) => syncFile(inbox.bytePath(rawNameOf(drop.handle)))));
      if (page.length === 0 && drops.length === 0 && !pending && !more && !listing.behind()) keep();
      return { drops, pending, more };
    },

    placeAttachments: async (attachments) => placeAttachments(paths, attachments),

    async moveToDone(drop, seq, attachments) {
      for (const { from, to } of attachments) moveAttachment(paths, from, to);
      const inbox = openInboxFolder();
      if (inbox) processed.moveToDone(inbox, drop, seq);
    },

    async reject(drop, why) {
      const inbox = openInboxFolder();
      if (inbox) processed.moveToRejected(inbox, drop, why);
    },

    close: () => inboxFolder.close(),
  };
}

type ReadCandidates = (inbox: OpenFolder, some: readonly InboxEntry[]) => AsyncGenerator<JudgedFile>;

/** Returns a reader of candidates, one after another; those that are gone are removed from the listing. */
function candidateReader(
  paths: SessionPaths,
  options: InboxOptions,
  processed: ReturnType<typeof openProcessedFiles>,
  listing: InboxListing,
): ReadCandidates {
  const judgeReadiness = openReadinessCheck(options.elapsed, options.now, options.askWriters ?? findWritersInProc);
  const runGuarded: RunGuarded = options.runGuarded ?? ((_what, run) => run());
  return async function* readCandidates(inbox, some) {
    const gone = new Set<InboxEntry>();
    const hasBirthTimes = reportsBirthTime(paths.inbox, paths.folder);
    const removeLeftoverLink = createLeftoverLinkRemover(paths);
    try {
      for (let from = 0; from < some.length; from += BATCH_SIZE) {
        const batch = some.slice(from, from + BATCH_SIZE).flatMap((one) => {
          const stat = statCandidate(inbox, one.raw, removeLeftoverLink);
          if (!stat || processed.isLeft(stat)) gone.add(one);
          return stat && !processed.isLeft(stat) ? [{ one, seen: { raw: one.raw, stat } }] : [];
        });
        const plain = batch.filter(({ seen }) => !isCompleteByName(seen.raw) && seen.stat.isFile());
        const judge = await judgeReadiness(plain.map(({ seen }) => seen.stat));
        for (const { one, seen } of batch) {
          const isWhole = isCompleteByName(seen.raw) && seen.stat.size > 0n;
          const context = { at: options.now().getTime(), hasBirthTimes };
          const readiness = isWhole ? 'ready' : judge(seen.stat);
          const drop = runGuarded('reading a message', () => readDroppedFile(inbox, seen, readiness, context));
          if (drop === 'gone') gone.add(one);
          yield { one, seen, drop };
        }
      }
    } finally {
      listing.leave(gone);
    }
  };
}

type InboxListing = ReturnType<typeof openInboxListing>;
type IsUrgent = NonNullable<Parameters<Inbox['listReady']>[0]>['ahead'];

/** Returns a reader that adds the newest messages if they skip the queue, and resolves to whether one is pending. */
function urgentReader(listing: InboxListing, readCandidates: ReadCandidates) {
  /** Recently read new messages that may wait, by their stat at that time. */
  let waitingKeys = new Map<string, string>();
  return async (inbox: OpenFolder, drops: DroppedFile[], ahead: IsUrgent): Promise<boolean> => {
    const taken = new Set(drops.map((drop) => drop.handle.path));
    const some = listing.newest().filter(({ raw }) => {
      const name = raw.toString('latin1');
      const stat = taken.has(name) ? undefined : statInFolder(inbox, raw);
      return stat?.isFile() && stat.size <= MAX_URGENT_BYTES && waitingKeys.get(name) !== contentKeyOf(stat);
    });
    const before = waitingKeys;
    waitingKeys = new Map(
      listing.newest().map(({ raw }) => [raw.toString('latin1'), before.get(raw.toString('latin1')) ?? '']),
    );
    let pending = false;
    for await (const { seen, drop } of readCandidates(inbox, some)) {
      if (drop === 'pending') pending = true;
      else if (drop !== 'gone' && drop.ok && ahead?.(drop.message)) drops.push(drop);
      else waitingKeys.set(seen.raw.toString('latin1'), contentKeyOf(seen.stat));
    }
    return pending;
  };
}

/** The stat of an inbox entry, without opening it; undefined if it is gone. */
function statCandidate(
  inbox: OpenFolder,
  raw: Buffer,
  removeLeftoverLink: (ino: bigint) => void,
): SeenFile['stat'] | undefined {
  const stat = statInFolder(inbox, raw);
  if (!stat?.isFile() || stat.nlink <= 1n) return stat;
  removeLeftoverLink(stat.ino);
  return statInFolder(inbox, raw);
}

/** Names in `inbox/.tmp/` searched for a second link; more are garbage or an attack. */
const MAX_STAGING_NAMES = 10_000;

/**
 * A sender links its file into the inbox and then unlinks the staging name. If it died in between, both names remain,
 * and the returned function removes the staging name of a file. The folder is listed once for all files.
 */
function createLeftoverLinkRemover(paths: SessionPaths): (ino: bigint) => void {
  let names: Map<bigint, string> | undefined;
  return (ino) => {
    withFolder(paths.folder, [{ path: paths.inbox }, { path: paths.inboxStaging, make: true }], (staging) => {
      names ??= new Map(
        fs
          .readdirSync(staging.path('.'))
          .slice(0, MAX_STAGING_NAMES)
          .flatMap((name) => {
            const stat = statInFolder(staging, name);
            return stat?.isFile() && stat.nlink > 1n ? [[stat.ino, name] as const] : [];
          }),
      );
      const name = names.get(ino);
      if (name !== undefined && statInFolder(staging, name)?.ino === ino)
        fs.rmSync(staging.bytePath(name), { force: true });
    });
  };
}
