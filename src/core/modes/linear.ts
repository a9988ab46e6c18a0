import { parseStepDeclarations } from '../declarations.ts';
import { openSteps, ready } from '../steps.ts';
import type { Policy } from './policy.ts';

/**
 * The linear mode: steps are declared as the work goes, and one step is worked on at a time, in order. It calls the model for
 * nothing but the work itself.
 */
export const linear: Policy = {
  emerges: true,
  needsWork: false,
  together: false,
  attempts: 1,

  /** Steps the answer at hand declares that the plan does not have yet. */
  declare(session, turn) {
    const open = session.plan ? openSteps(session.plan).map((step) => step.description) : [];
    const fresh = parseStepDeclarations(turn.text, [...open, ...turn.declared]);
    return fresh.map((description, n) => ({
      type: 'step.added',
      by: 'model',
      step: { id: `step_${session.stepNo + n + 1}`, description, status: 'pending' },
    }));
  },

  /** The step to work on next: the one the model named, else the first that is ready. */
  choose(session) {
    const free = ready(session.plan?.steps ?? []);
    return free.find((step) => step.id === session.next) ?? free[0];
  },

  delegates: () => false,
  counsel: () => null,
};
