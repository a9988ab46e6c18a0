import type { ChatMessage } from '../../core/session/session-messages.ts';
import type { ToolCall } from '../../protocol/session/event.ts';
import type { StandIn } from '../../protocol/session/log-entry.ts';
import type { ImageFile, MessageFile } from '../../protocol/session/message.ts';
import type { Reply } from '../../protocol/session/reply.ts';
import type { ChildCall } from '../../protocol/settings/permissions.ts';
import type { Notes } from '../../protocol/workspace/memory-notes.ts';
import type { Checkpoints, SessionStore } from './store-ports.ts';
import type { BrowserControl, Jobs, Toolbox, ToolSpec } from './tool-ports.ts';

/**
 * The outside world as the engine sees it: a few functions per port. Each port has an in-memory implementation that
 * keeps the same promises.
 */
export type SessionPorts = {
  store: SessionStore;
  model: Model;
  tools: Toolbox;
  children: ChildSessions;
  clock: Clock;
  runSemaphore: RunSemaphore;
  owner: OwnerCheck;
  /** What is called when something happens in this session. If left out, nothing is. */
  hooks?: SessionHooks;
  /** Free disk space; asked before anything is taken in and before each call. */
  diskCapacity: () => DiskCapacity;
  /** Current notes for later runs; read when a run starts. If left out, there are none. Never throws. */
  notes?: () => Notes;
  /** Counts what model calls cost, and holds budgets. If left out, there are none. */
  spending?: Spending;
  /** Commands of this session that continue after their call. If left out, there are none. */
  jobs?: Jobs;
  /** Checkpoints of `work/`. If left out, none are taken. */
  checkpoints?: Checkpoints;
  /** The session's browser. If left out, it has none that a person could take over. */
  browser?: BrowserControl;
  /** Twelve unpredictable hex digits: the prompt nonce for the requests of a budget window. */
  createNonce: () => string;
  /** The session's loop is idle. */
  reportIdle?: () => void;
  /** Runs code that does not yield: if the daemon stalls in it, this tells whose code it was, and what it did. */
  runGuarded?: RunGuarded;
  /** Reports what prevents this session's intake while a call is in flight; null once that is over. */
  reportTrouble?: (error: unknown) => void;
  /** Logs a line for operators. The session's own history is its event log, not this. */
  log: (level: 'debug' | 'info' | 'warn' | 'error', text: string, about?: LogSubject) => void;
};

/** What a line of the log is about: names to search for. `run`: the id of its message. */
export type LogSubject = { session?: string | undefined; run?: string | undefined; step?: string | undefined };

export type RunGuarded = <T>(what: string, run: () => T) => T;

/**
 * `ok`: everything continues. `low`: nothing new is taken in; messages stay in the inbox, and current work
 * continues. `full`: a call in progress ends and is recorded, and the next one waits.
 */
export type DiskCapacity = 'ok' | 'low' | 'full';

export type Clock = {
  /** The time of day: recorded, never used to measure durations or waits. */
  now(): Date;
  /** Milliseconds of a monotonic clock. */
  elapsed(): number;
  /** Calls `run` once after `ms`; the returned function cancels it. */
  after(ms: number, run: () => void): () => void;
};

/** What a model call is expected to cost at most: tokens of prompt and answer; `cost` is null if that is not known. */
export type CallEstimate = { tokens: number; cost: number | null };

/**
 * What a model call has cost; `cost` is null if nobody said it. Without an answer, what it must have cost at least.
 * `model`: the one that answered in place of the one that was asked. `estimated`: nobody said the tokens either.
 */
export type CallSpent = CallEstimate &
  Pick<ModelAnswer['usage'], 'cached' | 'estimated'> & { model?: string; ms: number; isAnswered: boolean };

/** A call for which money is held back. Each reservation is settled once, whatever became of the call. */
export type Reservation = { settle(spent: CallSpent): Promise<void> };

/** Why a call may not start. `until`: when it may (ISO 8601); null: a person has to change something first. */
export type SpendingRefusal = { until: string | null; why: string };

export type Spending = {
  /**
   * Reserves the most a call is expected to cost. Waits while only calls in flight use a budget up; throws the signal's
   * reason if aborted then.
   */
  reserve(
    call: CallEstimate & { model: string; message: { id: string; from?: string | undefined } },
    signal: AbortSignal,
  ): Promise<Reservation | SpendingRefusal>;
};

/** Limits how many runs are active. */
export type RunSemaphore = {
  /**
   * Waits for a slot, longest waiting first (`since`: ms since 1970); returns its release. Throws the signal's reason
   * if aborted.
   */
  acquire(since: number, signal: AbortSignal): Promise<() => void>;
};

/** Checks who owns the workspace. */
export type OwnerCheck = {
  /**
   * Throws if another daemon owns the workspace by now: nothing may be done or written any more. Costs one small read.
   */
  check(): void;
};

/** Called by the engine where it happens, once it is on disk. */
export type SessionHooks = {
  /**
   * Before events or a snapshot are written, and after each sync. Throws once another daemon owns the session: the
   * events of an overtaken owner have no effect, so nothing may follow from them. The next owner claims the session
   * before it reads the log; so if there is no claim once an event is on disk, it reads it.
   */
  checkOwner(): void;
  /** A reply is in the outbox. */
  onReply(): void;
  /** `approvals/` has files in which a person may answer, also when the daemon finds them at its start. */
  onApprovalAsked(): void;
  /** A call waits for a person, or one no longer does. */
  onApprovalsChanged(): void;
};

/**
 * Child sessions: ordinary folders next to this one, reached through their inboxes and outboxes like any other session.
 */
export type ChildSessions = {
  /**
   * Drops the message durably; the same id again changes nothing. A missing session is created for a task; for a
   * command the result is "gone", as its reply then says.
   */
  send(child: string, message: MessageFile & { id: string }): Promise<'sent' | 'gone'>;
  /** Its reply to that message, whether or not somebody moved it to `read/`. A session that is gone has failed. */
  reply(child: string, id: string): Promise<Reply | undefined>;
  /**
   * The calls of child sessions of `root`, and of theirs, that wait for a person, by session. One that cannot be served
   * has none. A call of `known` whose file cannot be read still waits.
   */
  waitingCalls(root: string, known: readonly ChildCall[]): Promise<ChildCall[]>;
  /** This session has logged the replies for this step: moves them from the child's outbox to `outbox/read/`. */
  consume(child: string, step: string): Promise<void>;
};

/** The one estimate of tokens: of a window, and of an answer whose endpoint does not report them. */
export { countMessageTokens, countTextTokens, countTokens } from '../../core/prompt/context-window.ts';

export type { ChatMessage } from '../../core/session/session-messages.ts';

export type ModelRequest = {
  messages: ChatMessage[];
  tools: ToolSpec[];
  /** Overrides the configured name. */
  model: string | undefined;
  /** The bytes of an image among the messages; undefined if it has changed since. */
  image?: (image: ImageFile) => Promise<Uint8Array | undefined>;
};

export type ModelAnswer = {
  text: string;
  calls: ToolCall[];
  /** Of the tokens, `cached`: of its cache; `output`: those it made, if it tells. `estimated`: it reported none. */
  usage: { tokens: number; cost: number | null; cached?: number; output?: number; estimated?: true };
  model: string;
  provider_fields?: Readonly<Record<string, unknown>>;
  /** It reached the length limit of the endpoint and ends in the middle. */
  truncated?: true;
  /** The model that was to answer, if another one of its `fallback` did. */
  instead_of?: StandIn;
  /** It is no end for another reason: the endpoint's finish_reason, such as `content_filter`. */
  unfinished?: string;
};

/** `budget`: what is left of the run's limits; an answer that goes beyond is cut there, and `truncated`. */
export type AskOptions = {
  signal: AbortSignal;
  onText: (delta: string) => void;
  budget?: { ms?: number; tokens?: number };
};

export type Model = {
  /**
   * Makes one streamed call: `onText` receives the text as it arrives. Throws `ModelError`, or the signal's reason if
   * aborted.
   */
  ask(request: ModelRequest, options: AskOptions): Promise<ModelAnswer>;
  /**
   * Does what a later `ask` with this very request can have done before. Sends nothing: the log may not be synced yet.
   */
  prepare?(request: ModelRequest): Promise<void>;
  /**
   * Size of that model's window in tokens, as a person set it or its endpoint has reported it; without a name, of the
   * configured model.
   */
  contextWindow?(name: string | undefined): number | undefined;
  /** Price of a million tokens of that model, as far as it is known; without a name, of the configured model. */
  prices?(name: string | undefined): Promise<TokenPrices | undefined>;
};

/** Of a million tokens; `cached`: of those of the prompt that the endpoint had in its cache. */
export type TokenPrices = { input: number; output: number; cached?: number | undefined };

export type ModelErrorKind = 'unreachable' | 'overloaded' | 'rejected' | 'too_long' | 'malformed' | 'unconfigured';

/** A failed call. `retry` says whether the same request may succeed later. */
export class ModelError extends Error {
  readonly kind: ModelErrorKind;
  readonly retry: boolean;
  /** How long the endpoint asked us to wait, in ms. */
  readonly waitMs: number | undefined;
  /** Size of the model's window in tokens, if the refusal states it. */
  readonly window: number | undefined;
  /** What the model is told when it is asked again. */
  readonly hint: 'call' | undefined;

  constructor(
    kind: ModelErrorKind,
    message: string,
    options: {
      retry: boolean;
      waitMs?: number | undefined;
      window?: number | undefined;
      hint?: 'call' | undefined;
    },
  ) {
    super(message);
    this.name = 'ModelError';
    this.kind = kind;
    this.retry = options.retry;
    this.waitMs = options.waitMs;
    this.window = options.window;
    this.hint = options.hint;
  }
}
