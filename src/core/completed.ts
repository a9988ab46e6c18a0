import type { Plan } from '../protocol/plan.ts';

/** How many steps of a plan are completed. Apart from the rest about steps, which short commands have no need to load. */
export function completedSteps(plan: Plan): number {
  return plan.steps.filter((step) => step.status === 'completed').length;
}
