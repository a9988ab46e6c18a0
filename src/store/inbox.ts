import type { Drop, Inbox } from '../engine/ports.ts';
import { errorCode } from '../protocol/errors.ts';
import { attachmentPlaces, takeAttachment } from './attachments.ts';
import { syncFile } from './durable.ts';
import { DiskError } from './errors.ts';
import { type Folder, heldFolder, statIn } from './folder.ts';
import { sameFolder, tellsBirth } from './folder-id.ts';
import type { SessionPaths } from './layout.ts';
import { promisesWhole } from './names.ts';
import { openPutAway } from './put-away.ts';
import { rawOf, readDrop } from './read-drop.ts';
import { type AskWriters, askProc, openReadiness, type Seen } from './readiness.ts';
import { twinsIn } from './twins.ts';
import { openUnchanged } from './unchanged.ts';
import { type Candidate, openWindow } from './window.ts';

/** Files looked at together: one question to /proc serves them all. */
const BATCH = 64;
/** Bytes of messages handed out by one look, so that a full inbox does not fill the memory. */
const MAX_ROUND_BYTES = 32 * 1024 * 1024;
/** A message that does not wait its turn is a few words. */
const MAX_AHEAD_BYTES = 64n * 1024n;

export type InboxOptions = { now: () => Date; elapsed: () => number; askWriters?: AskWriters };
type Judged = { one: Candidate; seen: Seen; drop: Drop | 'gone' | 'pending' };

/** The folder where anyone drops messages. Nothing in it is trusted, followed, waited for or deleted. */
export function openInbox(paths: SessionPaths, options: InboxOptions): Inbox & { close(): void } {
  const held = heldFolder(paths.folder, [{ path: paths.inbox }]);
  const isSame = sameFolder(paths.folder);
  const judging = openReadiness(options.elapsed, options.now, options.askWriters ?? askProc);
  const window = openWindow(options.elapsed, options.now);
  const putAway = openPutAway(paths, options.now);
  /** The folder with nothing in it to be taken. A beat looks here before each step of a run, and mostly in vain. */
  const empty = openUnchanged(paths.inbox, options);
  /** Those of the newest that were read and may wait, by what they were when they were read. */
  let heard = new Map<string, string>();

  /** Undefined where somebody removed it: nothing can be in it. */
  const there = (): Folder | undefined => {
    if (!isSame()) {
      // The record that is open went with the folder: what is in the new one is not for it.
      throw new DiskError('ESTALE', `${paths.folder} was removed and made again; it is opened anew.`);
    }
    try {
      return held.now();
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return undefined;
      throw error;
    }
  };

  /** Reads the candidates one after another; those that are gone leave the window. */
  async function* judged(inbox: Folder, some: readonly Candidate[]): AsyncGenerator<Judged> {
    const gone = new Set<Candidate>();
    const tells = tellsBirth(paths.inbox, paths.folder);
    const twins = twinsIn(paths);
    try {
      for (let from = 0; from < some.length; from += BATCH) {
        const batch = some.slice(from, from + BATCH).flatMap((one) => {
          const stat = lookAt(inbox, one.raw, twins);
          if (!stat || putAway.isLeft(stat)) gone.add(one);
          return stat && !putAway.isLeft(stat) ? [{ one, seen: { raw: one.raw, stat } }] : [];
        });
        const plain = batch.filter(({ seen }) => !promisesWhole(seen.raw) && seen.stat.isFile());
        const judge = await judging(plain.map(({ seen }) => seen.stat));
        for (const { one, seen } of batch) {
          const isWhole = promisesWhole(seen.raw) && seen.stat.size > 0n;
          const looking = { at: options.now().getTime(), tellsBirth: tells };
          const drop = readDrop(inbox, seen, isWhole ? 'ready' : judge(seen.stat), looking);
          if (drop === 'gone') gone.add(one);
          yield { one, seen, drop };
        }
      }
    } finally {
      window.leave(gone);
    }
  }

  /** The newest that must not wait their turn. */
  async function early(inbox: Folder, drops: Drop[], ahead: NonNullable<Parameters<Inbox['look']>[0]>['ahead']) {
    const taken = new Set(drops.map((drop) => drop.handle.path));
    const some = window.newest().filter(({ raw }) => {
      const name = raw.toString('latin1');
      const stat = taken.has(name) ? undefined : statIn(inbox, raw);
      return stat?.isFile() && stat.size <= MAX_AHEAD_BYTES && heard.get(name) !== keyOf(stat);
    });
    const before = heard;
    heard = new Map(
      window.newest().map(({ raw }) => [raw.toString('latin1'), before.get(raw.toString('latin1')) ?? '']),
    );
    let pending = false;
    for await (const { seen, drop } of judged(inbox, some)) {
      if (drop === 'pending') pending = true;
      else if (drop !== 'gone' && drop.ok && ahead?.(drop.message)) drops.push(drop);
      else heard.set(seen.raw.toString('latin1'), keyOf(seen.stat));
    }
    return pending;
  }

  return {
    async look({ max = 64, ahead } = {}) {
      if (empty.holds()) return { drops: [], pending: false, more: false };
      const keep = empty.look();
      const inbox = there();
      if (!inbox) return { drops: [], pending: false, more: false };
      const isFresh = await window.refresh(inbox);
      const drops: Drop[] = [];
      let [pending, more, room] = [!isFresh || window.skipped(), false, MAX_ROUND_BYTES];
      const page = window.page();
      if (max === 0) more = page.length > 0;
      else {
        for await (const { seen, drop } of judged(inbox, page)) {
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
        if (!more && drops.length === 0 && page.length > 0) window.turn();
        if (!more && window.behind()) {
          more = drops.length > 0;
          pending = true;
        }
      }
      if (ahead && (more || window.behind())) pending = (await early(inbox, drops, ahead)) || pending;
      // Who drops with `echo` syncs nothing. Were it taken like that, a power cut could leave a part of it in the inbox: a message
      // that nobody sent, since it is not the one on record.
      const read = drops.filter((drop) => drop.identity.sha256 !== '');
      await Promise.all(read.map((drop) => syncFile(inbox.at(rawOf(drop.handle)))));
      if (page.length === 0 && drops.length === 0 && !pending && !more && !window.behind()) keep();
      return { drops, pending, more };
    },

    place: async (attachments) => attachmentPlaces(paths, attachments),

    async settle(drop, seq, attachments) {
      for (const { from, to } of attachments) takeAttachment(paths, from, to);
      const inbox = there();
      if (inbox) putAway.settle(inbox, drop, seq);
    },

    async refuse(drop, why) {
      const inbox = there();
      if (inbox) putAway.refuse(inbox, drop, why);
    },

    close: () => held.close(),
  };
}

const keyOf = (stat: Seen['stat']) => `${stat.ino}:${stat.mtimeNs}:${stat.size}`;

/** What the inbox knows a name for, without opening it; nothing where it is gone. */
function lookAt(inbox: Folder, raw: Buffer, removeTwin: (ino: bigint) => void): Seen['stat'] | undefined {
  const stat = statIn(inbox, raw);
  if (!stat?.isFile() || stat.nlink <= 1n) return stat;
  removeTwin(stat.ino);
  return statIn(inbox, raw);
}
