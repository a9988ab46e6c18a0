import type { Agent } from '../../protocol/config.ts';
import type { PlanChange } from '../../protocol/event.ts';
import type { Plan, Step } from '../../protocol/plan.ts';
import { Adaptation } from '../../protocol/proposal.ts';
import { applyChange } from '../edit/apply.ts';
import { illegalMove } from '../moves.ts';
import { nodesOf, structureOf } from '../structure.ts';
import { agentOf } from './agents.ts';
import { namedBy, ringIn } from './graph.ts';
import { jsonIn } from './json.ts';
import { MOST_STEPS, named } from './proposal.ts';

/** What came of a planner's answer between super-steps. A fault is said in words that let the planner mend it. */
export type Adapted =
  | { is: 'kept'; reason: string }
  | { is: 'changed'; reason: string; changes: PlanChange[] }
  | { is: 'fault'; why: string };

type Known = { agents: Readonly<Record<string, Agent>>; theirs: readonly string[]; stepNo: number };
type Change = NonNullable<Adaptation['change']>[number];
/** A wish that cannot be granted, told to the planner. */
class Refused extends Error {}

/**
 * Reads what a planner wants to be different. Only steps that have not begun may go or change, none that a person wrote, and what
 * comes of it has to hold together; else the whole is refused, naming the step.
 */
export function readAdaptation(text: string, plan: Plan, known: Known): Adapted {
  const parsed = Adaptation.safeParse(jsonIn(text));
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const where = issue?.path.join('.');
    return { is: 'fault', why: where ? `${where}: ${issue?.message}` : 'the answer holds no whole JSON object' };
  }
  const { reason, remove, change, add } = parsed.data;
  const wishes = (remove?.length ?? 0) + (change?.length ?? 0) + (add?.length ?? 0);
  if (wishes === 0) return { is: 'kept', reason: reason?.trim() || 'the plan stays as it is' };
  try {
    const changes = granted(plan, parsed.data, known);
    return { is: 'changed', reason: reason?.trim() || 'the planner adapted it', changes };
  } catch (error) {
    if (error instanceof Refused) return { is: 'fault', why: error.message };
    throw error;
  }
}

function granted(plan: Plan, { remove, change, add }: Adaptation, { agents, theirs, stepNo }: Known): PlanChange[] {
  const draft: Draft = { plan, changes: [] };
  const wanted = (remove ?? []).map((id) => untouched(plan, id, 'removed'));
  const gone = withParts(plan, wanted, theirs);
  for (const { id, description } of gone) put(draft, { what: 'removed', step: id, description });
  const ids = gone.map((step) => step.id);
  const made = named(add ?? [], { agents, steps: draft.plan.steps, stepNo, gone: ids });
  if ('why' in made) throw new Refused(`"add": ${made.why}`);
  for (const step of made.steps) put(draft, { what: 'added', step, at: draft.plan.steps.length });
  for (const one of change ?? []) changeStep(draft, one, agents, theirs);
  for (const id of ids) orphan(draft, id);
  for (const group of emptied(plan, draft.plan)) skip(draft, group.id, 'all its parts were removed');
  const ring = ringIn(nodesOf(draft.plan.steps));
  if (ring) throw new Refused(`the steps ${ring.join(' → ')} would wait for each other in a ring`);
  if (draft.plan.steps.length > MOST_STEPS)
    throw new Refused(`that makes ${draft.plan.steps.length} steps; ${MOST_STEPS} are the most`);
  return draft.changes;
}

/** The plan as it would be, and what makes it so. */
type Draft = { plan: Plan; changes: PlanChange[] };

function put(draft: Draft, change: PlanChange): void {
  draft.plan = applyChange(draft.plan, change, draft.plan.updated_at);
  draft.changes.push(change);
}

function skip(draft: Draft, step: string, note: string): void {
  const pending = draft.plan.steps.some(({ id, status }) => id === step && status === 'pending');
  if (pending) put(draft, { what: 'status', step, from: 'pending', to: 'skipped', note });
}

/** The step of that id, if it has not begun. */
function untouched({ steps }: Plan, id: string, how: string): Step {
  const step = steps.find((one) => one.id === id);
  if (!step) throw new Refused(`no step is called ${id}. Steps: ${steps.map((one) => one.id).join(', ')}`);
  if (step.status !== 'pending')
    throw new Refused(`${id} is ${step.status} and cannot be ${how}; only steps that have not begun can`);
  return step;
}

/** A group goes with its parts; what a person wrote stays. */
function withParts(plan: Plan, wanted: readonly Step[], theirs: readonly string[]): Step[] {
  const { parts } = structureOf(plan.steps);
  const all = new Set(wanted);
  for (const { id } of all) for (const part of parts.get(id) ?? []) all.add(untouched(plan, part.id, 'removed'));
  const own = [...all].find(({ id }) => theirs.includes(`${id}:description`));
  if (own) throw new Refused(`${own.id} was written by a person and stays`);
  return [...all];
}

function changeStep(draft: Draft, change: Change, agents: Known['agents'], theirs: readonly string[]): void {
  const step = draft.plan.steps.find(({ id }) => id === change.id);
  const { status: to } = change;
  const illegal = step && to && to !== step.status ? illegalMove(step, to) : undefined;
  if (illegal !== undefined) throw new Refused(illegal);
  const { id } = untouched(draft.plan, change.id, 'changed');
  if (to && to !== 'pending' && to !== 'skipped')
    throw new Refused(`${id} cannot be set to ${to}: how far a step is follows the work. It may be "skipped"`);
  const { set, unset } = valuesOf(change, agents);
  const own = [...Object.keys(set), ...unset].filter((field) => theirs.includes(`${id}:${field}`));
  if (own.length > 0) throw new Refused(`${own.join(', ')} of ${id} was written by a person and stays`);
  checkNames(draft.plan, id, set);
  if (Object.keys(set).length + unset.length > 0) put(draft, { what: 'step', step: id, set, unset });
  if (to === 'skipped') skip(draft, id, 'left out by the planner');
}

type Values = Pick<Extract<PlanChange, { what: 'step' }>, 'set' | 'unset'>;
const OPTIONAL = ['needs', 'when', 'rollback', 'parent', 'done_when', 'agent'] as const;

/** What is given is set; null, and an empty list, takes away. */
function valuesOf(change: Change, agents: Known['agents']): Values {
  const { description, needs, rollback, parent, done_when, agent } = change;
  const when = change.when ? [change.when].flat() : [];
  const name = agent ? agentOf(agents, agent) : undefined;
  if (agent && name === undefined)
    throw new Refused(`no agent is called "${agent}". Agents: ${Object.keys(agents).join(', ') || 'none'}`);
  const set = {
    ...(description !== undefined && { description }),
    ...(needs && needs.length > 0 && { needs }),
    ...(when.length > 0 && { when }),
    ...(rollback && { rollback }),
    ...(parent && { parent }),
    ...(done_when && done_when.length > 0 && { done_when }),
    ...(name !== undefined && { agent: name }),
  };
  return { set, unset: OPTIONAL.filter((key) => change[key] !== undefined && !(key in set)) };
}

function checkNames({ steps }: Plan, id: string, set: Values['set']): void {
  const { needs = [] } = set;
  const twice = needs.find((need, n) => needs.indexOf(need) !== n);
  if (twice !== undefined) throw new Refused(`${id} names ${twice} twice in "needs"`);
  for (const [field, other] of namedBy(set)) {
    if (other === id) throw new Refused(`${id} names itself in "${field}"`);
    if (!steps.some((one) => one.id === other))
      throw new Refused(`${id} names ${other} in "${field}", and no step has that id`);
  }
}

/** What hung on a removed step is skipped, and nothing names it any more. */
function orphan(draft: Draft, gone: string): void {
  const lost = draft.plan.steps.filter((step) => namedBy(step).some(([, id]) => id === gone));
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
    put(draft, { what: 'step', step: id, set, unset });
    if (fewerNeeds || fewerWhen) skip(draft, id, `${fewerNeeds ? 'needs' : 'when'} ${gone}, which was removed`);
  }
}

/** Groups that have lost their last part. */
function emptied(before: Plan, after: Plan): Step[] {
  const [was, is] = [structureOf(before.steps).parts, structureOf(after.steps).parts];
  return after.steps.filter(({ id }) => was.has(id) && !is.has(id));
}
