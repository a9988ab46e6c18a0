import { firstFew } from '../../base/strings.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import type { EditedPlan, PlanChange, PlanSave } from '../../protocol/session/plan-edit.ts';
import {
  DAEMON_FIELDS,
  EDITABLE_FIELDS,
  isSameJson,
  REMOVABLE_FIELDS,
  type SavedPlan,
  type SavedStep,
  toSavedPlan,
  toSavedStep,
  unchangedSave,
} from './edited-plan.ts';
import { describeUnknownKeys } from './foreign-plan.ts';
import { applyPlanChanges } from './plan-changes.ts';
import { dependencyNodes, findCycle, stepReferences } from './step-graph.ts';

/**
 * The result of a hand edit: the changes that are accepted, what is ignored in words, and the save as the base of the
 * next one.
 */
export type MergedEdit = { changes: PlanChange[]; ignored: string[]; save: SavedPlan | null };

/**
 * Three-way merge by step id. `base` is the person's last save of this buffer, or the plan version it started from;
 * `theirs` is what they saved now, and `now` the current plan in the log. People win on what they changed; everything
 * else stays as in the log. Plan status, index and counters belong to the daemon. `raw` is the saved JSON, to report
 * what was ignored.
 */
export function mergePlanEdit(
  base: Plan | PlanSave,
  theirs: EditedPlan,
  now: Plan,
  lastStepNumber: number,
  raw: Readonly<Record<string, unknown>>,
): MergedEdit {
  if (theirs.id !== undefined && theirs.id !== now.id) {
    const ignored = `plan.json held another plan (id ${theirs.id}); the plan at work is ${now.id}. What was saved is in plans/history/`;
    return { changes: [], ignored: [ignored], save: null };
  }
  const was: SavedPlan = 'sha256' in base ? base : unchangedSave(base);
  const save = toSavedPlan(theirs, matchSavedSteps(was, theirs, now, lastStepNumber), raw);
  const changes: PlanChange[] = [];
  const ignored: string[] = [];
  if (save.goal !== undefined && save.goal !== was.goal && save.goal !== now.goal)
    changes.push({ what: 'goal', from: now.goal, to: save.goal });
  const limits = { ...now.limits, ...changedLimits(was, save) };
  if (!isSameJson(limits, now.limits)) changes.push({ what: 'limits', to: limits });
  mergeSteps(was, save, now, { changes, ignored });
  ignored.push(...describeUnknownKeys(raw), ...describeDaemonFields(was, save), ...describeDeadlocks(now, changes));
  return { changes, ignored: firstFew(ignored), save: isDifferentSave(was, save) ? save : null };
}

/** The edit with the fewest differences, from the base it most likely started from; the first of several. */
export function smallestEdit(edits: readonly MergedEdit[]): MergedEdit {
  const [first = { changes: [], ignored: [], save: null }, ...others] = edits;
  return others.reduce((least, edit) => (edit.changes.length < least.changes.length ? edit : least), first);
}

type MergeFindings = Pick<MergedEdit, 'changes' | 'ignored'>;

function mergeSteps(was: SavedPlan, save: SavedPlan, now: Plan, found: MergeFindings): void {
  const before = new Map(was.steps.map((step) => [step.id, step]));
  const current = new Map(now.steps.map((step) => [step.id, step]));
  const kept = new Set(save.steps.map((step) => step.id));
  for (const { id, description } of now.steps)
    if (before.has(id) && !kept.has(id)) found.changes.push({ what: 'removed', step: id, description });
  let end = now.steps.length;
  for (const step of save.steps) {
    const [had, has] = [before.get(step.id), current.get(step.id)];
    if (had && has) mergeStep(had, step, has, found);
    else if (!had && !has) found.changes.push({ what: 'added', step: toNewStep(step), at: end++ });
  }
  const order = save.steps.map((step) => step.id);
  const wasOrder = was.steps.map((step) => step.id).filter((id) => kept.has(id));
  if (!isSameJson(wasOrder, order)) found.changes.push({ what: 'order', to: order });
}

function mergeStep(before: SavedStep, theirs: SavedStep, now: Step, found: MergeFindings): void {
  const fields = EDITABLE_FIELDS.filter(
    (key) => theirs[key] !== undefined && !isSameJson(theirs[key], before[key]) && !isSameJson(theirs[key], now[key]),
  );
  const set = Object.fromEntries(fields.map((key) => [key, theirs[key]]));
  const unset = REMOVABLE_FIELDS.filter(
    (key) => theirs[key] === undefined && before[key] !== undefined && now[key] !== undefined,
  );
  if (fields.length + unset.length > 0) found.changes.push({ what: 'step', step: now.id, set, unset });
  const { status } = theirs;
  if (status === undefined || status === (before.status ?? 'pending') || status === now.status) return;
  if (status === 'running')
    found.ignored.push(`${now.id}: "running" is the daemon's to set; set it to "pending" to have it done again`);
  else found.changes.push({ what: 'status', step: now.id, from: now.status, to: status });
}

function toNewStep({ id, status: wanted, written: _, ...given }: SavedStep): Step {
  const status = wanted === undefined || wanted === 'running' ? 'pending' : wanted;
  const isClosed = status === 'completed' || status === 'skipped';
  return { id, status, ...(isClosed && { completed_by: 'person' as const }), ...given };
}

/** Steps that can never start as saved: accepted, since a person wrote them, and reported. */
function describeDeadlocks(now: Plan, changes: readonly PlanChange[]): string[] {
  const touched = changes.some((it) => it.what === 'step' || it.what === 'added' || it.what === 'removed');
  if (!touched) return [];
  const { steps } = applyPlanChanges(now, changes, now.updated_at);
  const cycle = findCycle(dependencyNodes(steps));
  const ids = new Set(steps.map((step) => step.id));
  const unknown = steps.flatMap((step) =>
    step.status === 'pending'
      ? stepReferences(step).flatMap(([field, id]) =>
          ids.has(id) ? [] : [`${step.id} names ${id} in "${field}", and no step has that id`],
        )
      : [],
  );
  return [
    ...(cycle
      ? [`the steps ${firstFew(cycle).join(' → ')} wait for each other in a cycle; none of them can start`]
      : []),
    ...firstFew(unknown),
  ];
}

function changedLimits(was: SavedPlan, save: SavedPlan): Partial<Plan['limits']> {
  const { iterations, step_iterations } = save.limits ?? {};
  return {
    ...(iterations !== undefined && iterations !== was.limits?.iterations && { iterations }),
    ...(step_iterations !== undefined && step_iterations !== was.limits?.step_iterations && { step_iterations }),
  };
}

function describeDaemonFields(was: SavedPlan, save: SavedPlan): string[] {
  const keys = Object.keys(DAEMON_FIELDS) as Array<keyof typeof DAEMON_FIELDS>;
  return keys
    .filter((key) => save[key] !== undefined && !isSameJson(save[key], was[key]))
    .map((key) => `the plan's "${key}" is the daemon's own (${DAEMON_FIELDS[key]})`);
}

/** Whether it differs from its base: otherwise it need not be kept for comparison with the next save. */
function isDifferentSave({ revision: _, ...was }: SavedPlan, { revision: __, ...save }: SavedPlan): boolean {
  const content = ({
    goal,
    limits,
    status,
    current_step_index,
    iteration_count,
    steps,
  }: Omit<SavedPlan, 'revision'>) => [
    ...[goal, limits?.iterations, limits?.step_iterations, status, current_step_index, iteration_count],
    steps.map((step) => [step.id, step.written, step.status, ...EDITABLE_FIELDS.map((field) => step[field])]),
  ];
  return !isSameJson(content(was), content(save));
}

type EditedStep = EditedPlan['steps'][number];

/**
 * Finds the plan step for each step of a save. An id decides; steps without one, or with a duplicate one, are matched
 * by the same description in the save before (`base`), then by position if they were only reworded. Any other step is
 * new and gets an id that was never used.
 */
function matchSavedSteps(base: SavedPlan, { steps }: EditedPlan, now: Plan, lastStepNumber: number): SavedStep[] {
  const ids = new Array<string | undefined>(steps.length);
  const left = new Set(base.steps);
  const give = (place: number, step: SavedStep | undefined) => {
    if (!step || !left.delete(step)) return;
    ids[place] = step.id;
  };
  const byName = groupBy(base.steps, (step) => writtenIdOf(step));
  const theirNames = groupBy(steps, (step) => step.id ?? null);
  const own = new Map(base.steps.map((step) => [step.id, step]));
  for (const [place, { id }] of steps.entries()) {
    if (id === undefined || theirNames.get(id)?.length !== 1) continue;
    const [only, second] = byName.get(id) ?? [];
    // An id that the person copied from a newer version of the file is the step's too.
    give(place, second ? undefined : (only ?? own.get(id)));
  }
  const alike = groupBy([...left], (step) => matchKey(writtenIdOf(step), step.description));
  for (const [place, step] of steps.entries())
    if (ids[place] === undefined) give(place, alike.get(matchKey(step.id ?? null, step.description))?.shift());
  matchRewordedSteps(base, steps, ids, left, now);
  return assignNewIds(base, steps, ids, now, lastStepNumber);
}

/** The id in the file; null if none. */
const writtenIdOf = (step: SavedStep): string | null => (step.written === undefined ? step.id : step.written);
const matchKey = (name: string | null, description: string): string => JSON.stringify([name, description]);

/** Steps of the same name after the same step, one after the other. */
function matchRewordedSteps(
  base: SavedPlan,
  steps: readonly EditedStep[],
  ids: Array<string | undefined>,
  left: Set<SavedStep>,
  now: Plan,
): void {
  const statuses = new Map(now.steps.map((step) => [step.id, step.status]));
  const gaps = new Map<string, SavedStep[]>();
  let behind = '';
  for (const step of base.steps) {
    if (!left.has(step)) behind = step.id;
    else pushToGroup(gaps, matchKey(writtenIdOf(step), behind), step);
  }
  behind = '';
  for (const [place, step] of steps.entries()) {
    const id = ids[place];
    if (id !== undefined) {
      behind = id;
      continue;
    }
    const before = gaps.get(matchKey(step.id ?? null, behind))?.shift();
    if (!before) continue;
    const status = statuses.get(before.id);
    // A step that has started or ended under another description is a different task: the new one must not inherit its
    // status.
    const isSame = status === 'pending' || status === 'blocked' || isSimilarText(before.description, step.description);
    if (status !== undefined && isSame && left.delete(before)) ids[place] = before.id;
  }
}

/** Whether the texts share half of the longer one, at the beginning and the end. */
function isSimilarText(a: string, b: string): boolean {
  const shorter = Math.min(a.length, b.length);
  let head = 0;
  while (head < shorter && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < shorter - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
  return 2 * (head + tail) >= Math.max(a.length, b.length);
}

/**
 * Ids for new steps: the person's own if it is free, and not if the log has given it to another step in the meantime.
 */
function assignNewIds(
  base: SavedPlan,
  steps: readonly EditedStep[],
  ids: ReadonlyArray<string | undefined>,
  now: Plan,
  lastStepNumber: number,
): SavedStep[] {
  const known = new Set(base.steps.map((step) => step.id));
  const taken = new Set([...now.steps.map((step) => step.id).filter((id) => !known.has(id)), ...ids]);
  let last = lastStepNumber;
  for (const { id } of [...base.steps, ...steps, ...now.steps])
    last = Math.max(last, Number(/^step_(\d{1,9})$/.exec(id ?? '')?.[1] ?? 0));
  return steps.map((step, place) => {
    const id = ids[place] ?? (step.id !== undefined && !taken.has(step.id) ? step.id : `step_${++last}`);
    taken.add(id);
    return toSavedStep(step, id);
  });
}

function groupBy<T, K>(items: readonly T[], keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) pushToGroup(groups, keyOf(item), item);
  return groups;
}

function pushToGroup<T, K>(groups: Map<K, T[]>, key: K, item: T): void {
  const group = groups.get(key);
  if (group) group.push(item);
  else groups.set(key, [item]);
}
