import type { Event, EventBody, FileIdentity } from '../../protocol/session/event.ts';
import type { LogPosition } from '../../protocol/session/log-entry.ts';
import type { Attachment, ImageFile, MessageFile } from '../../protocol/session/message.ts';
import type { Template } from '../../protocol/templates/template.ts';

// --- the session folder
// -----------------------------------------------------------------------------------------------

/** One session's folder, opened by its only writer. */
export type SessionStore = {
  name: string;
  eventLog: EventLog;
  snapshots: Snapshots;
  blobs: Blobs;
  inbox: Inbox;
  outbox: Outbox;
  plan: PlanFile;
  live: LiveText;
  calls: CallFolders;
  templates: Templates;
  approvals: ApprovalFiles;
  /** Absolute path of `work/`, or of a folder in it, made if it is missing. Of a child session it is its root's. */
  work(folder?: string): Promise<string>;
  /**
   * Of paths such as `work/a/x.csv`, the regular files that are there and reached through no link, in order; at most
   * `most`.
   */
  files(paths: readonly string[], most: number): Promise<string[]>;
  /** The bytes of an image under `work/`; undefined where it is no longer what it was. */
  image(image: ImageFile): Promise<Uint8Array | undefined>;
  /** Gives back descriptors and watches nothing. */
  close(): Promise<void>;
};

/** `events.jsonl`. Appends of one session happen one after another, in the order they were asked for. */
export type EventLog = {
  /**
   * Reads the record from its start, or what comes after a mark, checking seq and crc of each line. A torn last line is
   * cut off and kept beside the record; anything else that is wrong throws `CorruptLogError` and leaves every byte as
   * it is. So does a reading from the start where retention removed it; 'oldest' begins with the oldest event that is
   * kept. 'unfit': the record does not have that mark; no event was told, and the caller reads from the start.
   */
  read(each: (event: Event) => void, from?: LogPosition | 'oldest'): Promise<'read' | 'unfit'>;
  /** The end of what was read or appended last. */
  position(): LogPosition;
  /** Stamps and writes events as one piece. They may be lost by a power cut until `sync` has returned. */
  append(bodies: EventBody[]): Promise<Event[]>;
  /** Everything appended before this call survives a power cut. Costs nothing where nothing is open. */
  sync(): Promise<void>;
};

/**
 * What a record meant at a mark. It saves reading what comes before, and is never the truth: one that is lost costs
 * time.
 */
export type Snapshots = {
  /**
   * The newest one whose mark the record has. Undefined where there is none, or where its file is damaged: never an
   * error.
   */
  load(): Promise<{ mark: LogPosition; state: unknown } | undefined>;
  /** Replaces the last one. `state` comes back as JSON makes it. */
  save(mark: LogPosition, state: unknown): Promise<void>;
};

/** Texts too long for a line of the record, by the hash of their content. */
export type Blobs = {
  /** Durable when it returns. The same text twice is one blob. Returns the sha256 in hex. */
  put(text: string): Promise<string>;
  get(hash: string): Promise<string | undefined>;
};

/** A dropped file that is ready: it was read whole, and nobody is writing to it. */
export type DroppedFile = {
  /** The file's name in `inbox/`, as text fit to be shown; never used to build another path. */
  name: string;
  identity: FileIdentity;
  /** When the file was made, in ns; undefined where the file system does not tell. */
  born?: bigint | undefined;
} & (
  | {
      ok: true;
      message: MessageFile;
      /** Whether the reply is wanted as JSON. */
      json: boolean;
      handle: DroppedFileHandle;
    }
  /** `why`: what was wanted, what came, what to do. */
  | { ok: false; why: string; handle: DroppedFileHandle }
);

/** What the store needs to find the file again, and to know whether it was written to since; opaque to the engine. */
export type DroppedFileHandle = { readonly path: string; readonly isAged?: boolean };

export type InboxQuery = { max?: number; ahead?: (message: MessageFile) => boolean };

export type Inbox = {
  /**
   * What is ready, oldest first, at most `max` (64); then those of the 64 newest behind them that `ahead` wants before
   * their turn. `pending`: something is there but not ready yet (empty, or open for writing) or was not looked at yet,
   * so look again within a second. `more`: something waits that `max` left out. Never follows a link, never hangs on a
   * pipe, never deletes.
   */
  listReady(wanted?: InboxQuery): Promise<{ drops: DroppedFile[]; pending: boolean; more: boolean }>;
  /**
   * Where the attachments of a message will go, and what they are: names under `work/`, none of them taken. Throws
   * UserError if one is missing.
   */
  placeAttachments(attachments: string[]): Promise<Attachment[]>;
  /**
   * After the message is durable: moves attachments to their places and the file to `done/<seq>-<name>`. Idempotent.
   */
  moveToDone(drop: DroppedFile, seq: number, attachments: Array<{ from: string; to: string }>): Promise<void>;
  /**
   * Moves the file to `rejected/` with `<name>.why.json` beside it. Idempotent. What may not be moved (settle and
   * refuse alike) stays where it is and is not handed out again as long as it does not change.
   */
  reject(drop: DroppedFile, why: string): Promise<void>;
};

export type Outbox = {
  /** Whether no reply may have this name: it is the outbox's own, or that of a folder somebody made there. */
  isReserved(name: string): boolean;
  /**
   * Puts a reply file in place, whole and durable, exactly once: where these bytes are already under the name in
   * `outbox/` or
   * `outbox/read/`, nothing changes. Other bytes under the name in `outbox/` are kept under another name there.
   */
  publish(name: string, content: string): Promise<void>;
  /** For a message that was sent again: puts the reply in place even if it had been consumed. */
  republish(name: string, content: string): Promise<void>;
  /** The same where the record no longer has its text: from `outbox/read/`. False where it is not kept there either. */
  restore(name: string): Promise<boolean>;
};

/** What is in `plan.json` now, compared with what this daemon last put there. */
export type PlanFileState =
  | { is: 'ours' }
  | { is: 'missing' }
  /**
   * Somebody saved it: the bytes they saved, oldest first. `inPlace`: the last of them is what is in the file now; the
   * others, or all of them, were found in files that had been moved away.
   */
  | { is: 'edited'; saves: string[]; inPlace: boolean }
  /** What stands there is no file to read: a link, a folder, a pipe, or far too large. It is left alone. */
  | { is: 'blocked'; why: string };

export type PlanFile = {
  /** One lstat where nothing happened. After a restart everything that is there counts as edited until `accept`. */
  detectEdits(thorough?: boolean): Promise<PlanFileState>;
  /**
   * What `look` told survives a power cut: a record of it must not be ahead of the file, or the file would seem to be
   * taken back.
   */
  sync(): Promise<void>;
  /** The bytes now in the file are understood (merged, or left alone because they do not parse) and count as seen. */
  markSeen(bytes: string): void;
  /** SHA-256 in hex, by which a save is known again. By the system's own code: a save may have megabytes. */
  sha256(bytes: string): string;
  /**
   * Replaces the file without losing a save: the old name is moved to `plans/history/` and read there, the new one
   * linked in. Where somebody saved meanwhile, theirs stays in place, nothing is written and it answers `edited`; so it
   * is with `blocked`.
   */
  write(content: string): Promise<PlanFileState>;
  /**
   * Puts `plans/<id>.json` in place and takes the `plan.json` that shows it away (moved to history, never deleted).
   * Again: nothing.
   */
  archive(id: string, content: string): Promise<void>;
};

/** Text of the model call in flight. Never synced; errors writing it are of no consequence. */
export type LiveText = {
  begin(): void;
  write(text: string): void;
};

/** `tools/`: a private folder for each call that needs one, there until its end is durable on record. */
export type CallFolders = {
  /** Absolute path of this call's folder, a name that no other call gets. Nothing is made there. */
  pathOf(call: string): string;
  /** Calls that have a folder. */
  list(): Promise<string[]>;
  remove(call: string): Promise<void>;
};

/** `approvals/`: calls that wait for a person. Projections of the record, in which people write their answer. */
export type ApprovalFiles = {
  /** Numbers of the files that are there. */
  list(): Promise<number[]>;
  /** What is in a file now; undefined where there is none, or nothing that could be read as a text. */
  read(id: number): Promise<string | undefined>;
  write(id: number, content: string): Promise<void>;
  /** Out of `approvals/`, into `approvals/answered/`: with this content, or as it is. Idempotent. */
  archive(id: number, content: string | undefined): Promise<void>;
  /** Adds an allowing rule to `session.json`, keeping all else that is there. Answers why it could not, in words. */
  addAllowRule(pattern: string): Promise<string | null>;
};

/** `templates/` of the workspace, written by people. */
export type Templates = {
  /**
   * The template of that name as it is now, or in words why it cannot be had: the names there are, or what is wrong and
   * where.
   */
  read(name: string): Promise<{ ok: true; template: Template } | { ok: false; why: string }>;
  /** Names of all templates, sorted. */
  names(): Promise<string[]>;
};
