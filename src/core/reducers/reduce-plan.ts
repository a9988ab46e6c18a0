import type { EventOf } from '../../protocol/session/event.ts';
import { PLAN_SCHEMA_PATH, type Plan } from '../../protocol/session/plan.ts';
import { applyPlanChanges } from '../plan/plan-changes.ts';
import { bumpRevision, currentStepIndex, highestStepNumber } from '../plan/plan-steps.ts';
import { replanCalls } from '../session/internal-calls.ts';
import { FRESH_PLAN_PROGRESS, FRESH_STEP_PROGRESS, planProgressOf } from '../session/progress-state.ts';
import { isAboutPlan } from '../session/run-state.ts';
import { withSendersReach } from '../session/sender-rights.ts';
import type { Session } from '../session/session-state.ts';
import { titleFromMessage } from '../text/prose.ts';
import { planEdited, trustedChecksAfter, withoutRemovedSteps } from './reduce-plan-edit.ts';

type PlanEvent = EventOf<'plan.started' | 'plan.edited' | 'plan.revised' | 'plan.ended'>;

/** A plan starts, is edited by hand, or ends. */
export function reducePlan(session: Session, event: PlanEvent): Session {
  if (event.type === 'plan.started') {
    return {
      ...session,
      ...FRESH_STEP_PROGRESS,
      // The planner's title is better than the first words of the message.
      title: event.title !== undefined && session.title === titleFromMessage(event.goal) ? event.title : session.title,
      plan: newPlan(session, event),
      ...FRESH_PLAN_PROGRESS,
      reach: session.run?.reach ?? [],
      limitsByPerson: session.run?.ownLimits ?? null,
      lastStepNumber: highestStepNumber({ steps: event.steps ?? [] }),
      run: session.run && { ...session.run, plannerQuery: null },
    };
  }
  const { plan } = session;
  if (!plan) return session;
  if (event.type === 'plan.revised') return planRevised(session, plan, event);
  if (event.type === 'plan.ended') return planEnded(session, plan, event);
  return planEdited(withSendersReach(session, 'plan', event.changes.length > 0 ? [event.rights] : []), plan, event);
}

function newPlan(session: Session, event: EventOf<'plan.started'>): Plan {
  return {
    $schema: PLAN_SCHEMA_PATH,
    version: 1,
    id: event.id,
    goal: event.goal,
    mode: event.mode,
    status: 'running',
    steps: event.steps ?? [],
    current_step_index: currentStepIndex(event.steps ?? []),
    // The answer that created the plan is its first iteration.
    iteration_count: session.turn ? 1 : (session.run?.spent.iterations ?? 0),
    ...(event.title !== undefined && { title: event.title }),
    ...(event.planned_by !== undefined && { planned_by: event.planned_by }),
    // An earlier version said it in `planned_by` alone.
    ...((event.unplanned || event.planned_by?.startsWith('fallback')) && { unplanned: true as const }),
    ...(session.run?.modeReason !== undefined && { mode_reason: session.run.modeReason }),
    limits: event.limits,
    revision: 1,
    created_at: event.at,
    updated_at: event.at,
  };
}

/** The planner replaced the open steps; step numbers keep counting, so that no id is used twice. */
function planRevised(session: Session, plan: Plan, event: EventOf<'plan.revised'>): Session {
  const after = applyPlanChanges(plan, event.changes, event.at, 'planner');
  const failed = plan.steps.filter((step) => step.status === 'failed').map((step) => step.id);
  const planned = event.changes.some(
    (it) => it.what === 'added' || (it.what === 'step' && it.set.description !== undefined),
  );
  return {
    ...session,
    plan: bumpRevision(after, event.at),
    editedByPerson: withoutRemovedSteps(session, event),
    trustedChecks: trustedChecksAfter(session, event.changes, false),
    replacedSteps: planned ? [...new Set([...session.replacedSteps, ...failed])] : session.replacedSteps,
    reviewedSteps: plan.steps
      .filter(({ status }) => status !== 'pending' && status !== 'running')
      .map((step) => step.id),
    lastStepNumber: Math.max(session.lastStepNumber, highestStepNumber(after)),
    revisions: session.revisions + 1,
    revisedFor: [...failed, ...replanCalls(session).map((call) => call.key)],
    run: session.run && { ...session.run, plannerQuery: null },
  };
}

/** A paused plan is shelved for another one; any other end leaves it in place until the next plan starts. */
function planEnded(session: Session, plan: Plan, event: EventOf<'plan.ended'>): Session {
  if (event.plan !== plan.id) return session;
  if (event.status === 'paused') {
    const run = session.run && { ...session.run, besidePlan: undefined, shelvedPlan: { id: plan.id, goal: plan.goal } };
    const shelvedPlans = { ...session.shelvedPlans, [plan.id]: plan };
    const shelvedProgress = { ...session.shelvedProgress, [plan.id]: planProgressOf(session) };
    const notices = session.notices.filter((notice) => !isAboutPlan(notice));
    return { ...session, ...FRESH_PLAN_PROGRESS, run, plan: null, shelvedPlans, shelvedProgress, notices };
  }
  return { ...session, plan: bumpRevision({ ...plan, status: event.status, reason: event.reason }, event.at) };
}
