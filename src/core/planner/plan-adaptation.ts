import type { Plan, Step } from '../../protocol/session/plan.ts';
import { PlanAdaptation, type PlanChange } from '../../protocol/session/plan-edit.ts';
import type { AgentProfile } from '../../protocol/settings/config.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { applyPlanChange } from '../plan/plan-changes.ts';
import { findAgentName, whyIllegalTransition } from '../plan/plan-steps.ts';
import { dependencyNodes, findCycle, isGroup, stepGraph, stepReferences } from '../plan/step-graph.ts';
import { formatSkipCause } from '../plan/step-readiness.ts';
import { activePlan } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';
import { firstJsonObject } from '../text/json-in-answer.ts';
import { assignStepIds, MAX_PLAN_STEPS } from './plan-proposal.ts';
import { DEFAULT_FIRST_PLAN, type ModeAction } from './planner-queries.ts';

/**
 * Between super-steps: asks whether the open steps should change, given what is now known. Asked after the first
 * super-step, when the first facts come in, and after each one that did not go as planned, at most `most` times per
 * plan. Null if there is nothing to ask.
 */
export function adaptationAction(session: Session, rules: Rules, most: number): ModeAction | null {
  const { run } = session;
  const plan = activePlan(session);
  if (!run || !plan || session.revisions >= most || !isBetweenSteps(plan) || !hasUnreviewedSteps(plan, session))
    return null;
  const read = lastAdaptation(session, rules);
  if (!read || (read.is === 'fault' && (run.plannerQuery?.tries ?? 0) < DEFAULT_FIRST_PLAN.maxTries))
    return { ask: 'adapt' };
  const reason = read.is === 'fault' ? `no change: ${read.why}` : read.reason;
  return { record: [{ type: 'plan.revised', reason, changes: read.is === 'changed' ? read.changes : [] }] };
}

/** The planner's last answer to this query; undefined if it was not asked. */
export function lastAdaptation(
  { run, plan, editedByPerson, lastStepNumber }: Session,
  { agents }: Rules,
): AdaptationReading | undefined {
  return plan && run?.plannerQuery?.ask === 'adapt'
    ? readAdaptation(run.plannerQuery.text, plan, { agents, editedByPerson, lastStepNumber })
    : undefined;
}

/** Something is done, some steps have not started, and nothing runs. */
function isBetweenSteps({ steps }: Plan): boolean {
  const worked = steps.filter((step) => !isGroup(steps, step.id));
  return (
    worked.some((step) => step.status === 'completed') &&
    worked.some((step) => step.status === 'pending') &&
    !worked.some((step) => step.status === 'running')
  );
}

/**
 * The first review; or a step that failed or was left out since the last one. A rollback that was not needed is no
 * news.
 */
function hasUnreviewedSteps({ steps }: Plan, { revisions, reviewedSteps }: Session): boolean {
  const { rollbackTargets } = stepGraph(steps);
  const turned = steps.filter((step) => step.status === 'failed' || step.status === 'skipped');
  return revisions === 0 || turned.some(({ id }) => !reviewedSteps.includes(id) && !rollbackTargets.has(id));
}

/** The result of a planner's answer between super-steps. A fault is worded so that the planner can fix it. */
type AdaptationReading =
  | { is: 'kept'; reason: string }
  | { is: 'changed'; reason: string; changes: PlanChange[] }
  | { is: 'fault'; why: string };

type AdaptationContext = {
  agents: Readonly<Record<string, AgentProfile>>;
  editedByPerson: readonly string[];
  lastStepNumber: number;
};
type StepChange = NonNullable<PlanAdaptation['change']>[number];
/** A change that cannot be made, reported to the planner. */
class RefusedAdaptation extends Error {}

/**
 * Parses the changes a planner wants. Only steps that have not started may be removed or changed, none that a person
 * wrote, and the result must be consistent; otherwise everything is refused, naming the step.
 */
function readAdaptation(text: string, plan: Plan, known: AdaptationContext): AdaptationReading {
  const parsed = PlanAdaptation.safeParse(firstJsonObject(text));
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const where = issue?.path.join('.');
    return { is: 'fault', why: where ? `${where}: ${issue?.message}` : 'the answer holds no whole JSON object' };
  }
  const { reason, remove, change, add } = parsed.data;
  const wishes = (remove?.length ?? 0) + (change?.length ?? 0) + (add?.length ?? 0);
  if (wishes === 0) return { is: 'kept', reason: reason?.trim() || 'the plan stays as it is' };
  try {
    const changes = grantedChanges(plan, parsed.data, known);
    return { is: 'changed', reason: reason?.trim() || 'the planner adapted it', changes };
  } catch (error) {
    if (error instanceof RefusedAdaptation) return { is: 'fault', why: error.message };
    throw error;
  }
}

function grantedChanges(
  plan: Plan,
  { remove, change, add }: PlanAdaptation,
  { agents, editedByPerson, lastStepNumber }: AdaptationContext,
): PlanChange[] {
  const draft: PlanDraft = { plan, changes: [] };
  const wanted = (remove ?? []).map((id) => pendingStep(plan, id, 'removed'));
  const gone = removedWithParts(plan, wanted, editedByPerson);
  for (const { id, description } of gone) applyToDraft(draft, { what: 'removed', step: id, description });
  const ids = gone.map((step) => step.id);
  const made = assignStepIds(add ?? [], { agents, steps: draft.plan.steps, lastStepNumber, gone: ids });
  if ('why' in made) throw new RefusedAdaptation(`"add": ${made.why}`);
  for (const step of made.steps) applyToDraft(draft, { what: 'added', step, at: draft.plan.steps.length });
  for (const one of change ?? []) changeStep(draft, one, agents, editedByPerson);
  for (const id of ids) detachRemoved(draft, id);
  for (const group of emptiedGroups(plan, draft.plan)) skipStep(draft, group.id, 'all its parts were removed');
  const cycle = findCycle(dependencyNodes(draft.plan.steps));
  if (cycle) throw new RefusedAdaptation(`the steps ${cycle.join(' → ')} would wait for each other in a ring`);
  if (draft.plan.steps.length > MAX_PLAN_STEPS)
    throw new RefusedAdaptation(`that makes ${draft.plan.steps.length} steps; ${MAX_PLAN_STEPS} are the most`);
  return draft.changes;
}

/** The plan as it would be, and the changes that lead to it. */
type PlanDraft = { plan: Plan; changes: PlanChange[] };

function applyToDraft(draft: PlanDraft, change: PlanChange): void {
  draft.plan = applyPlanChange(draft.plan, change, draft.plan.updated_at);
  draft.changes.push(change);
}

function skipStep(draft: PlanDraft, step: string, note: string): void {
  const pending = draft.plan.steps.some(({ id, status }) => id === step && status === 'pending');
  if (pending) applyToDraft(draft, { what: 'status', step, from: 'pending', to: 'skipped', note });
}

/** The step of that id, if it has not started. */
function pendingStep({ steps }: Plan, id: string, how: string): Step {
  const step = steps.find((one) => one.id === id);
  if (!step) throw new RefusedAdaptation(`no step is called ${id}. Steps: ${steps.map((one) => one.id).join(', ')}`);
  if (step.status !== 'pending')
    throw new RefusedAdaptation(`${id} is ${step.status} and cannot be ${how}; only steps that have not begun can`);
  return step;
}

/** A group is removed with its steps; what a person wrote stays. */
function removedWithParts(plan: Plan, wanted: readonly Step[], editedByPerson: readonly string[]): Step[] {
  const { parts } = stepGraph(plan.steps);
  const all = new Set(wanted);
  for (const { id } of all) for (const part of parts.get(id) ?? []) all.add(pendingStep(plan, part.id, 'removed'));
  const own = [...all].find(({ id }) => editedByPerson.includes(`${id}:description`));
  if (own) throw new RefusedAdaptation(`${own.id} was written by a person and stays`);
  return [...all];
}

function changeStep(
  draft: PlanDraft,
  change: StepChange,
  agents: AdaptationContext['agents'],
  editedByPerson: readonly string[],
): void {
  const step = draft.plan.steps.find(({ id }) => id === change.id);
  const { status: to } = change;
  const illegal = step && to && to !== step.status ? whyIllegalTransition(step, to) : undefined;
  if (illegal !== undefined) throw new RefusedAdaptation(illegal);
  const { id } = pendingStep(draft.plan, change.id, 'changed');
  if (to && to !== 'pending' && to !== 'skipped')
    throw new RefusedAdaptation(
      `${id} cannot be set to ${to}: how far a step is follows the work. It may be "skipped"`,
    );
  const { set, unset } = changedValues(change, agents);
  const own = [...Object.keys(set), ...unset].filter((field) => editedByPerson.includes(`${id}:${field}`));
  if (own.length > 0) throw new RefusedAdaptation(`${own.join(', ')} of ${id} was written by a person and stays`);
  checkReferences(draft.plan, id, set);
  if (Object.keys(set).length + unset.length > 0) applyToDraft(draft, { what: 'step', step: id, set, unset });
  if (to === 'skipped') skipStep(draft, id, 'left out by the planner');
}

type StepValues = Pick<Extract<PlanChange, { what: 'step' }>, 'set' | 'unset'>;
const CLEARABLE_FIELDS = ['needs', 'when', 'rollback', 'parent', 'done_when', 'agent'] as const;

/** Given values are set; null or an empty list removes a field. */
function changedValues(change: StepChange, agents: AdaptationContext['agents']): StepValues {
  const { description, needs, rollback, parent, done_when, agent } = change;
  const when = change.when ? [change.when].flat() : [];
  const name = agent ? findAgentName(agents, agent) : undefined;
  if (agent && name === undefined)
    throw new RefusedAdaptation(`no agent is called "${agent}". Agents: ${Object.keys(agents).join(', ') || 'none'}`);
  const set = {
    ...(description !== undefined && { description }),
    ...(needs && needs.length > 0 && { needs }),
    ...(when.length > 0 && { when }),
    ...(rollback && { rollback }),
    ...(parent && { parent }),
    ...(done_when && done_when.length > 0 && { done_when }),
    ...(name !== undefined && { agent: name }),
  };
  return { set, unset: CLEARABLE_FIELDS.filter((key) => change[key] !== undefined && !(key in set)) };
}

function checkReferences({ steps }: Plan, id: string, set: StepValues['set']): void {
  const { needs = [] } = set;
  const twice = needs.find((need, n) => needs.indexOf(need) !== n);
  if (twice !== undefined) throw new RefusedAdaptation(`${id} names ${twice} twice in "needs"`);
  for (const [field, other] of stepReferences(set)) {
    if (other === id) throw new RefusedAdaptation(`${id} names itself in "${field}"`);
    if (!steps.some((one) => one.id === other))
      throw new RefusedAdaptation(`${id} names ${other} in "${field}", and no step has that id`);
  }
}

/** Steps that depended on a removed step are skipped, and nothing names it any more. */
function detachRemoved(draft: PlanDraft, gone: string): void {
  const lost = draft.plan.steps.filter((step) => stepReferences(step).some(([, id]) => id === gone));
  for (const { id, needs = [], when = [], rollback } of lost) {
    const left = { needs: needs.filter((need) => need !== gone), when: when.filter(({ step }) => step !== gone) };
    const [fewerNeeds, fewerWhen] = [left.needs.length < needs.length, left.when.length < when.length];
    const set = {
      ...(fewerNeeds && left.needs.length > 0 && { needs: left.needs }),
      ...(fewerWhen && left.when.length > 0 && { when: left.when }),
    };
    const unset = [
      ...(fewerNeeds && left.needs.length === 0 ? (['needs'] as const) : []),
      ...(fewerWhen && left.when.length === 0 ? (['when'] as const) : []),
      ...(rollback === gone ? (['rollback'] as const) : []),
    ];
    applyToDraft(draft, { what: 'step', step: id, set, unset });
    const relation = fewerNeeds ? 'needs' : 'when';
    if (fewerNeeds || fewerWhen)
      skipStep(draft, id, formatSkipCause({ relation, step: gone, detail: ', which was removed' }));
  }
}

/** Groups that have lost their last step. */
function emptiedGroups(before: Plan, after: Plan): Step[] {
  const [was, is] = [stepGraph(before.steps).parts, stepGraph(after.steps).parts];
  return after.steps.filter(({ id }) => was.has(id) && !is.has(id));
}
