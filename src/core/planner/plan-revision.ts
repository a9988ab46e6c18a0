import { firstJsonObject } from '../../base/json.ts';
import type { Plan, SkipCause, Step } from '../../protocol/session/plan.ts';
import { type PlanChange, PlanRevision } from '../../protocol/session/plan-edit.ts';
import type { AgentProfile } from '../../protocol/settings/config.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { isSameJson } from '../plan/edited-plan.ts';
import { applyPlanChanges } from '../plan/plan-changes.ts';
import { findAgentName } from '../plan/plan-steps.ts';
import { dependencyNodes, findCycle, stepGraph, stepReferences } from '../plan/step-graph.ts';
import { whyIllegalTransition } from '../plan/step-moves.ts';
import { causeInWords } from '../plan/step-readiness.ts';
import { activePlan } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';
import { assignStepIds, MAX_PLAN_STEPS } from './plan-proposal.ts';
import { readRestatement } from './plan-restatement.ts';
import { DEFAULT_FIRST_PLAN, type ModeAction } from './planner-queries.ts';

/**
 * Asks the planner which open steps should change. `cause` says what calls for it; at most `most` times per plan. Null
 * if nothing does; if the planner's answers cannot be used, the plan stays as it is.
 */
export function revisionAction(
  session: Session,
  rules: Rules,
  { most, cause }: { most: number; cause: string | null },
): ModeAction | null {
  const { run } = session;
  if (!run || !activePlan(session) || session.revisions >= most || cause === null) return null;
  const read = lastRevision(session, rules);
  if (!read || (read.is === 'fault' && (run.plannerQuery?.tries ?? 0) < DEFAULT_FIRST_PLAN.maxTries))
    return { ask: 'revise' };
  const changes = read.is === 'changes' ? read.changes : [];
  const outcome = read.is === 'fault' ? `no change: ${read.why}` : read.reason;
  const without = changes.length > 0 ? 'the planner changed it' : 'the plan stays as it is';
  const reason = [cause, outcome].filter(Boolean).join('; ') || without;
  return { record: [{ type: 'plan.revised', reason, changes }] };
}

/** The planner's last answer to this query; null if it was not asked. */
export function lastRevision(
  { run, plan, editedByPerson, lastStepNumber }: Session,
  { agents }: Rules,
): RevisionReading | null {
  return plan && run?.plannerQuery?.ask === 'revise'
    ? readRevision(run.plannerQuery.text, plan, { agents, editedByPerson, lastStepNumber })
    : null;
}

/** The result of a planner's answer about the open steps. A fault is worded so that the planner can fix it. */
type RevisionReading = { is: 'changes'; reason: string; changes: PlanChange[] } | { is: 'fault'; why: string };

type RevisionContext = {
  agents: Readonly<Record<string, AgentProfile>>;
  editedByPerson: readonly string[];
  lastStepNumber: number;
};
type StepChange = NonNullable<PlanRevision['change']>[number];
/** A change that cannot be made, reported to the planner. */
class RefusedRevision extends Error {}

/**
 * Parses the changes a planner wants. Only steps that have not started may be removed or changed, none that a person
 * wrote, and the result must be consistent; otherwise everything is refused, naming the step.
 */
function readRevision(text: string, plan: Plan, known: RevisionContext): RevisionReading {
  const json = firstJsonObject(text);
  const parsed = PlanRevision.safeParse(json);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const where = issue?.path.join('.');
    return { is: 'fault', why: where ? `${where}: ${issue?.message}` : 'the answer holds no whole JSON object' };
  }
  const { keep, reason, remove, change, add } = parsed.data;
  const isChange = keep || remove || change || add;
  const restated = isChange ? undefined : readRestatement(json, plan, known);
  if (restated) return grantRevision(plan, { ...restated.revision, reason }, known, restated.order);
  if (!isChange) return { is: 'fault', why: 'the object has none of "keep", "remove", "change" and "add"' };
  return grantRevision(plan, parsed.data, known);
}

/** `order`: the order in which steps that have not begun are wanted. */
function grantRevision(plan: Plan, wanted: PlanRevision, known: RevisionContext, order?: string[]): RevisionReading {
  const { reason, remove, change, add } = wanted;
  const wishes = (remove?.length ?? 0) + (change?.length ?? 0) + (add?.length ?? 0);
  try {
    const changes = wishes > 0 || order ? grantedChanges(plan, wanted, known, order) : [];
    return { is: 'changes', reason: reason?.trim() ?? '', changes };
  } catch (error) {
    if (error instanceof RefusedRevision) return { is: 'fault', why: error.message };
    throw error;
  }
}

function grantedChanges(
  plan: Plan,
  { remove, change, add }: PlanRevision,
  { agents, editedByPerson, lastStepNumber }: RevisionContext,
  order?: string[],
): PlanChange[] {
  const draft: PlanDraft = { plan, changes: [] };
  const wanted = (remove ?? []).map((id) => pendingStep(plan, id, 'removed'));
  const gone = removedWithParts(plan, wanted, editedByPerson);
  for (const { id, description } of gone) applyToDraft(draft, { what: 'removed', step: id, description });
  const ids = gone.map((step) => step.id);
  const made = assignStepIds(add ?? [], { agents, steps: draft.plan.steps, lastStepNumber, gone: ids });
  if ('why' in made) throw new RefusedRevision(`"add": ${made.why}`);
  // Where steps are worked on in order, what was added comes before what has not begun.
  const from = draft.plan.steps.findIndex(({ status }) => status === 'pending');
  for (const [n, step] of made.steps.entries())
    applyToDraft(draft, { what: 'added', step, at: from < 0 ? draft.plan.steps.length : from + n });
  for (const one of change ?? []) changeStep(draft, one, agents, editedByPerson);
  for (const id of ids) detachRemoved(draft, id);
  for (const group of emptiedGroups(plan, draft.plan))
    skipStep(draft, group.id, { reason: 'all its parts were removed' });
  if (order) orderSteps(draft, order);
  const cycle = findCycle(dependencyNodes(draft.plan.steps));
  if (cycle) throw new RefusedRevision(`the steps ${cycle.join(' → ')} would wait for each other in a cycle`);
  if (draft.plan.steps.length > Math.max(MAX_PLAN_STEPS, plan.steps.length))
    throw new RefusedRevision(`that makes ${draft.plan.steps.length} steps; ${MAX_PLAN_STEPS} are the most`);
  return draft.changes;
}

/** The plan as it would be, and the changes that lead to it. */
type PlanDraft = { plan: Plan; changes: PlanChange[] };

function applyToDraft(draft: PlanDraft, change: PlanChange): void {
  draft.plan = applyPlanChanges(draft.plan, [change], draft.plan.updated_at, 'planner');
  draft.changes.push(change);
}

/** What has not begun follows what has, in this order; steps that are not named come last. */
function orderSteps(draft: PlanDraft, order: readonly string[]): void {
  const ids = draft.plan.steps.map(({ id }) => id);
  const begun = draft.plan.steps.flatMap(({ id, status }) => (status === 'pending' ? [] : [id]));
  const to = [...new Set([...begun, ...order.filter((id) => ids.includes(id)), ...ids])];
  if (!isSameJson(to, ids)) applyToDraft(draft, { what: 'order', to });
}

function skipStep(draft: PlanDraft, step: string, why: { reason: string; because?: SkipCause }): void {
  const pending = draft.plan.steps.some(({ id, status }) => id === step && status === 'pending');
  const { reason: note, because } = why;
  const change = { what: 'status', step, from: 'pending', to: 'skipped', note, ...(because && { because }) } as const;
  if (pending) applyToDraft(draft, change);
}

/** The step of that id, if it has not started. */
function pendingStep({ steps }: Plan, id: string, how: string): Step {
  const step = steps.find((one) => one.id === id);
  if (!step) throw new RefusedRevision(`no step is called ${id}. Steps: ${steps.map((one) => one.id).join(', ')}`);
  if (step.status !== 'pending')
    throw new RefusedRevision(`${id} is ${step.status} and cannot be ${how}; only steps that have not begun can`);
  return step;
}

/** A group is removed with its steps; what a person wrote stays. */
function removedWithParts(plan: Plan, wanted: readonly Step[], editedByPerson: readonly string[]): Step[] {
  const { members } = stepGraph(plan.steps);
  const all = new Set(wanted);
  for (const { id } of all)
    for (const member of members.get(id) ?? []) all.add(pendingStep(plan, member.id, 'removed'));
  const own = [...all].find(({ id }) => editedByPerson.includes(`${id}:description`));
  if (own) throw new RefusedRevision(`${own.id} was written by a person and stays`);
  return [...all];
}

function changeStep(
  draft: PlanDraft,
  change: StepChange,
  agents: RevisionContext['agents'],
  editedByPerson: readonly string[],
): void {
  const step = draft.plan.steps.find(({ id }) => id === change.id);
  const { status: to } = change;
  const illegal = step && to && to !== step.status ? whyIllegalTransition(step, to) : undefined;
  if (illegal !== undefined) throw new RefusedRevision(illegal);
  const { id } = pendingStep(draft.plan, change.id, 'changed');
  if (to && to !== 'pending' && to !== 'skipped')
    throw new RefusedRevision(`${id} cannot be set to ${to}: how far a step is follows the work. It may be "skipped"`);
  const { set, unset } = changedValues(change, agents);
  const own = [...Object.keys(set), ...unset].filter((field) => editedByPerson.includes(`${id}:${field}`));
  if (own.length > 0) throw new RefusedRevision(`${own.join(', ')} of ${id} was written by a person and stays`);
  checkReferences(draft.plan, id, set);
  if (Object.keys(set).length + unset.length > 0) applyToDraft(draft, { what: 'step', step: id, set, unset });
  if (to === 'skipped') skipStep(draft, id, { reason: 'left out by the planner' });
}

type StepValues = Pick<Extract<PlanChange, { what: 'step' }>, 'set' | 'unset'>;
const CLEARABLE_FIELDS = ['needs', 'when', 'rollback', 'parent', 'done_when', 'agent'] as const;

/** Given values are set; null or an empty list removes a field. */
function changedValues(change: StepChange, agents: RevisionContext['agents']): StepValues {
  const { description, needs, rollback, parent, done_when, agent } = change;
  const when = change.when ? [change.when].flat() : [];
  const name = agent ? findAgentName(agents, agent) : undefined;
  if (agent && name === undefined)
    throw new RefusedRevision(`no agent is called "${agent}". Agents: ${Object.keys(agents).join(', ') || 'none'}`);
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
  if (twice !== undefined) throw new RefusedRevision(`${id} names ${twice} twice in "needs"`);
  for (const [field, other] of stepReferences(set)) {
    if (other === id) throw new RefusedRevision(`${id} names itself in "${field}"`);
    if (!steps.some((one) => one.id === other))
      throw new RefusedRevision(`${id} names ${other} in "${field}", and no step has that id`);
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
      skipStep(draft, id, causeInWords({ relation, step: gone, detail: ', which was removed' }));
  }
}

/** Groups that have lost their last step. */
function emptiedGroups(before: Plan, after: Plan): Step[] {
  const [was, is] = [stepGraph(before.steps).members, stepGraph(after.steps).members];
  return after.steps.filter(({ id }) => was.has(id) && !is.has(id));
}
