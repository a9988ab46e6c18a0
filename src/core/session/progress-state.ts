import type { PlanSave } from '../../protocol/session/plan-edit.ts';
import type { Limits } from '../../protocol/settings/run-options.ts';
import type { SessionReach } from '../../protocol/workspace/daemon-files.ts';
import type { ChildSession } from './child-session.ts';
import {
  type FanOut,
  NO_WORK_ROUNDS,
  type StepCheckpoints,
  type StepClaim,
  type TurnTrace,
  type WorkRounds,
} from './run-state.ts';

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

const PROGRESS_KEYS = Object.keys(FRESH_PLAN_PROGRESS) as Array<keyof PlanProgress>;

/** The progress of the current plan that is kept when the plan is shelved: checks that were in progress run again. */
export function planProgressOf(session: PlanProgress): PlanProgress {
  const kept = { ...FRESH_PLAN_PROGRESS };
  const keep = <Key extends keyof PlanProgress>(key: Key) => {
    kept[key] = session[key];
  };
  PROGRESS_KEYS.forEach(keep);
  return { ...kept, claim: null };
}

/** State of the current step that is not in `plan.json`. */
export type StepProgress = {
  /** The step the model was asked about, whether it is done. */
  askedIfDone: string | null;
  /** The iteration whose answer left it in doubt whether the step is done, so that the model was asked. */
  askedInDoubt: number | null;
  /** Iterations of the current step that no longer count towards its timeout, since the model said it is not done. */
  graceIterations: number;
  /** Earlier turns of the current step, for completion detection; bounded. */
  stepHistory: ReadonlyArray<TurnTrace>;
  /** How often in a row each tool has failed in the current step; tools whose last call succeeded are not in it. */
  toolFailures: Readonly<Record<string, number>>;
  /** Duration of the calls of the current step. */
  stepMs?: number;
  /** The step the model named as next. */
  announcedStep: string | null;
};

/** The state kept for the current step outside the plan, as it is when a new step starts. */
export const FRESH_STEP_PROGRESS: StepProgress = {
  askedIfDone: null,
  askedInDoubt: null,
  graceIterations: 0,
  stepHistory: [],
  toolFailures: {},
  stepMs: 0,
  announcedStep: null,
};
