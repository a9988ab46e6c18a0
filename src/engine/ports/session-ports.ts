import type { MessageFile } from '../../protocol/session/message.ts';
import type { Reply } from '../../protocol/session/reply.ts';
import type { Notes } from '../../protocol/workspace/memory-notes.ts';
import type { Model } from './model-port.ts';
import type { SessionStore } from './store-ports.ts';
import type { Jobs, Toolbox } from './tool-ports.ts';

/**
 * The world as the engine sees it: a few functions a room. Each port has a twin in memory that keeps the same promises.
 */
export type SessionPorts = {
  store: SessionStore;
  model: Model;
  tools: Toolbox;
  children: ChildSessions;
  clock: Clock;
  runSemaphore: RunSemaphore;
  owner: OwnerCheck;
  /** How much room the disk has; asked before anything is taken in and before each call. */
  diskCapacity: () => DiskCapacity;
  /**
   * What was written down for later runs, as it is now; asked when a run begins. Without this there is nothing. Never
   * throws.
   */
  notes?: () => Notes;
  /** Commands of this session that go on after their call. Without this there are none. */
  jobs?: Jobs;
  /** Twelve hex digits that nobody can foresee: what marks data in the requests of a slice of work. */
  createNonce: () => string;
  /** The session's loop came to rest. */
  reportIdle?: () => void;
  /** Runs something that does not give way: should the daemon stand still in it, this is whose it was, and what. */
  runGuarded?: RunGuarded;
  /** What keeps this session from being heard while a call of it is in flight; null once that is over. */
  reportTrouble?: (error: unknown) => void;
  /** A line for operators. The session's own story is its record, not this. */
  log: (level: 'debug' | 'info' | 'warn' | 'error', text: string) => void;
};

export type RunGuarded = <T>(what: string, run: () => T) => T;

/**
 * `plenty`: everything goes on. `little`: nothing new is taken in; messages stay in the inbox, and work in hand goes
 * on. `none`: a call that is under way ends and is recorded, and the next one waits.
 */
export type DiskCapacity = 'plenty' | 'little' | 'none';

export type Clock = {
  /** The time of day: recorded, and never used to measure how long something took or has to wait. */
  now(): Date;
  /** Milliseconds of a clock that never jumps, neither back nor ahead. */
  elapsed(): number;
  /** Calls `run` once after `ms`; the answer takes it back. */
  after(ms: number, run: () => void): () => void;
};

/** How many runs may be at work. */
export type RunSemaphore = {
  /**
   * Waits for a place, the longest waiting first (`since`: ms since 1970). Throws the signal's reason where it was
   * aborted.
   */
  acquire(since: number, signal: AbortSignal): Promise<() => void>;
};

/** Whose the workspace is. */
export type OwnerCheck = {
  /**
   * Throws where another daemon owns the workspace by now: nothing may be done or written any more. Costs one small
   * read.
   */
  check(): void;
};

/** Child sessions: ordinary folders beside this one, spoken to by their inboxes and outboxes like any other. */
export type ChildSessions = {
  /**
   * Drops the message, durably; the same id again changes nothing. A session that is missing is made for a task. A
   * command it cannot hear: it is "gone", as its reply says then.
   */
  send(child: string, message: MessageFile & { id: string }): Promise<'sent' | 'gone'>;
  /**
   * What it replied to that message, whether or not somebody moved it to `read/`. A session that is gone has failed.
   */
  reply(child: string, id: string): Promise<Reply | undefined>;
  /**
   * Replies to what it was told of this step are on this session's record: they leave its outbox for `outbox/read/`.
   */
  consume(child: string, step: string): Promise<void>;
};
