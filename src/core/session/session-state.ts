import { type AppendList, appendList, emptyMap, type PersistentMap } from '../../base/collections.ts';
import type { EventOf, RunEndStatus } from '../../protocol/session/event.ts';
import type { Plan } from '../../protocol/session/plan.ts';
import type { PlanSave } from '../../protocol/session/plan-edit.ts';
import { NO_NONCE } from '../../protocol/session/prompt-tags.ts';
import type { Reply, RunEndCode, UserQuestion } from '../../protocol/session/reply.ts';
import type { Limits, Mode } from '../../protocol/settings/run-options.ts';
import type { SessionReach } from '../../protocol/workspace/daemon-files.ts';
import type { ChildSession } from './child-session.ts';
import {
  type ApprovalState,
  type ChildCalls,
  type FanOut,
  NO_APPROVALS,
  NO_CHILD_CALLS,
  NO_WORK_HISTORY,
  NO_WORK_ROUNDS,
  type Notice,
  type Run,
  type RunEnd,
  type StepCheckpoints,
  type StepClaim,
  type Turn,
  type TurnTrace,
  type WorkHistory,
  type WorkRounds,
} from './run-state.ts';
import type { ChatMessage, Message, TakenDrop } from './session-messages.ts';

/** State of the current plan that is not in `plan.json`. Each plan starts with an empty one. */
export type PlanProgress = {
  /** How often its open steps have been replaced. */
  revisions: number;
  /** The failed steps, and the calls that requested it, at the last revision. */
  revisedFor: readonly string[];
  /** Rounds of work on it, for modes that end the run on stagnation. */
  workRounds: WorkRounds;
  /** Failed steps that a revision has replaced. */
  replacedSteps: readonly string[];
  /** Steps that had ended when the plan was last revised, or reviewed and kept. */
  reviewedSteps: readonly string[];
  /** Child sessions working on its steps, by step. */
  children: Readonly<Record<string, ChildSession>>;
  /** The items of the last fan-out step that started. */
  fanOut: FanOut | null;
  /** Ids of its closed steps, the latest last. */
  closedSteps: readonly string[];
  /** Highest step number used, so that no id is used twice. */
  lastStepNumber: number;
  /** A claim whose checks are running. */
  claim: StepClaim | null;
  /** Step fields that a person or another agent wrote or set, as `<step>:<field>`: the model may not change them. */
  editedByPerson: readonly string[];
  /**
   * Steps whose `done_when` somebody wrote last who may approve calls: their checks run without asking, as their own
   * instruction.
   */
  trustedChecks: readonly string[];
  /** The sessions that everybody may see who had a part in it: its runs search no others. */
  reach: SessionReach;
  /** Limits named by its message, template or "continue", or set in `plan.json`: they outlive the budget window. */
  limitsByPerson: Limits | null;
  /** The last save of `plan.json` by a person, for each plan version an editor buffer started from; bounded. */
  planSaves: readonly PlanSave[];
  /** The checkpoints of `work/` at the ends of its steps. */
  stepCheckpoints: Readonly<Record<string, StepCheckpoints>>;
};

export const FRESH_PLAN_PROGRESS: PlanProgress = {
  revisions: 0,
  revisedFor: [],
  workRounds: NO_WORK_ROUNDS,
  replacedSteps: [],
  reviewedSteps: [],
  children: {},
  fanOut: null,
  closedSteps: [],
  lastStepNumber: 0,
  claim: null,
  editedByPerson: [],
  trustedChecks: [],
  reach: [],
  limitsByPerson: null,
  planSaves: [],
  stepCheckpoints: {},
};

/** The state of a session: the result of reducing its events. Immutable. */
export type Session = PlanProgress & {
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
  conversation: AppendList<ChatMessage>;
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
  /** The step the model was asked about, whether it is done. */
  askedIfDone: string | null;
  /** Iterations of the current step that no longer count towards its timeout, since the model said it is not done. */
  graceIterations: number;
  /** Earlier turns of the current step, for completion detection; bounded. */
  stepHistory: ReadonlyArray<TurnTrace>;
  /** How often in a row each tool has failed in the current step; tools whose last call succeeded are not in it. */
  toolFailures: Readonly<Record<string, number>>;
  /**
   * The largest context windows that endpoints have turned out to accept, in tokens, by the model a run asked for (''
   * for the configured one).
   */
  contextWindows: Readonly<Record<string, number>>;
  /** The step the model named as next. */
  announcedStep: string | null;
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

/** What is known of daemons lost over the current work. */
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
    askedIfDone: null,
    graceIterations: 0,
    stepHistory: [],
    toolFailures: {},
    contextWindows: {},
    announcedStep: null,
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

/** The progress of the current plan that is kept when the plan is shelved. */
export function planProgressOf(session: Session): PlanProgress {
  const {
    revisions,
    revisedFor,
    workRounds,
    replacedSteps,
    reviewedSteps,
    children,
    fanOut,
    closedSteps,
    lastStepNumber,
  } = session;
  const { editedByPerson, trustedChecks, reach, limitsByPerson, planSaves, stepCheckpoints } = session;
  return {
    revisions,
    revisedFor,
    workRounds,
    replacedSteps,
    reviewedSteps,
    children,
    fanOut,
    closedSteps,
    lastStepNumber,
    // Checks that were in progress run again.
    claim: null,
    editedByPerson,
    trustedChecks,
    reach,
    limitsByPerson,
    planSaves,
    stepCheckpoints,
  };
}

/** The state kept for the current step outside the plan, as it is when a new step starts. */
export const FRESH_STEP_PROGRESS = {
  askedIfDone: null,
  graceIterations: 0,
  stepHistory: [],
  toolFailures: {},
  announcedStep: null,
} satisfies Partial<Session>;

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
