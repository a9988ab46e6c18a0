import type { PlanChange } from '../../protocol/event.ts';
import type { EditedPlan, Plan, Step } from '../../protocol/plan.ts';
import { namedBy, ringIn } from '../planner/graph.ts';
import { nodesOf } from '../structure.ts';
import { applyChange } from './apply.ts';

/** What a hand edit comes to: the changes that are taken over, and in words what is not. */
export type Edit = { changes: PlanChange[]; ignored: string[] };

type Theirs = EditedPlan['steps'][number];
const OPTIONAL = ['needs', 'when', 'rollback', 'parent', 'done_when', 'notes', 'agent'] as const;
const FIELDS = ['description', ...OPTIONAL] as const;

/**
 * Three-way merge by step id. `base` is the version of the plan the person began from, `theirs` what they saved, `now` the
 * plan as the record has it. People win on what they changed; what they did not touch stays as the record has it. Plan status,
 * index and counters are the daemon's own. `raw` is the saved JSON, to say what of it was ignored.
 */
export function mergeEdit(
  base: Plan,
  theirs: EditedPlan,
  now: Plan,
  stepNo: number,
  raw: Readonly<Record<string, unknown>>,
): Edit {
  const edit: Edit = { changes: [], ignored: [] };
  if (theirs.id !== undefined && theirs.id !== now.id) {
    edit.ignored.push(
      `plan.json held another plan (id ${theirs.id}); the plan at work is ${now.id}. What was saved is in plans/history/`,
    );
    return edit;
  }
  if (theirs.goal !== undefined && theirs.goal !== base.goal)
    edit.changes.push({ what: 'goal', from: now.goal, to: theirs.goal });
  const limits = { ...now.limits, ...changedLimits(base, theirs) };
  if (!same(limits, now.limits)) edit.changes.push({ what: 'limits', to: limits });
  mergeSteps(base, identified(base, theirs, now, stepNo), now, edit);
  edit.ignored.push(...ownFields(base, raw), ...knots(now, edit.changes));
  return edit;
}

function mergeSteps(base: Plan, theirs: Array<Theirs & { id: string }>, now: Plan, edit: Edit): void {
  const kept = new Set(theirs.map((step) => step.id));
  for (const step of now.steps) {
    const had = base.steps.some((other) => other.id === step.id);
    if (had && !kept.has(step.id)) edit.changes.push({ what: 'removed', step: step.id, description: step.description });
  }
  for (const step of theirs) {
    const before = base.steps.find((other) => other.id === step.id);
    const current = now.steps.find((other) => other.id === step.id);
    if (before && current) mergeStep(before, step, current, edit);
    else if (!before && !current) edit.changes.push({ what: 'added', step: added(step), at: now.steps.length });
  }
  const was = base.steps.map((step) => step.id).filter((id) => kept.has(id));
  const is = theirs.map((step) => step.id);
  if (!same(was, is)) edit.changes.push({ what: 'order', to: is });
}

function mergeStep(before: Step, theirs: Theirs, now: Step, edit: Edit): void {
  const fields = FIELDS.filter((key) => theirs[key] !== undefined && !same(theirs[key], before[key]));
  const set = Object.fromEntries(fields.map((key) => [key, theirs[key]]));
  const unset = OPTIONAL.filter((key) => theirs[key] === undefined && before[key] !== undefined);
  if (fields.length + unset.length > 0) edit.changes.push({ what: 'step', step: now.id, set, unset });
  const status = theirs.status;
  if (status === undefined || status === before.status || status === now.status) return;
  if (status === 'running')
    edit.ignored.push(`${now.id}: "running" is the daemon's to set; set it to "pending" to have it done again`);
  else edit.changes.push({ what: 'status', step: now.id, from: now.status, to: status });
}

/** Steps a person added get an id if they have none, or one that is taken. Ids are never used twice. */
function identified(base: Plan, theirs: EditedPlan, now: Plan, stepNo: number): Array<Theirs & { id: string }> {
  // An id the record gave to a step of its own meanwhile is not the person's step of that id.
  const taken = new Set(now.steps.map((step) => step.id).filter((id) => base.steps.every((step) => step.id !== id)));
  let last = stepNo;
  for (const step of [...base.steps, ...theirs.steps])
    last = Math.max(last, Number(/^step_(\d{1,9})$/.exec(step.id ?? '')?.[1] ?? 0));
  return theirs.steps.map((step) => {
    const id = step.id !== undefined && !taken.has(step.id) ? step.id : `step_${++last}`;
    taken.add(id);
    return { ...step, id };
  });
}

function added(step: Theirs & { id: string }): Step {
  const status = step.status === undefined || step.status === 'running' ? 'pending' : step.status;
  const { id, description } = step;
  const given = OPTIONAL.filter((key) => step[key] !== undefined).map((key) => [key, step[key]]);
  return {
    id,
    description,
    status,
    ...(status === 'completed' && { completed_by: 'person' as const }),
    ...Object.fromEntries(given),
  };
}

/** Steps that can never begin as they were saved: taken as they are, since a person wrote them, and named. */
function knots(now: Plan, changes: readonly PlanChange[]): string[] {
  const touched = changes.some((it) => it.what === 'step' || it.what === 'added' || it.what === 'removed');
  if (!touched) return [];
  const { steps } = changes.reduce((plan, change) => applyChange(plan, change, plan.updated_at), now);
  const ring = ringIn(nodesOf(steps));
  const unknown = steps.flatMap((step) =>
    step.status === 'pending'
      ? namedBy(step).flatMap(([field, id]) =>
          steps.some((other) => other.id === id)
            ? []
            : [`${step.id} names ${id} in "${field}", and no step has that id`],
        )
      : [],
  );
  return [
    ...(ring ? [`the steps ${ring.join(' → ')} wait for each other in a ring; none of them can begin`] : []),
    ...unknown,
  ];
}

function changedLimits(base: Plan, theirs: EditedPlan): Partial<Plan['limits']> {
  const { iterations, step_iterations } = theirs.limits ?? {};
  return {
    ...(iterations !== undefined && iterations !== base.limits.iterations && { iterations }),
    ...(step_iterations !== undefined && step_iterations !== base.limits.step_iterations && { step_iterations }),
  };
}

const OWN = {
  status: 'use agentctl continue, pause or cancel',
  current_step_index: 'it follows the steps',
  iteration_count: 'it counts',
} as const;

function ownFields(base: Plan, raw: Readonly<Record<string, unknown>>): string[] {
  const keys = Object.keys(OWN) as Array<keyof typeof OWN>;
  return keys
    .filter((key) => raw[key] !== undefined && raw[key] !== base[key])
    .map((key) => `the plan's "${key}" is the daemon's own (${OWN[key]})`);
}

function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
