/** A plan for people and for `plan.json`: what the core says, for frontends, which may not ask it. */
export { planText } from '../core/steps.ts';
export { planSummary, stepLine } from '../core/summary.ts';
