import type { CheckpointReason, FileChange, WorkRestored } from '../../protocol/session/checkpoint.ts';
import type { EventOf, PlannerQuery, RunEndStatus } from '../../protocol/session/event.ts';
import type { ImageFile } from '../../protocol/session/message.ts';
import type { CompletedBy } from '../../protocol/session/plan.ts';
import type { Usage } from '../../protocol/session/reply.ts';
import type { ApprovedBy, ChildCall } from '../../protocol/settings/permissions.ts';
import type { Limits, Mode, ResolvedLimits } from '../../protocol/settings/run-options.ts';
import type { SessionReach } from '../../protocol/workspace/daemon-files.ts';

export type Run = {
  /** What began it, where it resumed before it had a plan. */
  request?: string;
  message: string;
  startedAt: string;
  /** It was stopped before, and a "continue" or an answer resumed it. */
  isResumed?: true;
  /** Total duration of the calls of its session tree, including waits for the endpoint, by a monotonic clock. */
  elapsedMs: number;
  mode: Mode;
  /** Why the daemon chose this mode; undefined if a person did. */
  modeReason: string | undefined;
  model: string | undefined;
  /** That model, if the message that began the run named it: it stays with the run. */
  ownModel?: string | undefined;
  limits: ResolvedLimits;
  /** Those of the limits that its message or template named, or a person set in the plan since. */
  ownLimits?: Limits;
  /** The sessions that everybody may see who had a part in it: it searches no others. */
  reach?: SessionReach;
  /** Id of a paused plan that this run leaves alone. */
  besidePlan: string | undefined;
  spent: { iterations: number; tokens: number; cost: number | null; estimated?: true | undefined };
  /** Consecutive answers without a tool call and without a step being closed, while steps were open. */
  idleAnswers: number;
  /** How often the last call gave the same result since there was a new one; `counts`: of each of the latest. */
  repeatedCall: { counts: Readonly<Record<string, number>>; count: number; call: string };
  /** Consecutive failures of the model; `silent_ms`: from the first to the last; `tries`: how many of each kind. */
  failure: {
    silent_ms: number;
    tries: { [kind in EventOf<'model.failed'>['kind']]?: number };
    last: EventOf<'model.failed'>;
  } | null;
  /** The paused plan that was shelved for this run's own plan. */
  shelvedPlan: { id: string; goal: string } | null;
  agent: string | undefined;
  folder: string | undefined;
  /** The last planner query that was answered, and how often it was asked in a row. */
  plannerQuery: { ask: PlannerQuery; tries: number; text: string; isTruncated?: true } | null;
  /** Exit status of the last command; null if none ran, or it did not end by itself. */
  exitStatus: number | null;
  /** Which models answered in place of others, and why. */
  standIns?: readonly string[];
};

/** What a run has spent with this; a sum with a part of unknown cost is unknown. */
export const addUsage = (spent: Run['spent'], more: Run['spent']): Run['spent'] => ({
  iterations: spent.iterations + more.iterations,
  tokens: spent.tokens + more.tokens,
  ...((spent.estimated || more.estimated) && { estimated: true }),
  cost: spent.cost === null || more.cost === null ? null : spent.cost + more.cost,
});

/** The run's list of models that answered in place of others, with this answer. */
export function standInsAfter({ standIns = [] }: Run, answer: EventOf<'model.answered'>): Partial<Run> {
  const { instead_of: other, model } = answer;
  const said = other && `${model} for ${other.model} (${other.why})`;
  return said === undefined || standIns.includes(said) ? {} : { standIns: [...standIns, said] };
}

export type RunEnd = {
  request?: string;
  message: string;
  status: RunEndStatus;
  reason: string;
  text: string;
  seq: number;
  wasBeside: boolean;
  /** The plan that stopped with the run. */
  plan: string | null;
  /** Wall time. */
  at: string;
  spent: Usage;
  mode: Mode | undefined;
  modeReason: string | undefined;
  ownModel?: string | undefined;
  ownLimits?: Limits;
  reach?: SessionReach;
  agent: string | undefined;
  folder: string | undefined;
  exitStatus: number | null;
  /** Files under `work/` attached to its reply. */
  files?: readonly string[];
};

export type Turn = {
  seq: number;
  /** The current step when the model was called: what the answer refers to if it names no step. */
  step: string | null;
  /** A person wrote just before it. */
  followsPerson: boolean;
  text: string;
  /** The text ends in the middle. */
  isTruncated?: true;
  /** The endpoint stopped the answer for this reason: nothing in it counts as said at its end. */
  unfinished?: string;
  calls: readonly TurnCall[];
  /** This answer has closed a step: it closes no other. */
  hasClosedStep: boolean;
  /** A claim of this answer was refused or a question was asked: it is not judged again. */
  isJudged: boolean;
  /** The claim that was refused, and why. */
  refusedClaim: { step: string; veto: string; evidence: string } | null;
  /** The model said that the step is blocked. */
  isBlocked: boolean;
  /** Descriptions this answer declared that became steps. */
  declaredSteps: readonly string[];
};

export type TurnCall = {
  key: string;
  id: string;
  name: string;
  args: string;
  /** Its main argument: a path, a command. */
  mainArgument: string;
  state: 'asked' | 'started' | 'finished' | 'interrupted';
  replay: 'safe' | 'never';
  ok: boolean;
  /** What a person can check of it, once it has succeeded. */
  proof?: string;
  /** First words of its output. */
  outputHead: string;
  /** Images shown to the model once all calls of its answer have ended. */
  images?: readonly ImageFile[];
};

/** What completion detection needs of an earlier turn. */
export type TurnTrace = {
  text: string;
  tools: string[];
  args: string[];
  /** Files written by tools, under `work/`. */
  files: string[];
  proof?: string[];
};

/** A step claimed as done, and its checks in the order of `done_when`; outdated: a person changed them meanwhile. */
export type StepClaim = {
  /** Base of the keys of its checks; never reused. */
  seq: number;
  step: string;
  tier: CompletedBy;
  evidence: string;
  result: string;
  nextStep: string | undefined;
  attachments: readonly string[];
  checks: ReadonlyArray<{ state: 'started' | 'ended'; ok: boolean; text: string; isOutdated?: true } | undefined>;
};

/** News for the model, as facts; the prompt puts them into words. */
export type Notice = { seq: number } & (
  | { about: 'edit'; text: string }
  | { about: 'reopened'; step: string; said: string }
  | { about: 'again'; step: string; attempt: number; error: string }
  | { about: 'browser' }
  | { about: 'truncated' }
  | { about: 'restored'; files: number }
  | { about: 'unfinished'; finish: string }
  | { about: 'refused'; step: string; veto: string; evidence: string }
);

const NOT_ABOUT_PLAN: ReadonlySet<Notice['about']> = new Set(['browser', 'truncated', 'unfinished', 'restored']);

/** Whether it concerns the plan: the plan's next run gets it, a run that leaves the paused plan alone does not. */
export const isAboutPlan = ({ about }: Notice): boolean => !NOT_ABOUT_PLAN.has(about);

/** A round of work ends with its step, or after `step_iterations` iterations; it is idle if it completed nothing. */
export type WorkRounds = {
  endedRounds: number;
  /** How many of the latest rounds in a row were idle. */
  idleRounds: number;
  /** Iterations of the current round. */
  iterations: number;
};

export const NO_WORK_ROUNDS: WorkRounds = { endedRounds: 0, idleRounds: 0, iterations: 0 };

/** Ends a round. */
export function endRound({ endedRounds, idleRounds }: WorkRounds, completed: boolean): WorkRounds {
  return { endedRounds: endedRounds + 1, idleRounds: completed ? 0 : idleRounds + 1, iterations: 0 };
}

/** Counts one more answer in a step. A round that has `length` iterations without closing anything ends first. */
export function continueRound(rounds: WorkRounds, length: number): WorkRounds {
  const { iterations, ...after } = rounds.iterations >= length ? endRound(rounds, false) : rounds;
  return { ...after, iterations: iterations + 1 };
}

/** Up to this many rounds are never stagnation, and this many idle rounds in a row are tolerated (as in Manus Demo). */
const MIN_ROUNDS = 5;
const MAX_IDLE_ROUNDS = 3;

export function isStagnant({ endedRounds, idleRounds }: WorkRounds): boolean {
  return endedRounds > MIN_ROUNDS && idleRounds > MAX_IDLE_ROUNDS;
}

export type ApprovalState = {
  /** The highest id used. */
  lastId: number;
  /** The call that waits for a person. */
  open: PendingApproval | null;
  /** The call that was decided last: it runs, or its denial is reported to the model. */
  lastDecided: (PendingApproval & { verdict: ApprovalVerdict }) | null;
  /** How often each call was denied in the current run, by tool and arguments. */
  denials: Readonly<Record<string, number>>;
};

export const NO_APPROVALS: ApprovalState = { lastId: 0, open: null, lastDecided: null, denials: {} };

/** A call that needs approval. `id` 0: nobody was asked, a rule denied it. */
export type PendingApproval = {
  id: number;
  call: string;
  name: string;
  args: string;
  folder?: string;
  hash: string;
  why: string;
  display: string;
  always: string | null;
  at: string;
  expires_at: string;
  /** The run that ended for it; null until it has ended. */
  run: Run | null;
  /** Queued messages written before their sender could know of the call: their words do not answer it. */
  queuedBefore: readonly string[];
};

/** Calls of child sessions, and of theirs, that wait for a person. Only a root session knows of them. */
export type ChildCalls = {
  /** `isShown`: the person was asked about it. `isAnswered`: the answer is on its way to the session. */
  calls: ReadonlyArray<ChildCall & { isShown?: true; isAnswered?: true }>;
  /** When the last of them began to wait. */
  since: string;
  /** The run that ended to ask the person; null if none did. */
  run: Run | null;
  /** Queued messages written before their sender could know of the calls: their words do not answer them. */
  queuedBefore: readonly string[];
};

export const NO_CHILD_CALLS: ChildCalls = { calls: [], since: '', run: null, queuedBefore: [] };

export type ApprovalVerdict = { decision: 'allow' | 'deny'; by: ApprovedBy; why: string; at: string };

/** The items of a step that has started, as far as they have been listed, page by page. */
export type FanOut = {
  step: string;
  /** The event that started the step: base of the keys of the calls that list its items. */
  seq: number;
  /** `wanted`, `started`: the next page. */
  state: 'wanted' | 'started' | 'listed';
  /** Pages requested so far. */
  pages: number;
  /** The content of each item on the current page: files, entries, or the steps whose outcomes it combines. */
  parts: ReadonlyArray<readonly string[]>;
  /** Items of that page that are steps already. */
  addedParts: number;
  /** Items of earlier pages, and files or lines on all pages. */
  partsBefore: number;
  listedItems: number;
  groupSize: number | null;
  hasMore: boolean;
  leftOut: number;
  fault: string | null;
};

/**
 * Numbers of the checkpoints of `work/` before and after a step (0: `work/` was empty), and what differs between them:
 * how many files, and the first of them.
 */
export type StepCheckpoints = { before: number; after: number; changed: number; files: readonly FileChange[] };

/** The checkpoints of `work/`, as far as they matter for what comes next. */
export type WorkHistory = {
  /** The last one; 0: there is none, or `work/` was empty. */
  last: number;
  /** Why the next one is to be taken, and the steps that have ended since the last. */
  due: { why: CheckpointReason; steps: readonly string[] } | null;
  /** The last one taken for a message that restores files; `fault`: why it could not be taken. */
  rescue: { message: string; checkpoint: number | null; fault?: string } | null;
  /** The last message that restored files, and what came of it. */
  restored: WorkRestored | null;
};

export const NO_WORK_HISTORY: WorkHistory = { last: 0, due: null, rescue: null, restored: null };
