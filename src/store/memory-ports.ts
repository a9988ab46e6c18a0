import type { Drop, PlanSeen, SessionStore } from '../engine/ports.ts';
import { UserError } from '../protocol/errors.ts';
import type { Event } from '../protocol/event.ts';
import { binaryKind } from '../protocol/file-kind.ts';
import type { Attached } from '../protocol/images.ts';
import { BEGINNING, type Mark } from '../protocol/mark.ts';
import { isOutboxOwn } from '../protocol/names.ts';
import { sha256 } from './blobs.ts';
import { crcOf } from './checksum.ts';
import { decodeLine, type Line } from './line.ts';
import { MAX_MESSAGE_BYTES, readMessage } from './message-file.ts';
import { checkReplyName, earlierName, freeName, isIgnored, orderOf, promisesWhole, safeName } from './names.ts';
import { withRule } from './rule.ts';
import { stampLines } from './stamp.ts';

/** `changed` counts every write and move. */
export type File = { bytes: Buffer; ino: string; mtimeNs: bigint; changed: number };

/** A line as it would be on disk, and what it says, once somebody has read it: an event is never changed. */
type MemoryLine = { text: string; said?: Line };

/** What a session folder holds, so far as its ports show it. */
export type Contents = {
  lines: MemoryLine[];
  synced: number;
  snapshot: { mark: Mark; text: string } | undefined;
  blobs: Map<string, string>;
  inbox: Map<string, File>;
  files: Map<string, Buffer>;
  uploads: Set<string>;
  /** Files under `work/`, by `work/x`. */
  made: Map<string, Uint8Array>;
  done: Map<string, File>;
  rejected: Map<string, string>;
  outbox: Map<string, string>;
  read: Map<string, string>;
  plan: string | undefined;
  plans: Map<string, string>;
  templates: Map<string, string>;
  approvals: Map<number, string>;
  answered: Map<number, string>;
  settings: string | undefined;
  /** Saves that were moved away with an archived plan before anybody looked: told at the next look. */
  late: string[];
  live: string;
  drops: number;
};

/** The record as lines, so that what is appended is checked and read back as on disk. */
export function memoryJournal(contents: Contents, now: () => Date, epoch: number): SessionStore['journal'] {
  let end = 0;
  return {
    async read(each, from = BEGINNING) {
      const first = from === 'oldest' ? 0 : from.seq;
      if (from !== 'oldest' && !isMark(contents, from)) return 'unfit';
      for (const event of eventsOf(contents).slice(first)) each(event);
      contents.synced = end = contents.lines.length;
      return 'read';
    },
    mark: () => markAt(contents, end),
    async append(bodies) {
      const { text, events } = stampLines(bodies, { seq: contents.lines.length, epoch, at: now().toISOString() });
      for (const line of text.split('\n').slice(0, -1)) contents.lines.push({ text: line });
      end = contents.lines.length;
      return events;
    },
    async sync() {
      contents.synced = contents.lines.length;
    },
  };
}

function markAt({ lines }: Contents, seq: number): Mark {
  const before = lines.slice(0, seq);
  const offset = before.reduce((sum, line) => sum + Buffer.byteLength(line.text) + 1, 0);
  return { seq, segment: 1, offset, crc: crcOf(Buffer.from(before.at(-1)?.text ?? '')) ?? BEGINNING.crc };
}

const isMark = (contents: Contents, mark: Mark): boolean =>
  mark.seq <= contents.lines.length && JSON.stringify(markAt(contents, mark.seq)) === JSON.stringify(mark);

/** The last state that was saved, as JSON makes it; one the record does not fit is none. */
export function memorySnapshots(contents: Contents): SessionStore['snapshots'] {
  return {
    async load() {
      const { snapshot } = contents;
      if (!snapshot || !isMark(contents, snapshot.mark)) return undefined;
      return { mark: snapshot.mark, state: JSON.parse(snapshot.text) };
    },
    async save(mark, state) {
      contents.snapshot = { mark: { ...mark }, text: JSON.stringify(state) };
    },
  };
}

/** The events of the record so far. */
export function eventsOf({ lines }: Pick<Contents, 'lines'>): Event[] {
  const events: Event[] = [];
  for (const line of lines) {
    line.said ??= decodeLine(Buffer.from(line.text));
    if (line.said.ok) events.push(line.said.event);
  }
  return events;
}

/** The inbox, with the rules for names and content that the disk has; an empty file of the plain way waits for ever. */
export function memoryInbox(contents: Contents): SessionStore['inbox'] {
  const isGone = (drop: Drop) => contents.inbox.get(drop.handle.path)?.ino !== drop.identity.ino;
  return {
    async look({ max = 64, ahead = () => false } = {}) {
      const ordered = [...contents.inbox]
        .filter(([file]) => !isIgnored(Buffer.from(file)))
        .map(([file, at]) => ({ file, at, order: orderOf(Buffer.from(file), at.mtimeNs) }))
        .sort((a, b) => (a.order === b.order ? (a.file < b.file ? -1 : 1) : a.order < b.order ? -1 : 1));
      const isReady = ({ file, at }: { file: string; at: File }) =>
        promisesWhole(Buffer.from(file)) || at.bytes.length > 0;
      const ready = ordered.filter(isReady);
      const late = ready
        .slice(max)
        .slice(-64)
        .map(({ file, at }) => toDrop(file, at))
        .filter((drop) => drop.ok && ahead(drop.message));
      return {
        drops: [...ready.slice(0, max).map(({ file, at }) => toDrop(file, at)), ...late],
        pending: ready.length < ordered.length,
        more: ready.length > max + late.length,
      };
    },
    async place(attachments) {
      const places: Attached[] = [];
      for (const attachment of attachments) {
        const file = attachment.slice('.files/'.length);
        const content = contents.files.get(file);
        if (!content) throw new UserError(`The attachment ${attachment} is not there.`);
        const isTaken = (free: string) =>
          contents.uploads.has(`uploads/${free}`) || places.some(({ path }) => path === `uploads/${free}`);
        places.push({ path: `uploads/${freeName(safeName(file), isTaken)}`, ...factsOf(content) });
      }
      return places;
    },
    async settle(drop, seq, attachments) {
      for (const { from, to } of attachments) {
        const file = from.slice('.files/'.length);
        const content = contents.files.get(file);
        if (!content) continue;
        contents.files.delete(file);
        contents.uploads.add(to);
        contents.made.set(`work/${to}`, content);
      }
      const file = contents.inbox.get(drop.handle.path);
      if (!file || isGone(drop)) return;
      contents.done.set(`${seq}-${safeName(drop.name)}`, { ...file, changed: ++contents.drops });
      contents.inbox.delete(drop.handle.path);
    },
    async refuse(drop, why) {
      if (isGone(drop)) return;
      contents.rejected.set(
        freeName(safeName(drop.name), (taken) => contents.rejected.has(taken)),
        why,
      );
      contents.inbox.delete(drop.handle.path);
    },
  };
}

function factsOf(content: Buffer): Omit<Attached, 'path'> {
  const known = binaryKind(content);
  const image = known?.image && { type: known.image, sha256: sha256(content) };
  return { bytes: content.length, kind: known?.kind ?? 'text', ...(image && { image }) };
}

function toDrop(file: string, { bytes, ino, mtimeNs, changed }: File): Drop {
  const identity = { ino, mtime_ns: String(mtimeNs), sha256: sha256(bytes), ctime_ns: String(changed) };
  const said =
    bytes.length > MAX_MESSAGE_BYTES
      ? ({ ok: false, why: `too large: ${bytes.length} bytes` } as const)
      : readMessage(file, bytes);
  return { name: file, identity, handle: { path: file }, ...said };
}

/** `plan.json` without races: nobody saves in the middle of a write. */
export function memoryPlan(contents: Contents): SessionStore['plan'] {
  let seen: string | undefined;
  const look = (): PlanSeen => {
    const edited = contents.plan === undefined || contents.plan === seen ? [] : [contents.plan];
    const saves = [...contents.late, ...edited];
    if (saves.length > 0) return { is: 'edited', saves, inPlace: edited.length > 0 };
    return { is: contents.plan === undefined ? 'missing' : 'ours' };
  };
  return {
    look: async () => look(),
    keep: async () => {},
    accept: (bytes) => {
      const isLate = contents.late.includes(bytes);
      contents.late = contents.late.filter((late) => late !== bytes);
      if (!isLate || contents.plan === bytes) seen = bytes;
    },
    async write(content) {
      const before = look();
      if (before.is === 'edited') return before;
      contents.plan = content;
      seen = content;
      return { is: 'ours' };
    },
    async archive(id, content) {
      checkReplyName(id);
      contents.plans.set(id, content);
      if (contents.plan !== undefined && contents.plan !== seen) contents.late.push(contents.plan);
      contents.plan = undefined;
      seen = undefined;
    },
  };
}

/** Texts by the hash of their UTF-8 bytes. */
export function memoryBlobs(contents: Contents): SessionStore['blobs'] {
  return {
    async put(text) {
      const hash = sha256(text);
      contents.blobs.set(hash, Buffer.from(text).toString());
      return hash;
    },
    get: async (hash) => contents.blobs.get(hash),
  };
}

/** Reply files: other bytes under a name give way to its reply. There are no folders in it but its own. */
export function memoryOutbox(contents: Contents): SessionStore['outbox'] {
  const put = (wanted: string, content: string) => {
    const isTaken = (name: string) => contents.outbox.has(name) && contents.outbox.get(name) !== content;
    const file = isOutboxOwn(wanted) ? freeName(`${wanted}-2`, isTaken) : wanted;
    const there = contents.outbox.get(file);
    if (there !== undefined && there !== content) contents.outbox.set(freeName(earlierName(file), isTaken), there);
    contents.outbox.set(file, content);
  };
  return {
    isReserved: isOutboxOwn,
    async publish(file, content) {
      checkReplyName(file);
      if (contents.outbox.get(file) !== content && contents.read.get(file) !== content) put(file, content);
    },
    async restore(file) {
      checkReplyName(file);
      const content = contents.outbox.get(file) ?? contents.read.get(file);
      if (content !== undefined) contents.outbox.set(file, content);
      return content !== undefined;
    },
    async publishAgain(file, content) {
      checkReplyName(file);
      put(file, content);
    },
  };
}

/** `approvals/` and the rules of `session.json`, as on disk. */
export function memoryApprovals(contents: Contents): SessionStore['approvals'] {
  return {
    list: async () => [...contents.approvals.keys()].sort((a, b) => a - b),
    read: async (id) => contents.approvals.get(id),
    async write(id, content) {
      contents.approvals.set(id, content);
    },
    async settle(id, content) {
      contents.answered.set(id, content ?? contents.approvals.get(id) ?? '');
      contents.approvals.delete(id);
    },
    async always(pattern) {
      try {
        contents.settings = withRule(contents.settings, pattern);
        return null;
      } catch (error) {
        if (error instanceof UserError) return error.message;
        throw error;
      }
    },
  };
}
