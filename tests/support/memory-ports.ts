import { detectFileKind } from '../../src/base/file-kind.ts';
import { sha256 } from '../../src/base/sha256.ts';
import { UserError } from '../../src/base/user-error.ts';
import type { DroppedFile, PlanFileState, SessionStore } from '../../src/engine/ports/store-ports.ts';
import type { Event } from '../../src/protocol/session/event.ts';
import { LOG_START, type LogPosition } from '../../src/protocol/session/log-entry.ts';
import type { Attachment } from '../../src/protocol/session/message.ts';
import { isReservedOutboxName } from '../../src/protocol/workspace/session-names.ts';
import { type DecodedLine, decodeEventLine, stampEvents } from '../../src/store/event-log/event-codec.ts';
import { crcOfLine } from '../../src/store/event-log/log-lines.ts';
import { MAX_MESSAGE_BYTES, parseMessage } from '../../src/store/inbox/dropped-file.ts';
import {
  assertReplyName,
  freeName,
  inboxOrderOf,
  isCompleteByName,
  isIgnoredName,
  safeName,
  supersededName,
} from '../../src/store/layout/layout.ts';
import { addAllowRule } from '../../src/store/settings/settings-check.ts';

/** `changed` counts every write and move. */
export type File = { bytes: Buffer; ino: string; mtimeNs: bigint; changed: number };

/** A line as it would be on disk, and what it says, once somebody has read it: an event is never changed. */
type MemoryLine = { text: string; decoded?: DecodedLine };

/** What a session folder holds, so far as its ports show it. */
export type Contents = {
  lines: MemoryLine[];
  synced: number;
  snapshot: { mark: LogPosition; text: string } | undefined;
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
export function memoryJournal(contents: Contents, now: () => Date, epoch: number): SessionStore['eventLog'] {
  let end = 0;
  return {
    async read(each, from = LOG_START) {
      const first = from === 'oldest' ? 0 : from.seq;
      if (from !== 'oldest' && !isMark(contents, from)) return 'unfit';
      for (const event of eventsOf(contents).slice(first)) each(event);
      contents.synced = end = contents.lines.length;
      return 'read';
    },
    position: () => markAt(contents, end),
    async append(bodies) {
      const { text, events } = stampEvents(bodies, { seq: contents.lines.length, epoch, at: now().toISOString() });
      for (const line of text.split('\n').slice(0, -1)) contents.lines.push({ text: line });
      end = contents.lines.length;
      return events;
    },
    listCuts: async () => [],
    async sync() {
      contents.synced = contents.lines.length;
    },
  };
}

function markAt({ lines }: Contents, seq: number): LogPosition {
  const before = lines.slice(0, seq);
  const offset = before.reduce((sum, line) => sum + Buffer.byteLength(line.text) + 1, 0);
  return { seq, segment: 1, offset, crc: crcOfLine(Buffer.from(before.at(-1)?.text ?? '')) ?? LOG_START.crc };
}

const isMark = (contents: Contents, mark: LogPosition): boolean =>
  mark.seq <= contents.lines.length && JSON.stringify(markAt(contents, mark.seq)) === JSON.stringify(mark);

/** The last state that was saved, as JSON makes it; one the event log does not fit is none. */
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

/** The events so far. */
export function eventsOf({ lines }: Pick<Contents, 'lines'>): Event[] {
  const events: Event[] = [];
  for (const line of lines) {
    line.decoded ??= decodeEventLine(Buffer.from(line.text));
    if (line.decoded.ok) events.push(line.decoded.event);
  }
  return events;
}

/** The inbox, with the rules for names and content that the disk has; an empty file of the plain way waits for ever. */
export function memoryInbox(contents: Contents): SessionStore['inbox'] {
  const isGone = (drop: DroppedFile) => contents.inbox.get(drop.handle.path)?.ino !== drop.identity.ino;
  return {
    async listReady({ max = 64, ahead = () => false } = {}) {
      const ordered = [...contents.inbox]
        .filter(([file]) => !isIgnoredName(Buffer.from(file)))
        .map(([file, at]) => ({ file, at, order: inboxOrderOf(Buffer.from(file), at.mtimeNs) }))
        .sort((a, b) => (a.order === b.order ? (a.file < b.file ? -1 : 1) : a.order < b.order ? -1 : 1));
      const isReady = ({ file, at }: { file: string; at: File }) =>
        isCompleteByName(Buffer.from(file)) || at.bytes.length > 0;
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
    async placeAttachments(attachments) {
      const places: Attachment[] = [];
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
    async moveToDone(drop, seq, attachments) {
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
    async reject(drop, why) {
      if (isGone(drop)) return;
      contents.rejected.set(
        freeName(safeName(drop.name), (taken) => contents.rejected.has(taken)),
        why,
      );
      contents.inbox.delete(drop.handle.path);
    },
  };
}

function factsOf(content: Buffer): Omit<Attachment, 'path'> {
  const known = detectFileKind(content);
  const image = known?.image && { type: known.image, sha256: sha256(content) };
  return { bytes: content.length, kind: known?.kind ?? 'text', ...(image && { image }) };
}

function toDrop(file: string, { bytes, ino, mtimeNs, changed }: File): DroppedFile {
  const identity = { ino, mtime_ns: String(mtimeNs), sha256: sha256(bytes), ctime_ns: String(changed) };
  const parsed =
    bytes.length > MAX_MESSAGE_BYTES
      ? ({ ok: false, why: `too large: ${bytes.length} bytes` } as const)
      : parseMessage(file, bytes);
  return { name: file, identity, handle: { path: file }, ...parsed };
}

/** `plan.json` without races: nobody saves in the middle of a write. */
export function memoryPlan(contents: Contents): SessionStore['plan'] {
  let seen: string | undefined;
  const look = (): PlanFileState => {
    const edited = contents.plan === undefined || contents.plan === seen ? [] : [contents.plan];
    const saves = [...contents.late, ...edited];
    if (saves.length > 0) return { is: 'edited', saves, inPlace: edited.length > 0 };
    return { is: contents.plan === undefined ? 'missing' : 'ours' };
  };
  return {
    detectEdits: async () => look(),
    sync: async () => {},
    sha256,
    markSeen: (bytes) => {
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
    async setAside() {
      const unread = [...contents.late, ...(contents.plan === undefined ? [] : [contents.plan])];
      contents.late = [];
      contents.plan = undefined;
      seen = undefined;
      return unread.map((_, n) => `${n + 1}.unread.json`);
    },
    async archive(id, content, shown = 'remove') {
      assertReplyName(id);
      const isThere = contents.plans.get(id) === content;
      contents.plans.set(id, content);
      if (shown === 'keep') return false;
      if (contents.plan === undefined) return true;
      if (isThere && !contents.plan.includes(`"id": "${id}"`)) return false;
      if (contents.plan !== undefined && contents.plan !== seen) contents.late.push(contents.plan);
      contents.plan = undefined;
      seen = undefined;
      return true;
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
    const file = isReservedOutboxName(wanted) ? freeName(`${wanted}-2`, isTaken) : wanted;
    const present = contents.outbox.get(file);
    if (present !== undefined && present !== content)
      contents.outbox.set(freeName(supersededName(file), isTaken), present);
    contents.outbox.set(file, content);
  };
  return {
    isReserved: isReservedOutboxName,
    async publish(file, content) {
      assertReplyName(file);
      if (contents.outbox.get(file) !== content && contents.read.get(file) !== content) put(file, content);
    },
    async restore(file) {
      assertReplyName(file);
      const content = contents.outbox.get(file) ?? contents.read.get(file);
      if (content !== undefined) contents.outbox.set(file, content);
      return content !== undefined;
    },
    async republish(file, content) {
      assertReplyName(file);
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
    async archive(id, content) {
      contents.answered.set(id, content ?? contents.approvals.get(id) ?? '');
      contents.approvals.delete(id);
    },
    async addAllowRule(pattern) {
      try {
        contents.settings = addAllowRule(contents.settings, pattern);
        return null;
      } catch (error) {
        if (error instanceof UserError) return error.message;
        throw error;
      }
    },
  };
}
