import type { EditedPlan, Plan, PlanSave } from '../../protocol/plan.ts';

/** What of a plan is in the hands of people, or told to them as not theirs. */
export type Saved = Omit<PlanSave, 'sha256'>;
export type SavedStep = Saved['steps'][number];

/** Fields of a step that a person may take out of the file. */
export const OPTIONAL = ['needs', 'when', 'rollback', 'parent', 'done_when', 'notes', 'agent'] as const;
export const FIELDS = ['description', ...OPTIONAL] as const;

/** Fields of the plan that are the daemon's own, and what to do instead of writing them. */
export const OWN = {
  status: 'use agentctl continue, pause or cancel',
  current_step_index: 'it follows the steps',
  iteration_count: 'it counts',
} as const;

/** Buffers whose last save is kept: the saves of any other begin from the version of the plan they name. */
const BUFFERS = 8;

/** The version of a plan the daemon wrote, as a save in which nothing was changed. */
export function unchanged(plan: Plan): Saved {
  const { revision, goal, limits, status, current_step_index, iteration_count, steps } = plan;
  return {
    ...{ revision, goal, limits, status, current_step_index, iteration_count },
    steps: steps.map((step) => ({ ...worded(step), id: step.id, status: step.status })),
  };
}

/** What a person saved, once each of its steps has its id. */
export function savedAs(
  { revision, goal, limits }: EditedPlan,
  steps: SavedStep[],
  raw: Readonly<Record<string, unknown>>,
): Saved {
  const { status, current_step_index, iteration_count } = raw;
  const given = { revision, goal, limits, status, current_step_index, iteration_count };
  return { ...present(given), steps };
}

/** A step of a save under its id; `written` where the file had another. */
export function namedStep(step: EditedPlan['steps'][number], id: string): SavedStep {
  const { status } = step;
  return {
    ...worded(step),
    id,
    ...(status !== undefined && { status }),
    ...(step.id !== id && { written: step.id ?? null }),
  };
}

function worded(step: Omit<SavedStep, 'id' | 'written'>): Pick<SavedStep, (typeof FIELDS)[number]> {
  const { description, needs, when, rollback, parent, done_when, notes, agent } = step;
  return { description, ...present({ needs, when, rollback, parent, done_when, notes, agent }) };
}

function present<T extends object>(fields: T): Partial<T> {
  const there: Partial<T> = { ...fields };
  for (const key of Object.keys(fields) as Array<keyof T>) if (there[key] === undefined) delete there[key];
  return there;
}

/** The last save of the buffer that began from this version. */
export function lastOf(saves: readonly PlanSave[], revision: number | undefined): PlanSave | undefined {
  return saves.find((save) => save.revision === revision);
}

/** The last save of each buffer, this one among them. */
export function withSave(saves: readonly PlanSave[], save: PlanSave): PlanSave[] {
  return [...saves.filter((other) => other.revision !== save.revision), save].slice(-BUFFERS);
}

export function same(a: unknown, b: unknown): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}
