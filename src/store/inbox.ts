import * as fs from 'node:fs';
import { readdir } from 'node:fs/promises';
import type { Drop, Inbox } from '../engine/ports.ts';
import { attachmentPlaces, takeAttachment } from './attachments.ts';
import { sha256 } from './blobs.ts';
import { stagingName } from './durable.ts';
import { ifThere, saying } from './errors.ts';
import { type Folder, heldFolder } from './folder.ts';
import type { SessionPaths } from './layout.ts';
import { freeName, isIgnored, orderOf, promisesWhole, safeName } from './names.ts';
import { rawOf, readDrop } from './read-drop.ts';
import { type AskWriters, askProc, openReadiness, type Readiness, type Seen } from './readiness.ts';

/** Bytes of a folder itself, in which some thousand names fit: it is read at once. A larger one is read on another thread. */
const SMALL_FOLDER_BYTES = 64 * 1024;
/** Files looked at together. More than that are taken in the order of their names, a batch at a time. */
const BATCH = 1000;
/** Bytes of messages handed out by one look, so that a full inbox does not fill the memory. */
const MAX_ROUND_BYTES = 32 * 1024 * 1024;

export type InboxOptions = { now: () => Date; elapsed: () => number; askWriters?: AskWriters };

/** The folder where anyone drops messages. Nothing in it is trusted, followed, waited for or deleted. */
export function openInbox(paths: SessionPaths, options: InboxOptions): Inbox & { close(): void } {
  const held = heldFolder(paths.inbox);
  const judging = openReadiness(options.elapsed, options.now, options.askWriters ?? askProc);

  async function* candidates(inbox: Folder): AsyncGenerator<{ seen: Seen; readiness: Readiness }> {
    const isSmall = fs.statSync(paths.inbox).size <= SMALL_FOLDER_BYTES;
    const read = isSmall ? fs.readdirSync : readdir;
    const names = (await read(paths.inbox, { encoding: 'buffer' })).filter((raw) => !isIgnored(raw));
    names.sort(Buffer.compare);
    for (let from = 0; from < names.length; from += BATCH) {
      const batch = inOrder(names.slice(from, from + BATCH).flatMap((raw) => lookAt(paths, inbox, raw)));
      const plain = batch.filter(({ raw, stat }) => !promisesWhole(raw) && stat.isFile());
      const judge = await judging(plain.map(({ stat }) => stat));
      for (const seen of batch) {
        const isWhole = promisesWhole(seen.raw) && seen.stat.size > 0n;
        yield { seen, readiness: isWhole ? 'ready' : judge(seen.stat) };
      }
    }
  }

  return {
    async look(max = 64) {
      const inbox = held.now();
      const drops: Drop[] = [];
      let [pending, room] = [false, MAX_ROUND_BYTES];
      for await (const { seen, readiness } of candidates(inbox)) {
        if (drops.length >= max || room <= 0) return { drops, pending, more: true };
        const drop = readDrop(inbox, seen, readiness);
        if (drop === 'pending') pending = true;
        else if (drop !== 'gone') {
          drops.push(drop);
          room -= Number(seen.stat.size);
        }
      }
      return { drops, pending, more: false };
    },

    async place(attachments) {
      return attachmentPlaces(paths, attachments);
    },

    async settle(drop, seq, attachments) {
      for (const { from, to } of attachments) takeAttachment(paths, from, to);
      const inbox = held.now();
      const source = inbox.at(rawOf(drop.handle));
      if (!isStillDropped(source, drop)) return;
      const done = `${paths.done}/${seq}-${safeName(drop.name)}`;
      saying('move a message to', done, () => ifThere(() => fs.renameSync(source, done)));
      // Somebody may have renamed a new message onto the name since we looked: that one goes back, under a free name.
      const moved = ifThere(() => fs.lstatSync(done));
      if (moved && String(moved.ino) !== drop.identity.ino) putBack(inbox, done, drop.name);
    },

    async refuse(drop, why) {
      const inbox = held.now();
      const source = inbox.at(rawOf(drop.handle));
      const there = ifThere(() => fs.lstatSync(source, { bigint: true }));
      if (String(there?.ino) !== drop.identity.ino) return;
      // The reason first: a crash in between leaves a reason without its file, and the next look finds the file again.
      const isTaken = (name: string) =>
        name.endsWith('.why.json') || ifThere(() => fs.lstatSync(`${paths.rejected}/${name}`)) !== undefined;
      const target = `${paths.rejected}/${freeName(safeName(drop.name), isTaken)}`;
      const reason = JSON.stringify({ name: drop.name, why, at: options.now().toISOString() }, null, 2);
      const staged = `${paths.rejected}/${stagingName()}`;
      saying('refuse a message into', target, () => {
        fs.writeFileSync(staged, `${reason}\n`, { flag: 'wx', mode: 0o600 });
        fs.renameSync(staged, `${target}.why.json`);
        ifThere(() => fs.renameSync(source, target));
      });
    },

    close: () => held.close(),
  };
}

/** What the inbox knows a name for, without opening it; nothing where it is gone. */
function lookAt(paths: SessionPaths, inbox: Folder, raw: Buffer): Seen[] {
  const lstat = () => ifThere(() => fs.lstatSync(inbox.at(raw), { bigint: true }));
  let stat = lstat();
  if (stat?.isFile() && stat.nlink > 1n) {
    removeTwin(paths, stat.ino);
    stat = lstat();
  }
  return stat ? [{ raw, stat }] : [];
}

/**
 * A sender links its file into the inbox and then unlinks the name it wrote under. One that died in between left two names;
 * taking the first away is all it had left to do.
 */
function removeTwin(paths: SessionPaths, ino: bigint): void {
  for (const name of ifThere(() => fs.readdirSync(paths.inboxStaging)) ?? []) {
    const twin = `${paths.inboxStaging}/${name}`;
    if (ifThere(() => fs.lstatSync(twin, { bigint: true }))?.ino === ino) fs.rmSync(twin, { force: true });
  }
}

function inOrder(batch: Seen[]): Seen[] {
  const keyed = batch.map((seen) => ({ seen, order: orderOf(seen.raw, seen.stat.mtimeNs) }));
  keyed.sort((a, b) => (a.order === b.order ? Buffer.compare(a.seen.raw, b.seen.raw) : a.order < b.order ? -1 : 1));
  return keyed.map(({ seen }) => seen);
}

/** Changed since it was read means new words: they stay in the inbox and become a message of their own. */
function isStillDropped(path: Buffer, { identity }: Drop): boolean {
  const there = ifThere(() => fs.lstatSync(path, { bigint: true }));
  if (!there || String(there.ino) !== identity.ino) return false;
  if (String(there.mtimeNs) === identity.mtime_ns) return true;
  return there.isFile() && ifThere(() => sha256(fs.readFileSync(path))) === identity.sha256;
}

function putBack(inbox: Folder, from: string, name: string): void {
  const isTaken = (candidate: string) => ifThere(() => fs.lstatSync(inbox.at(candidate))) !== undefined;
  fs.renameSync(from, inbox.at(freeName(safeName(name), isTaken)));
}
