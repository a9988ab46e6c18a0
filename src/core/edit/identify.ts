import type { EditedPlan, Plan } from '../../protocol/plan.ts';
import { namedStep, type Saved, type SavedStep } from './saves.ts';

type Theirs = EditedPlan['steps'][number];

/**
 * Which step of the plan each step of a save is. An id says so; steps without one, or with one that is there twice, are those of
 * the same words in the save before (`base`), then those that stood in the same place and were only reworded. Any other is new and
 * gets an id that was never used.
 */
export function identified(base: Saved, { steps }: EditedPlan, now: Plan, stepNo: number): SavedStep[] {
  const ids = new Array<string | undefined>(steps.length);
  const left = new Set(base.steps);
  const give = (place: number, step: SavedStep | undefined) => {
    if (!step || !left.delete(step)) return;
    ids[place] = step.id;
  };
  const byName = grouped(base.steps, (step) => nameOf(step));
  const theirNames = grouped(steps, (step) => step.id ?? null);
  const own = new Map(base.steps.map((step) => [step.id, step]));
  for (const [place, { id }] of steps.entries()) {
    if (id === undefined || theirNames.get(id)?.length !== 1) continue;
    const [only, second] = byName.get(id) ?? [];
    // An id the person took over from the file the daemon wrote meanwhile is that of the step as well.
    give(place, second ? undefined : (only ?? own.get(id)));
  }
  const alike = grouped([...left], (step) => wordsOf(nameOf(step), step.description));
  for (const [place, step] of steps.entries())
    if (ids[place] === undefined) give(place, alike.get(wordsOf(step.id ?? null, step.description))?.shift());
  reworded(base, steps, ids, left, now);
  return fresh(base, steps, ids, now, stepNo);
}

/** The id as the file had it; null: none. */
const nameOf = (step: SavedStep): string | null => (step.written === undefined ? step.id : step.written);
const wordsOf = (name: string | null, description: string): string => JSON.stringify([name, description]);

/** Steps of the same name that stand behind the same step, one after the other. */
function reworded(
  base: Saved,
  steps: readonly Theirs[],
  ids: Array<string | undefined>,
  left: Set<SavedStep>,
  now: Plan,
): void {
  const statuses = new Map(now.steps.map((step) => [step.id, step.status]));
  const gaps = new Map<string, SavedStep[]>();
  let behind = '';
  for (const step of base.steps) {
    if (!left.has(step)) behind = step.id;
    else push(gaps, wordsOf(nameOf(step), behind), step);
  }
  behind = '';
  for (const [place, step] of steps.entries()) {
    const id = ids[place];
    if (id !== undefined) {
      behind = id;
      continue;
    }
    const before = gaps.get(wordsOf(step.id ?? null, behind))?.shift();
    if (!before) continue;
    const status = statuses.get(before.id);
    // What has begun or ended under other words is another task: it is not passed off as done.
    const isSame = status === 'pending' || status === 'blocked' || isNear(before.description, step.description);
    if (status !== undefined && isSame && left.delete(before)) ids[place] = before.id;
  }
}

/** Half of the longer text is in both, at the beginning and the end. */
function isNear(a: string, b: string): boolean {
  const shorter = Math.min(a.length, b.length);
  let head = 0;
  while (head < shorter && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < shorter - head && a.at(-1 - tail) === b.at(-1 - tail)) tail++;
  return 2 * (head + tail) >= Math.max(a.length, b.length);
}

/** Ids for what is new: the person's own where it is free. An id the record gave to a step of its own meanwhile is not. */
function fresh(
  base: Saved,
  steps: readonly Theirs[],
  ids: ReadonlyArray<string | undefined>,
  now: Plan,
  stepNo: number,
): SavedStep[] {
  const known = new Set(base.steps.map((step) => step.id));
  const taken = new Set([...now.steps.map((step) => step.id).filter((id) => !known.has(id)), ...ids]);
  let last = stepNo;
  for (const { id } of [...base.steps, ...steps, ...now.steps])
    last = Math.max(last, Number(/^step_(\d{1,9})$/.exec(id ?? '')?.[1] ?? 0));
  return steps.map((step, place) => {
    const id = ids[place] ?? (step.id !== undefined && !taken.has(step.id) ? step.id : `step_${++last}`);
    taken.add(id);
    return namedStep(step, id);
  });
}

function grouped<T, K>(items: readonly T[], keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) push(groups, keyOf(item), item);
  return groups;
}

function push<T, K>(groups: Map<K, T[]>, key: K, item: T): void {
  const group = groups.get(key);
  if (group) group.push(item);
  else groups.set(key, [item]);
}
