import type { EventBody, PlannerQuery } from '../../protocol/session/event.ts';
import type { Step } from '../../protocol/session/plan.ts';
import type { Language, Rules } from '../../protocol/settings/effective-settings.ts';
import { MAX_OPEN_STEPS, parseStepDeclarations } from '../detect/step-tags.ts';
import { openSteps } from '../plan/plan-steps.ts';
import { readySteps } from '../plan/step-readiness.ts';
import type { FirstPlanRules, ModeAction } from '../planner/planner-queries.ts';
import type { Turn } from '../session/run-state.ts';
import type { Session } from '../session/session-state.ts';

/** A planning mode: pure functions that say where the steps come from, what is worked on next, and by whom. */
export type ModePolicy = {
  /** For the table in docs/modes.md: what tasks it is for, and who works on the steps. */
  readonly about: { use: string; workers: string };
  /** The plan starts with the first call or declared step of the work itself; otherwise `nextAction` starts it. */
  readonly startsWithWork: boolean;
  /** A step counts as done only if a tool was used in it. */
  readonly requiresToolUse: boolean;
  /** All ready steps start at once; otherwise one at a time. */
  readonly runsInParallel: boolean;
  /** Starts the next item, in a folder of its own, as soon as one ends; otherwise waits for the whole batch. */
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

/**
 * The linear mode: steps are declared during the work, and one step is worked on at a time, in order. It calls the
 * model only for the work itself.
 */
export const linear: ModePolicy = {
  about: { use: 'most tasks; the default', workers: 'the session, one after the other' },
  startsWithWork: true,
  requiresToolUse: false,
  runsInParallel: false,
  maxAttempts: 1,
  maxOpenSteps: MAX_OPEN_STEPS,
  maxReplans: 0,

  declaredSteps: (session, turn) => declaredStepEvents(session, turn, MAX_OPEN_STEPS),

  /** The step to work on next: the one the model named, else the first that is ready. */
  chooseStep(session) {
    const free = readySteps(session.plan?.steps ?? []);
    return free.find((step) => step.id === session.announcedStep) ?? free[0];
  },

  isDelegated: () => false,
  nextAction: () => null,
};

/**
 * Events for steps the current answer declares that are not in the plan yet, as long as no more than `most` are open. A
 * list that is given again names completed steps again; one that is declared alone, with none open, is done again.
 */
export function declaredStepEvents(session: Session, turn: Turn, most: number): EventBody[] {
  const open = session.plan ? openSteps(session.plan).map((step) => step.description) : [];
  const isAlone = open.length === 0 && parseStepDeclarations(turn.text).length === 1;
  const completed = (isAlone ? [] : (session.plan?.steps ?? [])).filter(({ status }) => status === 'completed');
  const known = [...new Set([...open, ...turn.declaredSteps, ...completed.map((step) => step.description)])];
  const room = most - open.length;
  const fresh = room > 0 ? parseStepDeclarations(turn.text, known, known.length + room) : [];
  return fresh.map((description, n) => ({
    type: 'step.added',
    by: 'model',
    step: { id: `step_${session.lastStepNumber + n + 1}`, description, status: 'pending' },
  }));
}
