import type { EventOf } from '../../protocol/session/event.ts';
import { isFromOutside } from '../../protocol/session/log-entry.ts';
import { PLAN_SCHEMA_PATH, type Plan, type StepStatus } from '../../protocol/session/plan.ts';
import type { PlanChange } from '../../protocol/session/plan-edit.ts';
import type { Limits } from '../../protocol/settings/run-options.ts';
import { addSave } from '../plan/edited-plan.ts';
import { applyPlanChanges, describePlanChanges } from '../plan/plan-changes.ts';
import {
  bumpRevision,
  currentStepIndex,
  highestStepNumber,
  openSteps,
  runningStep,
  unreachedStepIds,
} from '../plan/plan-steps.ts';
import { clearOutcome, groupsToReopen, reopenAfterHandEdit } from '../plan/step-cascade.ts';
import { replanCalls } from '../session/internal-calls.ts';
import { isAboutPlan, type Notice, type Run, type RunEnd, type StepClaim } from '../session/run-state.ts';
import { hasRole, withSendersReach } from '../session/sender-rights.ts';
import { FRESH_PLAN_PROGRESS, FRESH_STEP_PROGRESS, planProgressOf, type Session } from '../session/session-state.ts';
import { titleFromMessage } from '../text/prose.ts';
import { outdateChildren } from './reduce-child.ts';
import { withoutReopened } from './reduce-step-end.ts';

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
    ...(session.run?.modeReason !== undefined && { mode_reason: session.run.modeReason }),
    limits: event.limits,
    revision: 1,
    created_at: event.at,
    updated_at: event.at,
  };
}

/** The planner replaced the open steps; step numbers keep counting, so that no id is used twice. */
function planRevised(session: Session, plan: Plan, event: EventOf<'plan.revised'>): Session {
  const after = applyPlanChanges(plan, event.changes, event.at);
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

const CLOSED_STATUSES: ReadonlySet<string> = new Set(['completed', 'skipped', 'failed']);

function planEdited(session: Session, plan: Plan, event: EventOf<'plan.edited'>): Session {
  const editedByPerson = personFieldsAfter(session, event);
  const edited = applyPlanChanges(plan, event.changes, event.at, event.by === 'agent' ? 'agent' : 'person');
  const after = planAfterEdit(session, withReopenedSteps(edited, event, { ...session, editedByPerson }), event);
  const closed = event.changes.flatMap((it) => (it.what === 'status' && CLOSED_STATUSES.has(it.to) ? [it.step] : []));
  const shut = new Set(closed);
  const open = new Set(
    event.changes.flatMap((it) => (it.what === 'status' && !CLOSED_STATUSES.has(it.to) ? [it.step] : [])),
  );
  const limits = event.changes.find((it) => it.what === 'limits');
  const closedSteps = [...session.closedSteps.filter((id) => !open.has(id) && !shut.has(id)), ...closed];
  return {
    ...session,
    plan: event.changes.length > 0 ? bumpRevision(after, event.at) : plan,
    lastStepNumber: Math.max(session.lastStepNumber, highestStepNumber(after)),
    limitsByPerson: limits?.to ?? session.limitsByPerson,
    planSaves: event.save ? addSave(session.planSaves, event.save) : session.planSaves,
    run:
      session.run && limits
        ? { ...withOwnLimits(session.run, limits.to), limits: { ...session.run.limits, ...limits.to } }
        : session.run,
    runEnd:
      session.runEnd && !session.runEnd.wasBeside && limits ? withOwnLimits(session.runEnd, limits.to) : session.runEnd,
    closedSteps,
    editedByPerson,
    trustedChecks: trustedChecksAfter(session, event.changes, mayWriteChecks(event)),
    ...withoutReopened({ ...session, closedSteps, editedByPerson }, plan.steps, after.steps),
    children: outdateChildren(session.children, after, event.changes),
    ...claimAfterEdit(session, event),
    notices: [
      ...session.notices,
      ...(isFromOutside(event.by) ? editNotices(event) : []).map(
        (text): Notice => ({ seq: event.seq, about: 'edit', text }),
      ),
    ],
    planProblem: event.refused ? session.planProblem : event.ignored.length > 0 ? event.ignored.join('; ') : null,
  };
}

function withReopenedSteps(plan: Plan, event: EventOf<'plan.edited'>, session: Session): Plan {
  const moved = event.changes.flatMap((it) => (it.what === 'status' && REOPENING.has(it.to) ? [it] : []));
  const rewired = event.changes.flatMap((it) =>
    it.what === 'step' && RELATIONS.some((field) => field in it.set || it.unset.includes(field)) ? [it.step] : [],
  );
  if (!isFromOutside(event.by) || moved.length + rewired.length === 0) return plan;
  const stepsSetTo = (isWanted: (to: StepStatus) => boolean) =>
    moved.flatMap(({ step, to }) => (isWanted(to) ? [step] : []));
  // Open again, a group ends as its steps have by now when the run continues.
  const groups = new Set(
    groupsToReopen(
      plan.steps,
      stepsSetTo((to) => to !== 'pending'),
      session,
    ),
  );
  const withGroups = plan.steps.map((step) =>
    groups.has(step.id) ? { ...clearOutcome(step), status: 'running' as const } : step,
  );
  const opened = [...stepsSetTo((to) => to === 'pending'), ...groups];
  const steps = reopenAfterHandEdit(withGroups, { opened, rewired }, session.editedByPerson);
  return { ...plan, steps, current_step_index: currentStepIndex(steps) };
}

/** Fields that can hold a step back because of another. */
const RELATIONS = ['needs', 'when', 'parent'] as const;

/** Statuses set by hand that can open other steps again. */
const REOPENING: ReadonlySet<StepStatus> = new Set(['pending', 'completed', 'skipped']);

const withOwnLimits = <T extends Run | RunEnd>(of: T, limits: Limits): T => ({
  ...of,
  ownLimits: { ...of.ownLimits, ...limits },
});

/** Changes listed individually for the model. */
const MAX_CHANGES_TOLD = 40;

function editNotices({ changes }: EventOf<'plan.edited'>): string[] {
  const over = changes.length - MAX_CHANGES_TOLD;
  const words = describePlanChanges(changes.slice(0, MAX_CHANGES_TOLD));
  return over > 0 ? [...words, `and ${over} more changes; the plan has them`] : words;
}

/** The fields that belong to the person after this edit; the status of a step to be redone is no longer theirs. */
function personFieldsAfter(session: Session, event: EventOf<'plan.edited'>): string[] {
  const theirs = withoutRemovedSteps(session, event);
  if (!isFromOutside(event.by)) return theirs;
  const status = event.changes.flatMap((it) => (it.what === 'status' ? [it] : []));
  const again = new Set(status.filter((it) => it.to === 'pending').map((it) => `${it.step}:status`));
  const statusEdits = status.filter((it) => it.to !== 'pending').map((it) => `${it.step}:status`);
  return [...new Set([...theirs.filter((one) => !again.has(one)), ...statusEdits, ...fieldsEditedIn(event)])];
}

/** Drops the fields of removed steps: a planner may give the id to another step. */
function withoutRemovedSteps(
  { editedByPerson }: Session,
  { changes }: Pick<EventOf<'plan.edited'>, 'changes'>,
): string[] {
  const gone = new Set(changes.flatMap((it) => (it.what === 'removed' ? [it.step] : [])));
  return editedByPerson.filter((one) => !gone.has(one.slice(0, one.lastIndexOf(':'))));
}

/** Whoever may not approve calls starts none by a check either: such a check asks, like one of the model's. */
const mayWriteChecks = ({ by, rights }: EventOf<'plan.edited'>): boolean =>
  isFromOutside(by) && hasRole(rights, 'approve');

function trustedChecksAfter({ trustedChecks }: Session, changes: readonly PlanChange[], isTrusted: boolean): string[] {
  const gone = changes.flatMap((it) => (it.what === 'removed' ? [it.step] : []));
  const written = changes.flatMap((it) => {
    if (it.what === 'added') return [it.step.id];
    return it.what === 'step' && (it.set.done_when || it.unset.includes('done_when')) ? [it.step] : [];
  });
  const touched = new Set([...gone, ...written]);
  return [...trustedChecks.filter((id) => !touched.has(id)), ...(isTrusted ? new Set(written) : [])];
}

const PERSON_FIELDS = ['description', 'needs', 'when', 'rollback', 'parent', 'agent', 'notes', 'done_when'];

/** The fields this edit makes the person's own, as `<step>:<field>`. */
function fieldsEditedIn(event: EventOf<'plan.edited'>): string[] {
  return event.changes.flatMap((it) => {
    if (it.what === 'added') return PERSON_FIELDS.map((field) => `${it.step.id}:${field}`);
    return it.what === 'step' ? [...Object.keys(it.set), ...it.unset].map((field) => `${it.step}:${field}`) : [];
  });
}

/**
 * A person who closes the claimed step decides the claim, new checks are run again, and the step that follows starts
 * fresh.
 */
function claimAfterEdit({ claim, plan }: Session, event: EventOf<'plan.edited'>): Partial<Session> {
  const closed = new Set(
    event.changes.flatMap((it) => (it.what === 'status' || it.what === 'removed' ? [it.step] : [])),
  );
  const checks = event.changes.some(
    (it) =>
      it.what === 'step' &&
      it.step === claim?.step &&
      (it.set.done_when !== undefined || it.unset.includes('done_when')),
  );
  const running = runningStep(plan);
  return {
    claim: claim && (closed.has(claim.step) ? null : checks ? { ...claim, checks: outdatedChecks(claim) } : claim),
    ...(running && closed.has(running.id) && FRESH_STEP_PROGRESS),
  };
}

/** None has a result; one that is running ends for nothing. */
const outdatedChecks = ({ checks }: StepClaim): StepClaim['checks'] =>
  checks.map((check) => (check?.state === 'started' ? { ...check, isOutdated: true as const } : undefined));

/**
 * What a hand edit does to an idle plan: with an open step again it can be continued; with none left it is completed,
 * and a completed one fails if a person says of a step that it was not done after all. A plan with a call that waits
 * for approval continues with the answer, whatever its steps are by then.
 */
function planAfterEdit(
  { approvals, plan: before, replacedSteps }: Session,
  plan: Plan,
  event: EventOf<'plan.edited'>,
): Plan {
  const over = plan.status === 'completed' || plan.status === 'failed' || plan.status === 'cancelled';
  const closed = new Set(before?.steps.flatMap(({ id, status }) => (CLOSED_STATUSES.has(status) ? [id] : [])));
  const opened =
    event.changes.some((it) => (it.what === 'status' && it.to === 'pending') || it.what === 'added') ||
    openSteps(plan).some(({ id }) => closed.has(id));
  if (over && opened && openSteps(plan).length > 0) return { ...plan, status: 'paused', reason: 'reopened' };
  const prevents = unreachedStepIds(plan, replacedSteps);
  const unreached = prevents.length > 0;
  const undone = event.changes.flatMap((it) => (it.what === 'status' && prevents.includes(it.step) ? [it.step] : []));
  if (plan.status === 'completed' && undone.length > 0)
    return { ...plan, status: 'failed', reason: `not reached: ${undone.join(', ')}` };
  const hasOpenCall = plan.status === 'waiting' && approvals.open?.run && !approvals.open.run.besidePlan;
  const isIdle = plan.status !== 'running' && plan.status !== 'cancelled' && plan.steps.length > 0 && !hasOpenCall;
  return isIdle && !unreached && openSteps(plan).length === 0
    ? { ...plan, status: 'completed', reason: 'closed by hand' }
    : plan;
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
