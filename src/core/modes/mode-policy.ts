import type { EventBody, PlannerQuery } from '../../protocol/session/event.ts';
import type { Step } from '../../protocol/session/plan.ts';
import type { Language, Rules } from '../../protocol/settings/effective-settings.ts';
import type { FirstPlanRules, ModeAction } from '../planner/planner-queries.ts';
import type { Turn } from '../session/run-state.ts';
import type { Session } from '../session/session-state.ts';

/** A planning mode: pure functions that say where the steps come from, what is worked on next, and by whom. */
export type ModePolicy = {
  /** The plan starts with the first call or declared step of the work itself; otherwise `nextAction` starts it. */
  readonly startsWithWork: boolean;
  /** A step counts as done only if a tool was used in it. */
  readonly requiresToolUse: boolean;
  /** All ready steps start at once; otherwise one at a time. */
  readonly runsInParallel: boolean;
  /**
   * Items of a step start as others end, and work in folders of their own; otherwise items started together are waited
   * for together.
   */
  readonly isRolling?: boolean;
  /** The most attempts of a child at a step. */
  readonly maxAttempts: number;
  /** The most steps that may be open. */
  readonly maxOpenSteps: number;
  /** From this many open steps on, the model is asked to merge or close some; if left out, never. */
  readonly mergeHintAt?: number;
  /** How often the open steps of one plan may be replanned. */
  readonly maxReplans: number;
  /** How the planner's plan starts; if left out, by the common rule. */
  readonly firstPlan?: FirstPlanRules;
  /** Seconds until the next attempt, multiplied by the attempts so far. */
  readonly retryDelaySeconds?: number;
  /** Steps that the current answer adds to the plan. */
  declaredSteps(session: Session, turn: Turn): EventBody[];
  /** The step to work on now; undefined if none is ready. */
  chooseStep(session: Session): Step | undefined;
  /** Whether a step is given to a child session instead of being worked on here. */
  isDelegated(session: Session, step: Step, rules: Rules): boolean;
  nextAction(session: Session, rules: Rules): ModeAction | null;
  /** Prompts of its own for planner queries, if the common ones do not fit. */
  readonly plannerPrompts?: Readonly<Partial<Record<PlannerQuery, Readonly<Record<Language, string>>>>>;
  /** What it tells the model that does the work, besides the plan. */
  readonly workPrompt?: Readonly<Record<Language, string>>;
};
