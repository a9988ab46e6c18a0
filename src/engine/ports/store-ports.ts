import type { ChangeCounts, CheckpointReason, FileChange } from '../../protocol/session/checkpoint.ts';
import type { Event, EventBody } from '../../protocol/session/event.ts';
import type { FileIdentity, LogPosition } from '../../protocol/session/log-entry.ts';
import type { Attachment, ImageFile, MessageFile, PlannedMessage } from '../../protocol/session/message.ts';
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
  /** Makes schedules of messages. If left out, there are none. */
  reminders?: Reminders;
  /** Absolute path of `work/`, or of a folder in it, created if missing. For a child session it is its root's. */
  work(folder?: string): Promise<string>;
  /**
   * Of paths such as `work/a/x.csv`, those that are regular files reached through no link, in order; at most `most`.
   */
  files(paths: readonly string[], most: number): Promise<string[]>;
  /** The bytes of an image under `work/`; undefined if it has changed since. */
  image(image: ImageFile): Promise<Uint8Array | undefined>;
  /** Closes all descriptors. */
  close(): Promise<void>;
};

/** `events.jsonl`. Appends of one session happen one after another, in the order they were requested. */
export type EventLog = {
  /**
   * Reads the log from its start, or from a position, checking seq and crc of each line. A torn tail is cut off and
   * kept next to the log; any other damage throws `CorruptLogError` and leaves every byte as it is. So does reading
   * from the start if retention removed it; 'oldest' starts with the oldest event that is kept. Returns 'unfit' if the
   * log does not have that position: no event was emitted, and the caller reads from the start.
   *
   * A log that is shorter than the files beside it prove is damaged, too. `pending`, called after the last event, adds
   * what only the reduced state knows.
   */
  read(
    each: (event: Event) => void,
    from?: LogPosition | 'oldest',
    pending?: () => PendingWork,
  ): Promise<'read' | 'unfit'>;
  /** Names of files and folders next to the log that keep what was cut off its end. */
  listCuts(): Promise<string[]>;
  /** The end of what was last read or appended. */
  position(): LogPosition;
  /** Stamps and writes events as one batch. They may be lost in a power cut until `sync` has returned. */
  append(bodies: EventBody[]): Promise<Event[]>;
  /** Makes everything appended before this call durable. Costs nothing if nothing is pending. */
  sync(): Promise<void>;
};

/**
 * What is still to happen according to a log: calls that were requested and have not begun, by key, and replies that
 * are not committed, by the name of their file. A file that shows the opposite proves that events are missing.
 */
export type PendingWork = { calls: readonly string[]; replies: ReadonlyArray<{ name: string; message: string }> };

/**
 * The state of a session at a position of its log. It saves reading what comes before, and is never authoritative:
 * losing one costs time.
 */
export type Snapshots = {
  /**
   * The newest snapshot whose position the log has. Undefined if there is none, or its file is damaged: never an error.
   */
  load(): Promise<{ mark: LogPosition; state: unknown } | undefined>;
  /** Replaces the last one. `state` is returned as JSON converts it. */
  save(mark: LogPosition, state: unknown): Promise<void>;
};

/** Texts too long for a line of the log, by the hash of their content. */
export type Blobs = {
  /** Durable when it returns. The same text twice is one blob. Returns the SHA-256 in hex. */
  put(text: string): Promise<string>;
  get(hash: string): Promise<string | undefined>;
};

/** A dropped file that is ready: it was read whole, and nobody is writing to it. */
export type DroppedFile = {
  /** The file's name in `inbox/`, as text that is safe to show; never used to build another path. */
  name: string;
  identity: FileIdentity;
  /** When the file was created, in ns; undefined if the file system does not report it. */
  born?: bigint | undefined;
} & (
  | {
      ok: true;
      message: MessageFile;
      /** Whether the reply is to be JSON. */
      json: boolean;
      handle: DroppedFileHandle;
    }
  /** `why`: what was expected, what was found, what to do. */
  | { ok: false; why: string; handle: DroppedFileHandle }
);

/** What the store needs to find the file again and to detect later writes; opaque to the engine. */
export type DroppedFileHandle = { readonly path: string; readonly isAged?: boolean };

export type InboxQuery = { max?: number; ahead?: (message: MessageFile) => boolean };

export type Inbox = {
  /**
   * What is ready, oldest first, at most `max` (64); then, of the next 64, those that `ahead` selects to be handled
   * early. `pending`: something is there but not ready yet (empty, or open for writing) or not checked yet, so check
   * again within a second. `more`: something waits that `max` left out. Never follows a link, never hangs on a pipe,
   * never deletes.
   */
  listReady(wanted?: InboxQuery): Promise<{ drops: DroppedFile[]; pending: boolean; more: boolean }>;
  /**
   * Where the attachments of a message will go, and what they are: unused names under `work/`. Throws UserError if one
   * is missing.
   */
  placeAttachments(attachments: string[]): Promise<Attachment[]>;
  /** Once the message is durable: moves attachments to their places and the file to `done/<seq>-<name>`. Idempotent. */
  moveToDone(drop: DroppedFile, seq: number, attachments: Array<{ from: string; to: string }>): Promise<void>;
  /**
   * Moves the file to `rejected/` with `<name>.why.json` next to it. Idempotent. A file that cannot be moved (by this
   * or `moveToDone`) stays where it is and is not listed again until it changes.
   */
  reject(drop: DroppedFile, why: string): Promise<void>;
};

export type Outbox = {
  /** Whether no reply may have this name: it belongs to the outbox itself, or to a folder somebody made there. */
  isReserved(name: string): boolean;
  /**
   * Puts a reply file in place, whole and durable, exactly once: if these bytes are already under the name in `outbox/`
   * or `outbox/read/`, nothing changes. Different bytes under the name in `outbox/` are kept under another name there.
   */
  publish(name: string, content: string): Promise<void>;
  /** For a message that was sent again: puts the reply in place even if it had been consumed. */
  republish(name: string, content: string): Promise<void>;
  /** The same if the log no longer has its text: from `outbox/read/`. False if it is not kept there either. */
  restore(name: string): Promise<boolean>;
};

/** The current content of `plan.json`, compared with what this daemon last wrote there. */
export type PlanFileState =
  | { is: 'ours' }
  | { is: 'missing' }
  /**
   * Somebody saved it: the bytes they saved, oldest first. `inPlace`: the last of them is what is in the file now; the
   * others, or all of them, were found in files that had been moved away.
   */
  | { is: 'edited'; saves: string[]; inPlace: boolean }
  /** It is not a readable file: a link, a folder, a pipe, or far too large. It is left alone. */
  | { is: 'blocked'; why: string };

export type PlanFile = {
  /** One lstat if nothing happened. After a restart everything that is there counts as edited until `markSeen`. */
  detectEdits(thorough?: boolean): Promise<PlanFileState>;
  /**
   * Makes what `detectEdits` returned durable: the log must not be ahead of the file, or the edit would seem to be
   * reverted.
   */
  sync(): Promise<void>;
  /**
   * The bytes now in the file have been processed (merged, or left alone because they do not parse) and count as seen.
   */
  markSeen(bytes: string): void;
  /** SHA-256 in hex, which identifies a save. Uses the system's implementation: a save may have megabytes. */
  sha256(bytes: string): string;
  /**
   * Replaces the file without losing a save: the old name is moved to `plans/history/` and read there, and the new file
   * is linked in. If somebody saved in the meantime, their save stays in place, nothing is written, and the result is
   * `edited`; the same holds for `blocked`.
   */
  write(content: string): Promise<PlanFileState>;
  /**
   * Puts `plans/<id>.json` in place and removes the `plan.json` that shows it (moved to history, never deleted), or
   * keeps it, for a plan that is at work again. Idempotent. Returns whether no `plan.json` is left.
   */
  archive(id: string, content: string, shown?: 'keep' | 'remove'): Promise<boolean>;
  /**
   * Moves the file, and every save not accepted yet, to `plans/history/<n>.unread.json` without reading them: nothing
   * reads those names. Returns the names in `plans/history/`.
   */
  setAside(): Promise<string[]>;
};

/** Text of the model call in flight. Never synced; errors writing it do not matter. */
export type LiveText = {
  begin(): void;
  write(text: string): void;
  /** The call is over. Text that is not there yet is left out: readers take it for that of another call. */
  end(): void;
};

/** `tools/`: a private folder for each call that needs one, kept until its end is durable in the log. */
export type CallFolders = {
  /** Absolute path of this call's folder, a name that no other call gets. Nothing is created there. */
  pathOf(call: string): string;
  /** Calls that have a folder. */
  list(): Promise<string[]>;
  remove(call: string): Promise<void>;
};

/** `approvals/`: calls that wait for a person. Projections of the log, in which people write their answer. */
export type ApprovalFiles = {
  /** Numbers of the existing files. */
  list(): Promise<number[]>;
  /** The current content of a file; undefined if there is none, or it cannot be read as text. */
  read(id: number): Promise<string | undefined>;
  write(id: number, content: string): Promise<void>;
  /** Moves a file to `approvals/answered/`, with this content or unchanged. Idempotent. */
  archive(id: number, content: string | undefined): Promise<void>;
  /** Adds an allowing rule to `session.json`, keeping everything else in it. Returns why it could not, or null. */
  addAllowRule(pattern: string): Promise<string | null>;
};

/** A `/remind` or `/wait`, and who sent it. `at`: when it was written; the same message gives the same schedule. */
export type TimedOrder = Pick<MessageFile, 'from' | 'rights'> & {
  name: 'remind' | 'wait';
  text: string;
  id: string;
  at: Date;
};

export type Reminders = {
  /** Makes a schedule of it, durably; again changes nothing. Or says why not. */
  plan(order: TimedOrder): Promise<PlannedMessage | { fault: string }>;
};

/** `templates/` of the workspace, written by people. */
export type Templates = {
  /**
   * The current template of that name, or a text why there is none: the names that exist, or what is wrong and where.
   */
  read(name: string): Promise<{ ok: true; template: Template } | { ok: false; why: string }>;
  /** Names of all templates, sorted. */
  names(): Promise<string[]>;
};

/** Checkpoints of the session's `work/`, or of a folder in it. */
export type Checkpoints = {
  /** Whether the settings ask for them. */
  readonly isOn: boolean;
  /**
   * Takes a checkpoint. One that would equal the last is not written: the last is returned. Durable when it returns.
   * Throws UserError or DiskError if it cannot be written, and the signal's reason; `work/` is never changed.
   */
  save(order: SaveOrder, signal: AbortSignal): Promise<SavedCheckpoint>;
  /**
   * Makes `work/`, or these paths in it, what they were at a checkpoint; takes one of what is there first. Writes only
   * what differs. Durable when it returns. Throws UserError, with nothing changed, if the checkpoint cannot be read or
   * something that no checkpoint has would be lost. Repeating it after a crash completes it.
   */
  restore(order: RestoreOrder, signal: AbortSignal): Promise<ChangeCounts>;
};

export type SaveOrder = {
  why: CheckpointReason;
  steps: readonly string[];
  /** The open plan: its checkpoints are removed last. */
  plan: string | null;
  concurrent: boolean;
  /** The folder under `work/` that the session works in. */
  folder?: string | undefined;
  /** The last checkpoint that the log knows: numbers are not used again. */
  last: number;
  /** Checkpoints that must not be removed for this one. */
  needed: readonly number[];
};

/** `checkpoint` 0: `work/` is empty, and nothing was written. `files`: the first changes. */
export type SavedCheckpoint = {
  checkpoint: number;
  counts: ChangeCounts;
  files: FileChange[];
  leftOut: number;
};

export type RestoreOrder = {
  checkpoint: number;
  /** Paths below `work/`; empty: all of it. */
  paths: readonly string[];
  /** A later checkpoint: only what differs between the two is restored. */
  changedUntil?: number | undefined;
  save: SaveOrder;
};
