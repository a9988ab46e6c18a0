import type { EventBody } from '../../protocol/session/event.ts';
import type { Step } from '../../protocol/session/plan.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { executorOf, runningStep } from '../plan/plan-steps.ts';
import { revisionAction } from '../planner/plan-revision.ts';
import { firstPlanAction, summaryAction } from '../planner/planner-queries.ts';
import { replanCalls, replanReason } from '../session/internal-calls.ts';
import { activePlan } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';
import type { ModePolicy } from './mode-policy.ts';
import { linear } from './mode-policy.ts';

/**
 * Plan, then act: a planner writes the steps, each is worked on by its executor with the results of those before it,
 * open steps are revised after a failure, and a summary ends it (as ManusX, OpenManus and JManus do, without their
 * faults).
 */
export const planAct: ModePolicy = {
  ...linear,
  about: {
    use: 'a task whose steps can be named beforehand',
    workers: 'the session; steps with an agent, [child sessions](child-sessions.md)',
  },
  startsWithWork: false,
  requiresToolUse: true,
  maxAttempts: 3,
  maxReplans: 3,
  declaredSteps: () => [],
  /** A step whose tag names an agent is done by that agent, in a session of its own. */
  isDelegated: (_session, step, rules) => executorOf(step, rules).agent !== undefined,
  nextAction: (session, rules) =>
    firstPlanAction(session, rules) ??
    revisionAction(session, rules, { most: planAct.maxReplans, cause: revisionCause(session) }) ??
    failUnknownAgent(session, rules, planAct.chooseStep(session)) ??
    summaryAction(session, rules),
};

/** A failure that no revision covers yet, else the model's own request; null if there is neither. */
function revisionCause(session: Session): string | null {
  const failed = (activePlan(session)?.steps ?? []).filter(
    (step) => step.status === 'failed' && !session.revisedFor.includes(step.id),
  );
  if (failed.length > 0) return `${failed.map((step) => step.id).join(', ')} failed`;
  const call = replanCalls(session).find((one) => !session.revisedFor.includes(one.key));
  return call ? `asked for: ${replanReason(call.args)}` : null;
}

/**
 * If an unknown agent is an error, a step that names one fails when its turn comes, and says which agents are known.
 */
export function failUnknownAgent(
  session: Session,
  rules: Rules,
  step: Step | undefined,
): { record: EventBody[] } | null {
  const plan = activePlan(session);
  if (rules.unknownAgent !== 'fail' || !plan || !step || runningStep(plan)) return null;
  const { unknown } = executorOf(step, rules);
  if (unknown === undefined) return null;
  const known = Object.keys(rules.agents).join(', ') || 'none';
  const error = `no agent is called "${unknown}". Agents: ${known}`;
  return {
    record: [
      { type: 'step.started', step: step.id },
      { type: 'step.failed', step: step.id, error, by: 'daemon' },
    ],
  };
}
