import { type AppendList, appendList, emptyMap, type PersistentMap } from '../../base/collections.ts';
import type { EventOf, RunEndStatus } from '../../protocol/session/event.ts';
import type { Plan } from '../../protocol/session/plan.ts';
import { NO_NONCE } from '../../protocol/session/prompt-tags.ts';
import type { Reply, RunEndCode, UserQuestion } from '../../protocol/session/reply.ts';
import type { Mode } from '../../protocol/settings/run-options.ts';
import { FRESH_PLAN_PROGRESS, FRESH_STEP_PROGRESS, type PlanProgress, type StepProgress } from './progress-state.ts';
import {
  type ApprovalState,
  type ChildCalls,
  NO_APPROVALS,
  NO_CHILD_CALLS,
  NO_WORK_HISTORY,
  type Notice,
  type Run,
  type RunEnd,
  type Turn,
  type WorkHistory,
} from './run-state.ts';
import type { HistoryItem, Message, TakenDrop } from './session-messages.ts';

/** The state of a session: the result of reducing its events. Immutable. */
export type Session = PlanProgress &
  StepProgress & {
    name: string;
    /** The last event reduced; 0 before the first. */
    seq: number;
    /** Wall time of that event. The core has no other clock. */
    at: string;
    title: string | null;
    messages: PersistentMap<Message>;
    /** Reply names in use, so that no two messages share one. */
    replyNames: PersistentMap<true>;
    /** Dropped files that have been taken, by `dropKey`. */
    takenDrops: PersistentMap<TakenDrop>;
    /** Messages without a reply, in order. */
    unanswered: readonly string[];
    /** Received and not yet handled, in order. */
    queue: readonly string[];
    /** Part of a run, and not yet delivered by an answered model call. */
    undelivered: readonly string[];
    /** Committed replies that are not yet in `outbox/`. */
    unpublishedReplies: Readonly<Record<string, Reply>>;
    /** How many plans have given a step of this id to a child session: each plan has child sessions of its own. */
    childGenerations: Readonly<Record<string, number>>;
    /**
     * Marks data and the daemon's words in messages from here on: a new one is generated whenever a run starts or
     * resumes.
     */
    promptNonce: string;
    conversation: AppendList<HistoryItem>;
    run: Run | null;
    turn: Turn | null;
    runEnd: RunEnd | null;
    /**
     * The question of a call that is open until a person answers: kept while the run waits, dropped when the call ends.
     */
    question: (UserQuestion & { call: string }) | null;
    plan: Plan | null;
    /** The message whose meaning a person was asked: kept whole until they have said it. */
    doubt: Message | null;
    /** Shelved plans, by id. */
    shelvedPlans: Readonly<Record<string, Plan>>;
    /** The progress of each of them. */
    shelvedProgress: Readonly<Record<string, PlanProgress>>;
    /**
     * The largest context windows that endpoints have turned out to accept, in tokens, by the model a run asked for (''
     * for the configured one).
     */
    contextWindows: Readonly<Record<string, number>>;
    /** News for the next model call, each with its event. */
    notices: readonly Notice[];
    /** Why the `plan.json` on disk cannot be read; null once it can. */
    planProblem: string | null;
    /** Where parts that were cut off the event log are kept; all of them, and those that no reply has named yet. */
    cuts: readonly string[];
    unreportedCuts: readonly string[];
    /** The mode a person set for later runs; null: the configured one. */
    mode: Mode | null;
    /** The model a person set for later runs; null: the configured one. */
    model: string | null;
    crashes: CrashCounts;
    /** The last event that ended background commands: jobs of earlier turns are over. 0: none. */
    jobsEndSeq: number;
    /** Calls that need a person's approval. */
    approvals: ApprovalState;
    /** Those of its child sessions. */
    childCalls: ChildCalls;
    /** The person who uses the session's browser in place of the agent. */
    browserHold: PersonHold | null;
    /** The checkpoints of `work/`. */
    work: WorkHistory;
    /** The last event at which a daemon stopped normally and left something open; 0: none. */
    lastStopSeq: number;
  };

/** Who holds the browser, and since when; `from`: null for a message without a sender. */
export type PersonHold = { from: string | null; since: string };

/** Crashes counted against the current work. */
export type CrashCounts = {
  /** How many in a row, each with evidence, without any progress in between. */
  count: number;
  /** The error reported for the last one. */
  lastError: string | null;
  /** A call was open at the last recovery: an answer that asks for another one is not progress yet. */
  hadOpenCall: boolean;
  /** The epoch of the daemon that wrote the last event; 0: unknown. */
  lastEpoch: number;
};

/** Daemons a message may crash before it becomes a dead letter (rule R20). */
export const CRASH_LIMIT = 3;

export const NO_CRASHES: CrashCounts = { count: 0, lastError: null, hadOpenCall: false, lastEpoch: 0 };

export function emptySession(name: string): Session {
  return {
    name,
    seq: 0,
    at: '',
    title: null,
    messages: emptyMap(),
    replyNames: emptyMap(),
    takenDrops: emptyMap(),
    unanswered: [],
    queue: [],
    undelivered: [],
    unpublishedReplies: {},
    childGenerations: {},
    ...FRESH_PLAN_PROGRESS,
    promptNonce: NO_NONCE,
    conversation: appendList(),
    run: null,
    turn: null,
    runEnd: null,
    question: null,
    doubt: null,
    plan: null,
    shelvedPlans: {},
    shelvedProgress: {},
    ...FRESH_STEP_PROGRESS,
    contextWindows: {},
    notices: [],
    planProblem: null,
    cuts: [],
    unreportedCuts: [],
    mode: null,
    model: null,
    crashes: NO_CRASHES,
    jobsEndSeq: 0,
    approvals: NO_APPROVALS,
    childCalls: NO_CHILD_CALLS,
    browserHold: null,
    work: NO_WORK_HISTORY,
    lastStopSeq: 0,
  };
}

/** Why a run ends. */
export type RunEndReason = {
  status: RunEndStatus;
  reason: RunEndCode | EventOf<'model.failed'>['kind'] | `not reached: ${string}`;
  /** Text that comes first in the reply. */
  text?: string;
  /** The question to the person; its call stays open. */
  question?: NonNullable<Session['question']>;
  /** Why the open calls end here; if left out, because a person asked for it. */
  whyInterrupted?: string;
  /** The person is asked what the message of the run means. */
  asksMeaning?: true;
  /** The open calls stay open: the run resumes with them. */
  keepsCalls?: true;
};
