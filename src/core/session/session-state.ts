import { type AppendList, appendList, emptyMap, type PersistentMap } from '../../base/persistent-collections.ts';
import type { RunEndStatus } from '../../protocol/session/event.ts';
import type { Plan } from '../../protocol/session/plan.ts';
import type { PlanSave } from '../../protocol/session/plan-edit.ts';
import { NO_NONCE } from '../../protocol/session/prompt-tags.ts';
import type { Reply, UserQuestion } from '../../protocol/session/reply.ts';
import type { Mode } from '../../protocol/settings/run-options.ts';
import type { ChildSession } from './child-session.ts';
import type { TakenDrop } from './dropped-files.ts';
import {
  type ApprovalState,
  type FanOut,
  NO_APPROVALS,
  NO_WORK_ROUNDS,
  type Notice,
  type Run,
  type RunEnd,
  type StepClaim,
  type Turn,
  type TurnTrace,
  type WorkRounds,
} from './run-state.ts';
import type { ChatMessage, Message } from './session-messages.ts';

/** What is known of the current plan beside what `plan.json` says. Another plan begins with none of it. */
export type PlanProgress = {
  /** How often its open steps were replaced. */
  revisions: number;
  /** Steps that had failed, and calls that had asked for it, when it was revised last. */
  revisedFor: readonly string[];
  /** Stretches of work on it, for modes that rest where none of them completes anything. */
  workRounds: WorkRounds;
  /** Failed steps in whose place a revision put others. */
  replacedSteps: readonly string[];
  /** Steps that had ended when it was revised, or looked at and kept, last. */
  reviewedSteps: readonly string[];
  /** Child sessions that work on its steps, by step. */
  children: Readonly<Record<string, ChildSession>>;
  /** The parts of the step with parts that began last. */
  fanOut: FanOut | null;
  /** Ids of its steps that were closed, the last one last. */
  closedSteps: readonly string[];
  /** Highest number given to a step, so that no id is used twice. */
  lastStepNumber: number;
  /** A claim whose checks are being tried. */
  claim: StepClaim | null;
  /** What a person wrote or set of the steps, as `<step>:<field>`: the model leaves it alone. */
  editedByPerson: readonly string[];
  /** Limits a person set in `plan.json`: they outlive the slice. */
  limitsByPerson: Plan['limits'] | null;
  /** What `plan.json` said when a person saved it last, for each version of the plan a buffer began from; bounded. */
  planSaves: readonly PlanSave[];
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
  limitsByPerson: null,
  planSaves: [],
};

/** Everything a session's record means: the result of folding its events. Never changed in place. */
export type Session = PlanProgress & {
  name: string;
  /** Last event folded in; 0 before the first. */
  seq: number;
  /** Wall time of that event. The core has no other clock. */
  at: string;
  title: string | null;
  messages: PersistentMap<Message>;
  /** Reply names in use, so that no two messages share one. */
  replyNames: PersistentMap<true>;
  /** Dropped files that were taken, by `dropKey`. */
  takenDrops: PersistentMap<TakenDrop>;
  /** Messages without a reply, in order. */
  unanswered: readonly string[];
  /** Received and not yet dealt with, in order. */
  queue: readonly string[];
  /** Part of a run, and in no answered model call yet. */
  undelivered: readonly string[];
  /** Committed replies that are not yet in `outbox/`. */
  unpublishedReplies: Readonly<Record<string, Reply>>;
  /** Plans that gave a step of this id to a child session, by step: each plan has child sessions of its own. */
  childGenerations: Readonly<Record<string, number>>;
  /** What marks data and the daemon in messages from here on: drawn anew whenever a run begins or goes on. */
  promptNonce: string;
  conversation: AppendList<ChatMessage>;
  run: Run | null;
  turn: Turn | null;
  runEnd: RunEnd | null;
  /**
   * What a person was asked by a call that is open until they answer: kept while the run waits, and gone with the
   * call's end.
   */
  question: (UserQuestion & { call: string }) | null;
  plan: Plan | null;
  /** Paused plans that made room for another, by id. */
  shelvedPlans: Readonly<Record<string, Plan>>;
  /** What was kept beside each of them. */
  shelvedProgress: Readonly<Record<string, PlanProgress>>;
  /** The step that was asked whether it is done. */
  askedIfDone: string | null;
  /** Iterations of the current step that no longer count towards its timeout, since the model said it is not done. */
  graceIterations: number;
  /** Earlier turns of the current step, for the judge; bounded. */
  stepHistory: ReadonlyArray<TurnTrace>;
  /** How often in a row each tool failed in the step at work; one that worked is not in it. */
  toolFailures: Readonly<Record<string, number>>;
  /** What endpoints have shown to take at most, in tokens, by the model a run asked for ('' for the configured one). */
  contextWindows: Readonly<Record<string, number>>;
  /** The step the model named as the next one. */
  announcedStep: string | null;
  /** What the next model call must be told, each with the event it comes from. */
  notices: readonly Notice[];
  /** Why the `plan.json` on disk could not be read, until it can. */
  planProblem: string | null;
  /** The mode a person set for the runs to come; null: that of the settings. */
  mode: Mode | null;
  crashes: CrashCounts;
  /** The last event that ended what ran in the background: jobs of turns up to it are over. 0: none. */
  jobsEndSeq: number;
  /** Calls that people are asked about. */
  approvals: ApprovalState;
  /** The last event at which a daemon ended in order and left something open; 0: none. */
  lastStopSeq: number;
};

/** What is known of daemons that were lost over the work at hand. */
export type CrashCounts = {
  /** How many in a row, with evidence for each, and without any progress in between. */
  count: number;
  /** What was said of the last one. */
  lastError: string | null;
  /** At the last recovery a call was open: the model asking for another one is no progress yet. */
  hadOpenCall: boolean;
};

/** Daemons a message may cost before it becomes a dead letter (rule R20). */
export const CRASH_LIMIT = 3;

export const NO_CRASHES: CrashCounts = {
  count: 0,
  lastError: null,
  hadOpenCall: false,
};

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
    mode: null,
    crashes: NO_CRASHES,
    jobsEndSeq: 0,
    approvals: NO_APPROVALS,
    lastStopSeq: 0,
  };
}

/** What is kept of the current plan where it makes room for another. */
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
  const { editedByPerson, limitsByPerson, planSaves } = session;
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
    // Checks that were under way are tried anew.
    claim: null,
    editedByPerson,
    limitsByPerson,
    planSaves,
  };
}

/** What is kept of the step at work beside the plan, as it is when another one begins. */
export const FRESH_STEP_PROGRESS = {
  askedIfDone: null,
  graceIterations: 0,
  stepHistory: [],
  toolFailures: {},
  announcedStep: null,
} satisfies Partial<Session>;

/** Why a run rests. */
export type RunEndReason = {
  status: RunEndStatus;
  reason: string;
  /** What the reply says before anything else. */
  text?: string;
  /** What the person is asked; its call stays open. */
  question?: NonNullable<Session['question']>;
  /** Why the calls that are open end here; without it, because a person asked. */
  whyInterrupted?: string;
  /** The calls that are open stay open: the run goes on with them. */
  keepsCalls?: true;
};
