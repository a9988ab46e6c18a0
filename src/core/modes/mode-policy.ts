import type { EventBody, PlannerQuery } from '../../protocol/session/event.ts';
import type { Step } from '../../protocol/session/plan.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import type { FirstPlanRules, ModeAction } from '../planner/planner-queries.ts';
import type { Turn } from '../session/run-state.ts';
import type { Session } from '../session/session-state.ts';
import type { Language } from '../text/language.ts';

/** A planning mode: pure answers to where the steps come from, what is worked on next, and by whom. */
export type ModePolicy = {
  /** The plan begins with the first call or declared step of the work itself; else `nextAction` begins it. */
  readonly startsWithWork: boolean;
  /** A step counts as done only where a tool was used in it. */
  readonly requiresToolUse: boolean;
  /** All steps that are ready begin at once; else one at a time. */
  readonly runsInParallel: boolean;
  /**
   * Parts of a step begin as others of them end, and work in folders of their own; without this, those begun together
   * are waited for.
   */
  readonly isRolling?: boolean;
  /** Times a child may try a step. */
  readonly maxAttempts: number;
  /** Most steps that may be open. */
  readonly maxOpenSteps: number;
  /** As many open steps have the model asked to merge or close some; without it, never. */
  readonly mergeHintAt?: number;
  /** How often the open steps of one plan may be planned anew. */
  readonly maxReplans: number;
  /** How the planner's plan begins; without it, by the common rule. */
  readonly firstPlan?: FirstPlanRules;
  /** Seconds until the next try, for each try so far. */
  readonly retryDelaySeconds?: number;
  /** Steps that the answer at hand adds to the plan. */
  declaredSteps(session: Session, turn: Turn): EventBody[];
  /** The step to work on now; undefined where none is ready. */
  chooseStep(session: Session): Step | undefined;
  /** Whether a step is given to a child session instead of being worked on here. */
  isDelegated(session: Session, step: Step, rules: Rules): boolean;
  nextAction(session: Session, rules: Rules): ModeAction | null;
  /** Its own words for a question beside the work, where the common ones do not fit. */
  readonly plannerPrompts?: Readonly<Partial<Record<PlannerQuery, Readonly<Record<Language, string>>>>>;
  /** What it tells the model that does the work, beside the plan. */
  readonly workPrompt?: Readonly<Record<Language, string>>;
};
