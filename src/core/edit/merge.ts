import type { PlanChange } from '../../protocol/event.ts';
import type { EditedPlan, Plan, PlanSave, Step } from '../../protocol/plan.ts';
import { namedBy, ringIn } from '../planner/graph.ts';
import { nodesOf } from '../structure.ts';
import { applyChanges } from './apply.ts';
import { identified } from './identify.ts';
import { FIELDS, OPTIONAL, OWN, type Saved, type SavedStep, same, savedAs, unchanged } from './saves.ts';

/** What a hand edit comes to: the changes that are taken over, in words what is not, and the save as the next one's base. */
export type Edit = { changes: PlanChange[]; ignored: string[]; save: Saved | null };

/**
 * Three-way merge by step id. `base` is what the person's last save of this buffer said, or the version of the plan it began
 * from; `theirs` what they saved now, and `now` the plan as the record has it. People win on what they changed; what they did not
 * touch stays as the record has it. Plan status, index and counters are the daemon's own. `raw` is the saved JSON, to say what of
 * it was ignored.
 */
export function mergeEdit(
  base: Plan | PlanSave,
  theirs: EditedPlan,
  now: Plan,
  stepNo: number,
  raw: Readonly<Record<string, unknown>>,
): Edit {
  if (theirs.id !== undefined && theirs.id !== now.id) {
    const ignored = `plan.json held another plan (id ${theirs.id}); the plan at work is ${now.id}. What was saved is in plans/history/`;
    return { changes: [], ignored: [ignored], save: null };
  }
  const was: Saved = 'sha256' in base ? base : unchanged(base);
  const save = savedAs(theirs, identified(was, theirs, now, stepNo), raw);
  const changes: PlanChange[] = [];
  const ignored: string[] = [];
  if (save.goal !== undefined && save.goal !== was.goal && save.goal !== now.goal)
    changes.push({ what: 'goal', from: now.goal, to: save.goal });
  const limits = { ...now.limits, ...changedLimits(was, save) };
  if (!same(limits, now.limits)) changes.push({ what: 'limits', to: limits });
  mergeSteps(was, save, now, { changes, ignored });
  ignored.push(...ownFields(was, save), ...knots(now, changes));
  return { changes, ignored, save: differs(was, save) ? save : null };
}

type Found = Pick<Edit, 'changes' | 'ignored'>;

function mergeSteps(was: Saved, save: Saved, now: Plan, found: Found): void {
  const before = new Map(was.steps.map((step) => [step.id, step]));
  const current = new Map(now.steps.map((step) => [step.id, step]));
  const kept = new Set(save.steps.map((step) => step.id));
  for (const { id, description } of now.steps)
    if (before.has(id) && !kept.has(id)) found.changes.push({ what: 'removed', step: id, description });
  let end = now.steps.length;
  for (const step of save.steps) {
    const [had, has] = [before.get(step.id), current.get(step.id)];
    if (had && has) mergeStep(had, step, has, found);
    else if (!had && !has) found.changes.push({ what: 'added', step: added(step), at: end++ });
  }
  const order = save.steps.map((step) => step.id);
  const wasOrder = was.steps.map((step) => step.id).filter((id) => kept.has(id));
  if (!same(wasOrder, order)) found.changes.push({ what: 'order', to: order });
}

function mergeStep(before: SavedStep, theirs: SavedStep, now: Step, found: Found): void {
  const fields = FIELDS.filter(
    (key) => theirs[key] !== undefined && !same(theirs[key], before[key]) && !same(theirs[key], now[key]),
  );
  const set = Object.fromEntries(fields.map((key) => [key, theirs[key]]));
  const unset = OPTIONAL.filter(
    (key) => theirs[key] === undefined && before[key] !== undefined && now[key] !== undefined,
  );
  if (fields.length + unset.length > 0) found.changes.push({ what: 'step', step: now.id, set, unset });
  const { status } = theirs;
  if (status === undefined || status === (before.status ?? 'pending') || status === now.status) return;
  if (status === 'running')
    found.ignored.push(`${now.id}: "running" is the daemon's to set; set it to "pending" to have it done again`);
  else found.changes.push({ what: 'status', step: now.id, from: now.status, to: status });
}

function added({ id, status: wanted, written: _, ...given }: SavedStep): Step {
  const status = wanted === undefined || wanted === 'running' ? 'pending' : wanted;
  return { id, status, ...(status === 'completed' && { completed_by: 'person' as const }), ...given };
}

/** Steps that can never begin as they were saved: taken as they are, since a person wrote them, and named. */
function knots(now: Plan, changes: readonly PlanChange[]): string[] {
  const touched = changes.some((it) => it.what === 'step' || it.what === 'added' || it.what === 'removed');
  if (!touched) return [];
  const { steps } = applyChanges(now, changes, now.updated_at);
  const ring = ringIn(nodesOf(steps));
  const ids = new Set(steps.map((step) => step.id));
  const unknown = steps.flatMap((step) =>
    step.status === 'pending'
      ? namedBy(step).flatMap(([field, id]) =>
          ids.has(id) ? [] : [`${step.id} names ${id} in "${field}", and no step has that id`],
        )
      : [],
  );
  return [
    ...(ring ? [`the steps ${shortened(ring).join(' → ')} wait for each other in a ring; none of them can begin`] : []),
    ...shortened(unknown),
  ];
}

/** The first ones; a person mends those first, and the record repeats no thousand of them. */
function shortened(items: readonly string[]): string[] {
  return items.length > MOST_TOLD ? [...items.slice(0, MOST_TOLD), `and ${items.length - MOST_TOLD} more`] : [...items];
}
const MOST_TOLD = 20;

function changedLimits(was: Saved, save: Saved): Partial<Plan['limits']> {
  const { iterations, step_iterations } = save.limits ?? {};
  return {
    ...(iterations !== undefined && iterations !== was.limits?.iterations && { iterations }),
    ...(step_iterations !== undefined && step_iterations !== was.limits?.step_iterations && { step_iterations }),
  };
}

function ownFields(was: Saved, save: Saved): string[] {
  const keys = Object.keys(OWN) as Array<keyof typeof OWN>;
  return keys
    .filter((key) => save[key] !== undefined && !same(save[key], was[key]))
    .map((key) => `the plan's "${key}" is the daemon's own (${OWN[key]})`);
}

/** Whether it says anything else than its base: else it need not be kept to compare the next one with. */
function differs({ revision: _, ...was }: Saved, { revision: __, ...save }: Saved): boolean {
  const said = ({ goal, limits, status, current_step_index, iteration_count, steps }: Omit<Saved, 'revision'>) => [
    ...[goal, limits?.iterations, limits?.step_iterations, status, current_step_index, iteration_count],
    steps.map((step) => [step.id, step.written, step.status, ...FIELDS.map((field) => step[field])]),
  ];
  return !same(said(was), said(save));
}
