import type { EventOf } from '../../protocol/session/event.ts';
import { isFromOutside } from '../../protocol/session/log-entry.ts';
import type { Plan, StepStatus } from '../../protocol/session/plan.ts';
import type { PlanChange } from '../../protocol/session/plan-edit.ts';
import type { Limits } from '../../protocol/settings/run-options.ts';
import { addSave } from '../plan/edited-plan.ts';
import { applyPlanChanges, describePlanChanges, removedSteps } from '../plan/plan-changes.ts';
import {
  bumpRevision,
  currentStepIndex,
  highestStepNumber,
  openSteps,
  runningStep,
  unreachedStepIds,
} from '../plan/plan-steps.ts';
import { groupsToReopen, nextGroupEnd, reopenAfterHandEdit } from '../plan/step-cascade.ts';
import { replaceStep } from '../plan/step-graph.ts';
import { moveStep } from '../plan/step-moves.ts';
import { FRESH_STEP_PROGRESS } from '../session/progress-state.ts';
import type { Notice, Run, RunEnd, StepClaim } from '../session/run-state.ts';
import { hasRole } from '../session/sender-rights.ts';
import { CLOSED_BY_HAND } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';
import { restingRun } from './reduce-approval.ts';
import { outdateChildren } from './reduce-child.ts';
import { applyToGroup, judgedIfAbout, withoutReopened } from './reduce-step-end.ts';

const CLOSED_STATUSES: ReadonlySet<string> = new Set(['completed', 'skipped', 'failed']);

/** A person has edited the plan, or the model by its tool. */
export function planEdited(session: Session, plan: Plan, event: EventOf<'plan.edited'>): Session {
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
    limitsByPerson: limits ? { ...session.limitsByPerson, ...limits.to } : session.limitsByPerson,
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

const statusSteps = ({ changes }: EventOf<'plan.edited'>, to: StepStatus): string[] =>
  changes.flatMap((it) => (it.what === 'status' && it.to === to ? [it.step] : []));

function withReopenedSteps(plan: Plan, event: EventOf<'plan.edited'>, session: Session): Plan {
  const moved = event.changes.flatMap((it) => (it.what === 'status' && REOPENING.has(it.to) ? [it] : []));
  const gone = removedSteps(event.changes);
  const rewired = [
    ...event.changes.flatMap((it) =>
      it.what === 'step' && RELATIONS.some((field) => field in it.set || it.unset.includes(field)) ? [it.step] : [],
    ),
    ...plan.steps.flatMap((step) => (gone.has(step.because?.step ?? '') ? [step.id] : [])),
  ];
  if (!isFromOutside(event.by) || moved.length + rewired.length + gone.size === 0) return plan;
  const stepsSetTo = (isWanted: (to: StepStatus) => boolean) =>
    moved.flatMap(({ step, to }) => (isWanted(to) ? [step] : []));
  // Open again, a group ends as its steps have by now when the run continues.
  const groups = new Set(
    groupsToReopen(
      plan.steps,
      [...stepsSetTo((to) => to !== 'pending'), ...siblingsOf(session.plan, gone, plan)],
      session,
    ),
  );
  const withGroups = plan.steps.map((step) => (groups.has(step.id) ? moveStep(step, 'running') : step));
  const opened = [...stepsSetTo((to) => to === 'pending'), ...groups];
  const steps = reopenAfterHandEdit(withGroups, { opened, rewired }, session.editedByPerson);
  return { ...plan, steps, current_step_index: currentStepIndex(steps) };
}

/** A step that is left of each group that removed steps were in. */
function siblingsOf(before: Plan | null, gone: ReadonlySet<string>, { steps }: Plan): string[] {
  const parents = new Set((before?.steps ?? []).flatMap(({ id, parent }) => (gone.has(id) && parent ? [parent] : [])));
  return [...parents].flatMap((parent) => steps.find((step) => step.parent === parent)?.id ?? []);
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
export function withoutRemovedSteps(
  { editedByPerson }: Session,
  { changes }: Pick<EventOf<'plan.edited'>, 'changes'>,
): string[] {
  const gone = new Set(changes.flatMap((it) => (it.what === 'removed' ? [it.step] : [])));
  return editedByPerson.filter((one) => !gone.has(one.slice(0, one.lastIndexOf(':'))));
}

/** Whoever may not approve calls starts none by a check either: such a check asks, like one of the model's. */
const mayWriteChecks = ({ by, rights }: EventOf<'plan.edited'>): boolean =>
  isFromOutside(by) && hasRole(rights, 'approve');

/** The steps whose checks run without asking, after these changes. */
export function trustedChecksAfter(
  { trustedChecks }: Session,
  changes: readonly PlanChange[],
  isTrusted: boolean,
): string[] {
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
 * fresh. An answer from before the edit says nothing about a step that was to be decided or done again.
 */
function claimAfterEdit({ claim, plan, turn }: Session, event: EventOf<'plan.edited'>): Partial<Session> {
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
  const again = isFromOutside(event.by) ? statusSteps(event, 'pending') : [];
  return {
    turn: turn && claim && closed.has(claim.step) ? { ...turn, isJudged: true } : judgedIfAbout(turn, again),
    claim: claim && (closed.has(claim.step) ? null : checks ? { ...claim, checks: outdatedChecks(claim) } : claim),
    ...(running && closed.has(running.id) && FRESH_STEP_PROGRESS),
  };
}

/** Drops all results; that of a running check will be ignored. */
const outdatedChecks = ({ checks }: StepClaim): StepClaim['checks'] =>
  checks.map((check) => (check?.state === 'started' ? { ...check, isOutdated: true as const } : undefined));

/**
 * What a hand edit does to an idle plan. Groups end with their steps. With an open step again it can be continued; once
 * the edit has closed what was left it is over, and a completed one fails if a person says of a step that it was not
 * done after all. A plan with a call that waits for approval continues with the answer, whatever its steps are by then.
 */
function planAfterEdit(session: Session, edited: Plan, event: EventOf<'plan.edited'>): Plan {
  const { plan: before, replacedSteps } = session;
  const plan = edited.status === 'running' ? edited : withClosedGroups(edited, replacedSteps, event);
  const over = plan.status === 'completed' || plan.status === 'failed' || plan.status === 'cancelled';
  const closed = new Set(before?.steps.flatMap(({ id, status }) => (CLOSED_STATUSES.has(status) ? [id] : [])));
  const opened =
    event.changes.some((it) => (it.what === 'status' && it.to === 'pending') || it.what === 'added') ||
    openSteps(plan).some(({ id }) => closed.has(id));
  if (over && opened && openSteps(plan).length > 0) return { ...plan, status: 'paused', reason: 'reopened' };
  const prevents = unreachedStepIds(plan, replacedSteps);
  const undone = event.changes.flatMap((it) => (it.what === 'status' && prevents.includes(it.step) ? [it.step] : []));
  if (plan.status === 'completed' && undone.length > 0)
    return { ...plan, status: 'failed', reason: `not reached: ${undone.join(', ')}` };
  const rests = restingRun(session);
  const hasOpenCall = plan.status === 'waiting' && rests && !rests.besidePlan;
  const isCancelled = plan.status === 'cancelled' && plan.reason !== CLOSED_BY_HAND;
  if (plan.status === 'running' || isCancelled || plan.steps.length === 0 || hasOpenCall) return plan;
  const hadMore = before !== null && isUnfinished(before, replacedSteps);
  const isOver = plan.status === 'completed' || plan.status === 'cancelled';
  if (isUnfinished(plan, replacedSteps) || !(hadMore || isOver)) return plan;
  const status = plan.steps.some((step) => step.status === 'completed') ? 'completed' : 'cancelled';
  return status === plan.status ? plan : { ...plan, status, reason: CLOSED_BY_HAND };
}

const isUnfinished = (plan: Plan, replaced: readonly string[]): boolean =>
  openSteps(plan).length > 0 || unreachedStepIds(plan, replaced).length > 0;

/** A group whose steps a person has closed is closed with them. */
function withClosedGroups(
  plan: Plan,
  replaced: readonly string[],
  { by, v, seq, epoch, at }: EventOf<'plan.edited'>,
): Plan {
  let { steps } = plan;
  for (let end = isFromOutside(by) ? nextGroupEnd(steps, replaced) : null; end; end = nextGroupEnd(steps, replaced)) {
    const event = { ...end, v, seq, epoch, at };
    steps = replaceStep(steps, event.step, (group) => applyToGroup(group, event));
  }
  return steps === plan.steps ? plan : { ...plan, steps, current_step_index: currentStepIndex(steps) };
}
