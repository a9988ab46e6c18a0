import type { ApprovedBy } from '../../protocol/session/approval.ts';
import type { EventOf, PlannerQuery, RunEndStatus } from '../../protocol/session/event.ts';
import type { ImageFile } from '../../protocol/session/message.ts';
import type { CompletedBy } from '../../protocol/session/plan.ts';
import type { Usage } from '../../protocol/session/reply.ts';
import type { Mode, ResolvedLimits } from '../../protocol/settings/run-options.ts';

export type Run = {
  message: string;
  startedAt: string;
  /** How long calls of its family took, waiting for the endpoint included, by a clock that does not jump. */
  elapsedMs: number;
  mode: Mode;
  /** Why this mode, where the daemon chose it. */
  modeReason: string | undefined;
  model: string | undefined;
  limits: ResolvedLimits;
  /** Id of a paused plan this run leaves alone. */
  besidePlan: string | undefined;
  spent: { iterations: number; tokens: number; cost: number | null };
  /** Answers in a row without a tool call and without a step being closed, while steps were open. */
  idleAnswers: number;
  repeatedCall: { key: string; count: number; call: string };
  /** `silent_ms`: from the first of these failures to the last. */
  failure: { silent_ms: number; last: EventOf<'model.failed'> } | null;
  /** The paused plan that made room for this run's own. */
  shelvedPlan: { id: string; goal: string } | null;
  agent: string | undefined;
  folder: string | undefined;
  /** The question beside the work that was answered last, and how often it was asked in a row. */
  plannerQuery: { ask: PlannerQuery; tries: number; text: string } | null;
  /** Exit status of the last command that ran; null: none ran, or it did not end by itself. */
  exitStatus: number | null;
};

export type RunEnd = {
  message: string;
  status: RunEndStatus;
  reason: string;
  text: string;
  seq: number;
  wasBeside: boolean;
  /** The plan that rests with it. */
  plan: string | null;
  /** Wall time. A record folded by an earlier version may not have it. */
  at?: string;
  spent: Usage;
  mode: Mode | undefined;
  modeReason: string | undefined;
  agent: string | undefined;
  folder: string | undefined;
  exitStatus: number | null;
  /** Files under `work/` that its reply brings along. */
  files?: readonly string[];
};

export type Turn = {
  seq: number;
  /** The step at work when the model was asked: what the answer speaks of where it names none. */
  step: string | null;
  /** A person spoke just before it. */
  followsPerson: boolean;
  text: string;
  calls: readonly TurnCall[];
  /** A step was closed by this answer: it closes no other. */
  hasClosedStep: boolean;
  /** A claim of this answer was refused or a question asked: it is not judged again. */
  isJudged: boolean;
  /** Its claim was not believed, and why. */
  refusedClaim: { step: string; evidence: string } | null;
  /** It said that the step cannot go on without something. */
  isBlocked: boolean;
  /** Descriptions this answer declared that were added. */
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
  /** First words of its output. */
  outputHead: string;
  /** What the model is shown of it when all calls of its answer have ended. */
  images?: readonly ImageFile[];
};

/** What of a turn the judge looks back at. */
export type TurnTrace = {
  text: string;
  tools: string[];
  args: string[];
  /** Files the tools wrote, under `work/`. */
  files: string[];
};

/** A step said to be done, and how its checks came out so far, in the order of its `done_when`. */
export type StepClaim = {
  /** Where its checks have their keys from: never used twice. */
  seq: number;
  step: string;
  tier: CompletedBy;
  evidence: string;
  result: string;
  nextStep: string | undefined;
  attachments: readonly string[];
  checks: ReadonlyArray<{ state: 'started' | 'ended'; ok: boolean; text: string } | undefined>;
};

/** News for the model, as facts; the prompt puts them into words. */
export type Notice = { seq: number } & (
  | { about: 'edit'; text: string }
  | { about: 'reopened'; step: string; said: string }
  | { about: 'again'; step: string; attempt: number; error: string }
  | { about: 'refused'; step: string; veto: string; evidence: string }
);

/**
 * Stretches of work on steps of one plan. A stretch ends when its step is closed or fails, or after `step_iterations`
 * iterations in it; it is quiet where it completed nothing.
 */
export type WorkRounds = {
  endedRounds: number;
  /** Of those that ended last, how many in a row were quiet. */
  idleRounds: number;
  /** Iterations of the stretch at hand. */
  iterations: number;
};

export const NO_WORK_ROUNDS: WorkRounds = { endedRounds: 0, idleRounds: 0, iterations: 0 };

/** A stretch is over. */
export function endRound({ endedRounds, idleRounds }: WorkRounds, completed: boolean): WorkRounds {
  return { endedRounds: endedRounds + 1, idleRounds: completed ? 0 : idleRounds + 1, iterations: 0 };
}

/** One more answer in a step. The stretch before it is over where it had as many as `length` and closed nothing. */
export function continueRound(rounds: WorkRounds, length: number): WorkRounds {
  const { iterations, ...after } = rounds.iterations >= length ? endRound(rounds, false) : rounds;
  return { ...after, iterations: iterations + 1 };
}

/** Stretches that are never a standstill, and quiet ones in a row that are patience still (both as in Manus Demo). */
const MIN_ROUNDS = 5;
const MAX_IDLE_ROUNDS = 3;

export function isStagnant({ endedRounds, idleRounds }: WorkRounds): boolean {
  return endedRounds > MIN_ROUNDS && idleRounds > MAX_IDLE_ROUNDS;
}

export type ApprovalState = {
  /** The highest number given. */
  lastId: number;
  /** The call that waits for a person. */
  open: PendingApproval | null;
  /** The one that was decided last; its call runs, or is told no. */
  lastDecided: (PendingApproval & { verdict: ApprovalVerdict }) | null;
  /** How often each call was denied in the run at hand, by tool and arguments. */
  denials: Readonly<Record<string, number>>;
};

export const NO_APPROVALS: ApprovalState = { lastId: 0, open: null, lastDecided: null, denials: {} };

/** A call that was asked about. `id` 0: nobody was asked, a rule has denied it. */
export type PendingApproval = {
  id: number;
  call: string;
  name: string;
  args: string;
  folder?: string;
  hash: string;
  why: string;
  shows: string;
  always: string | null;
  at: string;
  expires_at: string;
  /** The run that rests over it; null while that has not come to rest yet. */
  run: Run | null;
  /** Queued messages that were written before their sender could know of it: their words are no answer to it. */
  queuedBefore: readonly string[];
};

export type ApprovalVerdict = { decision: 'allow' | 'deny'; by: ApprovedBy; why: string; at: string };

/** The parts of a step that has begun, as far as they were found, page by page. */
export type FanOut = {
  step: string;
  /** Of the event that began the step: where the calls that list its parts have their keys from. */
  seq: number;
  /** `wanted`, `started`: of the page that comes next. */
  state: 'wanted' | 'started' | 'listed';
  /** Pages asked for so far. */
  pages: number;
  /** What each part of the page at hand is for: files, entries, or steps whose outcomes it puts together. */
  parts: ReadonlyArray<readonly string[]>;
  /** Parts of that page that are steps by now. */
  addedParts: number;
  /** Parts of earlier pages, and files or lines in all pages. */
  partsBefore: number;
  listedItems: number;
  groupSize: number | null;
  hasMore: boolean;
  leftOut: number;
  fault: string | null;
};
