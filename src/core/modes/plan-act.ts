import { executorOf, nobodyFor } from '../planner/agents.ts';
import { planFirst, revision } from '../planner/consulting.ts';
import { summing } from '../planner/summing.ts';
import { linear } from './linear.ts';
import type { Policy } from './policy.ts';

/**
 * Plan, then act: a planner writes the steps, each is worked on by its executor with the results of those before it, what is
 * still open is planned anew after a failure, and a summary ends it (as ManusX, OpenManus and JManus do, without their faults).
 */
export const planAct: Policy = {
  ...linear,
  emerges: false,
  needsWork: true,
  attempts: 3,
  replans: 3,
  declare: () => [],
  /** A step whose tag names an agent is done by that one, in a session of its own. */
  delegates: (_session, step, rules) => executorOf(step, rules).agent !== undefined,
  counsel: (session, rules) =>
    planFirst(session, rules) ??
    revision(session, rules, planAct.replans) ??
    nobodyFor(session, rules, planAct.choose(session)) ??
    summing(session, rules),
};
