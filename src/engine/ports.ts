import type { ChatMessage } from '../core/chat.ts';
import type { Event, EventBody, FileIdentity, ToolCall } from '../protocol/event.ts';
import type { Attached, ImageFile } from '../protocol/images.ts';
import type { Mark } from '../protocol/mark.ts';
import type { MessageFile } from '../protocol/message.ts';
import type { Notes } from '../protocol/notes.ts';
import type { Reply } from '../protocol/reply.ts';
import type { Template } from '../protocol/template/template.ts';

export type { ChatMessage } from '../core/chat.ts';

/** The world as the engine sees it: a few functions a room. Each port has a twin in memory that keeps the same promises. */
export type World = {
  store: SessionStore;
  model: Model;
  tools: Toolbox;
  children: Children;
  clock: Clock;
  slots: Slots;
  owner: Owner;
  /** How much room the disk has; asked before anything is taken in and before each call. */
  room: () => Room;
  /** What was written down for later runs, as it is now; asked when a run begins. Without this there is nothing. Never throws. */
  notes?: () => Notes;
  /** Commands of this session that go on after their call. Without this there are none. */
  jobs?: Jobs;
  /** Twelve hex digits that nobody can foresee: what marks data in the requests of a slice of work. */
  seal: () => string;
  /** Whether the session has anything going on; `got on`: it got further than where the last daemon was lost over it. */
  activity?: (is: 'busy' | 'got on' | 'quiet') => void;
  /** Runs something that does not give way: should the daemon stand still in it, this is whose it was, and what. */
  step?: Step;
  /** What keeps this session from being heard while a call of it is in flight; null once that is over. */
  trouble?: (error: unknown) => void;
  /** A line for operators. The session's own story is its record, not this. */
  log: (level: 'debug' | 'info' | 'warn' | 'error', text: string) => void;
};

export type Step = <T>(what: string, run: () => T) => T;

/**
 * `plenty`: everything goes on. `little`: nothing new is taken in; messages stay in the inbox, and work in hand goes on. `none`:
 * a call that is under way ends and is recorded, and the next one waits.
 */
export type Room = 'plenty' | 'little' | 'none';

export type Clock = {
  /** The time of day: recorded, and never used to measure how long something took or has to wait. */
  now(): Date;
  /** Milliseconds of a clock that never jumps, neither back nor ahead. */
  elapsed(): number;
  /** Calls `run` once after `ms`; the answer takes it back. */
  after(ms: number, run: () => void): () => void;
};

/** How many runs may be at work. */
export type Slots = {
  /** Waits for a place, the longest waiting first (`since`: ms since 1970). Throws the signal's reason where it was aborted. */
  take(since: number, signal: AbortSignal): Promise<() => void>;
};

/** Whose the workspace is. */
export type Owner = {
  /** Throws where another daemon owns the workspace by now: nothing may be done or written any more. Costs one small read. */
  check(): void;
};

/** Child sessions: ordinary folders beside this one, spoken to by their inboxes and outboxes like any other. */
export type Children = {
  /**
   * Drops the message, durably; the same id again changes nothing. A session that is missing is made for a task. A command it cannot
   * hear: it is "gone", as its reply says then.
   */
  send(child: string, message: MessageFile & { id: string }): Promise<'sent' | 'gone'>;
  /** What it replied to that message, whether or not somebody moved it to `read/`. A session that is gone has failed. */
  reply(child: string, id: string): Promise<Reply | undefined>;
  /** Replies to what it was told of this step are on this session's record: they leave its outbox for `outbox/read/`. */
  consume(child: string, step: string): Promise<void>;
};

// --- the session folder -----------------------------------------------------------------------------------------------

/** One session's folder, opened by its only writer. */
export type SessionStore = {
  name: string;
  journal: Journal;
  snapshots: Snapshots;
  blobs: Blobs;
  inbox: Inbox;
  outbox: Outbox;
  plan: PlanFile;
  live: Live;
  calls: CallFolders;
  templates: Templates;
  approvals: Approvals;
  /** Absolute path of `work/`, or of a folder in it, made if it is missing. Of a child session it is its root's. */
  work(folder?: string): Promise<string>;
  /** Of paths such as `work/a/x.csv`, the regular files that are there and reached through no link, in order; at most `most`. */
  files(paths: readonly string[], most: number): Promise<string[]>;
  /** The bytes of an image under `work/`; undefined where it is no longer what it was. */
  image(image: ImageFile): Promise<Uint8Array | undefined>;
  /** Gives back descriptors and watches nothing. */
  close(): Promise<void>;
};

/** `events.jsonl`. Appends of one session happen one after another, in the order they were asked for. */
export type Journal = {
  /**
   * Reads the record from its start, or what comes after a mark, checking seq and crc of each line. A torn last line is cut off
   * and kept beside the record; anything else that is wrong throws `RecordCorrupt` and leaves every byte as it is. So does a
   * reading from the start where retention removed it; 'oldest' begins with the oldest event that is kept. 'unfit': the record
   * does not have that mark; no event was told, and the caller reads from the start.
   */
  read(each: (event: Event) => void, from?: Mark | 'oldest'): Promise<'read' | 'unfit'>;
  /** The end of what was read or appended last. */
  mark(): Mark;
  /** Stamps and writes events as one piece. They may be lost by a power cut until `sync` has returned. */
  append(bodies: EventBody[]): Promise<Event[]>;
  /** Everything appended before this call survives a power cut. Costs nothing where nothing is open. */
  sync(): Promise<void>;
};

/** What a record meant at a mark. It saves reading what comes before, and is never the truth: one that is lost costs time. */
export type Snapshots = {
  /** The newest one whose mark the record has. Undefined where there is none, or where its file is damaged: never an error. */
  load(): Promise<{ mark: Mark; state: unknown } | undefined>;
  /** Replaces the last one. `state` comes back as JSON makes it. */
  save(mark: Mark, state: unknown): Promise<void>;
};

/** Texts too long for a line of the record, by the hash of their content. */
export type Blobs = {
  /** Durable when it returns. The same text twice is one blob. Returns the sha256 in hex. */
  put(text: string): Promise<string>;
  get(hash: string): Promise<string | undefined>;
};

/** A dropped file that is ready: it was read whole, and nobody is writing to it. */
export type Drop = {
  /** The file's name in `inbox/`, as text fit to be shown; never used to build another path. */
  name: string;
  identity: FileIdentity;
  /** When the file was made, in ns; undefined where the file system does not tell. */
  born?: bigint | undefined;
} & (
  | { ok: true; message: MessageFile /** whether the reply is wanted as JSON */; json: boolean; handle: DropHandle }
  | { ok: false /** what was wanted, what came, what to do */; why: string; handle: DropHandle }
);

/** What the store needs to find the file again, and to know whether it was written to since; opaque to the engine. */
export type DropHandle = { readonly path: string; readonly isAged?: boolean };

export type Wanted = { max?: number; ahead?: (message: MessageFile) => boolean };

export type Inbox = {
  /**
   * What is ready, oldest first, at most `max` (64); then those of the 64 newest behind them that `ahead` wants before their
   * turn. `pending`: something is there but not ready yet (empty, or open for writing) or was not looked at yet, so look again
   * within a second. `more`: something waits that `max` left out. Never follows a link, never hangs on a pipe, never deletes.
   */
  look(wanted?: Wanted): Promise<{ drops: Drop[]; pending: boolean; more: boolean }>;
  /** Where the attachments of a message will go, and what they are: names under `work/`, none of them taken. Throws UserError if one is missing. */
  place(attachments: string[]): Promise<Attached[]>;
  /** After the message is durable: moves attachments to their places and the file to `done/<seq>-<name>`. Idempotent. */
  settle(drop: Drop, seq: number, attachments: Array<{ from: string; to: string }>): Promise<void>;
  /**
   * Moves the file to `rejected/` with `<name>.why.json` beside it. Idempotent. What may not be moved (settle and refuse alike)
   * stays where it is and is not handed out again as long as it does not change.
   */
  refuse(drop: Drop, why: string): Promise<void>;
};

export type Outbox = {
  /** Whether no reply may have this name: it is the outbox's own, or that of a folder somebody made there. */
  isReserved(name: string): boolean;
  /**
   * Puts a reply file in place, whole and durable, exactly once: where these bytes are already under the name in `outbox/` or
   * `outbox/read/`, nothing changes. Other bytes under the name in `outbox/` are kept under another name there.
   */
  publish(name: string, content: string): Promise<void>;
  /** For a message that was sent again: puts the reply in place even if it had been consumed. */
  publishAgain(name: string, content: string): Promise<void>;
  /** The same where the record no longer has its text: from `outbox/read/`. False where it is not kept there either. */
  restore(name: string): Promise<boolean>;
};

/** What is in `plan.json` now, compared with what this daemon last put there. */
export type PlanSeen =
  | { is: 'ours' }
  | { is: 'missing' }
  /**
   * Somebody saved it: the bytes they saved, oldest first. `inPlace`: the last of them is what is in the file now; the others, or
   * all of them, were found in files that had been moved away.
   */
  | { is: 'edited'; saves: string[]; inPlace: boolean }
  /** What stands there is no file to read: a link, a folder, a pipe, or far too large. It is left alone. */
  | { is: 'blocked'; why: string };

export type PlanFile = {
  /** One lstat where nothing happened. After a restart everything that is there counts as edited until `accept`. */
  look(thorough?: boolean): Promise<PlanSeen>;
  /** What `look` told survives a power cut: a record of it must not be ahead of the file, or the file would seem to be taken back. */
  keep(): Promise<void>;
  /** The bytes now in the file are understood (merged, or left alone because they do not parse) and count as seen. */
  accept(bytes: string): void;
  /**
   * Replaces the file without losing a save: the old name is moved to `plans/history/` and read there, the new one linked in.
   * Where somebody saved meanwhile, theirs stays in place, nothing is written and it answers `edited`; so it is with `blocked`.
   */
  write(content: string): Promise<PlanSeen>;
  /** Puts `plans/<id>.json` in place and takes the `plan.json` that shows it away (moved to history, never deleted). Again: nothing. */
  archive(id: string, content: string): Promise<void>;
};

/** Text of the model call in flight. Never synced; errors writing it are of no consequence. */
export type Live = {
  begin(): void;
  write(text: string): void;
};

/** `tools/`: a private folder for each call that needs one, there until its end is durable on record. */
export type CallFolders = {
  /** Absolute path of this call's folder, a name that no other call gets. Nothing is made there. */
  folder(call: string): string;
  /** Calls that have a folder. */
  list(): Promise<string[]>;
  remove(call: string): Promise<void>;
};

/** `approvals/`: calls that wait for a person. Projections of the record, in which people write their answer. */
export type Approvals = {
  /** Numbers of the files that are there. */
  list(): Promise<number[]>;
  /** What is in a file now; undefined where there is none, or nothing that could be read as a text. */
  read(id: number): Promise<string | undefined>;
  write(id: number, content: string): Promise<void>;
  /** Out of `approvals/`, into `approvals/answered/`: with this content, or as it is. Idempotent. */
  settle(id: number, content: string | undefined): Promise<void>;
  /** Adds an allowing rule to `session.json`, keeping all else that is there. Answers why it could not, in words. */
  always(pattern: string): Promise<string | null>;
};

/** `templates/` of the workspace, written by people. */
export type Templates = {
  /** The template of that name as it is now, or in words why it cannot be had: the names there are, or what is wrong and where. */
  read(name: string): Promise<{ ok: true; template: Template } | { ok: false; why: string }>;
  /** Names of all templates, sorted. */
  names(): Promise<string[]>;
};

// --- the model --------------------------------------------------------------------------------------------------------

export type ToolSpec = {
  name: string;
  description: string /** JSON Schema of the arguments */;
  parameters: Record<string, unknown>;
};

export type ModelRequest = {
  messages: ChatMessage[];
  tools: ToolSpec[] /** overrides the configured name */;
  model: string | undefined;
  /** The bytes of an image among the messages; undefined where it is no longer what it was. */
  image?: (image: ImageFile) => Promise<Uint8Array | undefined>;
};

export type ModelAnswer = {
  text: string;
  calls: ToolCall[];
  usage: { tokens: number; cost: number | null };
  model: string;
};

export type Model = {
  /** One call, streamed: `onText` gets the text as it comes. Throws `ModelFault`, or the signal's reason where it was aborted. */
  ask(request: ModelRequest, options: { signal: AbortSignal; onText: (delta: string) => void }): Promise<ModelAnswer>;
  /** Tokens that model takes at most, as far as its endpoint has told by now; without a name, the configured one. */
  window?(name: string | undefined): number | undefined;
};

export type FaultKind = 'unreachable' | 'overloaded' | 'rejected' | 'too_long' | 'malformed' | 'unconfigured';

/** Bad news from the endpoint. `retry` says whether the same request may do better later. */
export class ModelFault extends Error {
  readonly kind: FaultKind;
  readonly retry: boolean;
  /** What the endpoint asked us to wait, in ms. */
  readonly waitMs: number | undefined;
  /** Tokens the model takes at most, where the refusal says so. */
  readonly window: number | undefined;

  constructor(
    kind: FaultKind,
    message: string,
    options: { retry: boolean; waitMs?: number | undefined; window?: number | undefined },
  ) {
    super(message);
    this.name = 'ModelFault';
    this.kind = kind;
    this.retry = options.retry;
    this.waitMs = options.waitMs;
    this.window = options.window;
  }
}

// --- the tools --------------------------------------------------------------------------------------------------------

/**
 * `exit`: of a command, its exit status; null where it did not end by itself. `images`: shown to a model that sees, paths relative
 * to the call's own `work`.
 */
export type ToolResult = { ok: boolean; text: string; exit?: number | null; images?: ImageFile[] };

export type ToolContext = {
  /** Absolute path of the session's `work/`: all a tool may touch, besides what the person allowed to be read. */
  work: string;
  /** Aborted when a person stops the run or the daemon goes down: the tool ends with everything it started. */
  signal: AbortSignal;
  /** Absolute path of a folder for this call alone, outside of `work/`; whoever needs it makes it. It is taken away later. */
  folder: string;
  /** Reads on in an output that was too long to show. */
  blob: (hash: string) => Promise<string | undefined>;
  /** How many jobs may run at once; left out: as many as by default. */
  jobs?: number;
  /** What the rules say of the same tool with other arguments, where a call leads on to more: a redirect, another page. */
  permits?: (args: string) => Permit;
  /** For `resume`: false where the rules no longer let the call begin. What ran is told, nothing is begun. */
  mayBegin?: boolean;
};

/** Commands that go on after the call that began them, and outlive the daemon. None of these throws for what is wrong with a job. */
export type Jobs = {
  /** Jobs that have ended since the model was told last, in lines for it. */
  news(): string[];
  /** The model has been told this news. */
  told(): void;
  /** Those that run, in words for a person. */
  running(): string[];
  /** Ends those that were begun by turns up to this event; answers which. Repeating it changes nothing. */
  end(upto: number): Promise<string[]>;
};

/** Whether a call may run. `rule`: a rule says that it is asked about, not a default. */
export type Permit =
  | { is: 'allow' }
  | { is: 'deny'; why: string }
  | {
      is: 'ask';
      why: string;
      rule: boolean;
      /** The call as a person reads it, and the rule that would allow calls like it. */
      shows: string;
      always: string;
    };

/**
 * Who asks for something of the tools. `work`: as in `ToolContext`, found when it is needed. `top`: the `work/` that it lies in,
 * where it is a folder of its own for a child session.
 */
export type Caller = { work: () => Promise<string>; top?: () => Promise<string>; signal: AbortSignal };

export type Toolbox = {
  /** What is offered now; it may be another list after each `ready`. */
  readonly specs: ToolSpec[];
  /**
   * Awaited before each call of the model: tools that come from elsewhere are brought up to date, in a bounded time. Answers with
   * what is amiss with them, in words for the model. Throws only the signal's reason.
   */
  ready(caller: Caller): Promise<string[]>;
  /** `safe`: running it twice is the same as once, so a call that was open at a crash runs again. */
  replay(name: string): 'safe' | 'never';
  /**
   * Whether this call may run, by the settings as they are now; runs nothing. One that would end with a complaint about its
   * arguments may. Throws only the signal's reason.
   */
  permit(call: { name: string; args: string }, caller: Caller): Promise<Permit>;
  /**
   * Runs one call. Arguments that do not parse or do not fit, an unknown name, a failing program: all are results with
   * `ok: false` in words the model can act on. Throws only where the signal was aborted (its reason) or on a bug.
   */
  run(call: { name: string; args: string }, context: ToolContext): Promise<ToolResult>;
  /**
   * What became of a call that a daemon began which is no more: its recorded result, or, where it still runs, its result when
   * it ends. Null where nobody knows. Never begins it again. Throws the signal's reason where that was aborted: the call has ended.
   */
  resume(call: { name: string; args: string }, context: ToolContext): Promise<ToolResult | null>;
  /** Ends whatever still runs of a call whose end is on record. `runs`: it could not be ended. */
  settle(folder: string): Promise<'nothing' | 'ended' | 'runs'>;
};
