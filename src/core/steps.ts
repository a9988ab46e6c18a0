import { Plan, Step } from '../protocol/plan.ts';
import { readyIn } from './outlook.ts';
import { isGroup, withChanged } from './structure.ts';

/** Steps still to be worked on. */
export function openSteps(plan: Plan): Step[] {
  return plan.steps.filter((step) => step.status === 'pending' || step.status === 'running');
}

/**
 * Steps that may start now: pending, everything they and the groups they are in need is completed, and their conditions hold. A
 * step that undoes another is ready only once that one has failed, and then nothing else is. Groups are never worked on themselves.
 */
export function ready(steps: readonly Step[]): Step[] {
  return readyIn(steps);
}

/**
 * Steps that keep the goal from being reached. One that a `spawn` call asked for is a means: whether its failure matters is for
 * the model that was told of it, as long as any other step was completed. A part of a step that was completed without it was not
 * needed.
 */
export function lostSteps(plan: Plan): Step[] {
  const completed = new Set(plan.steps.flatMap((step) => (step.status === 'completed' ? [step.id] : [])));
  return plan.steps.filter(
    (step) =>
      (step.status === 'failed' || step.status === 'blocked') &&
      (step.call === undefined || completed.size === 0) &&
      !completed.has(step.parent ?? '') &&
      // What a group came to, its parts say.
      !isGroup(plan.steps, step.id),
  );
}

/** Steps that kept the goal from being reached: failed or blocked, and nothing was planned in their place. */
export function unreached(plan: Plan, replaced: readonly string[]): string[] {
  const made = plan.steps.some((step) => step.status === 'completed') ? replaced : [];
  return lostSteps(plan)
    .filter((step) => step.status === 'blocked' || !made.includes(step.id))
    .map((step) => step.id);
}

/** Failed steps whose `rollback` was carried out. */
export function undone(steps: readonly Step[]): Step[] {
  const completed = new Set(steps.filter((step) => step.status === 'completed').map((step) => step.id));
  return steps.filter((step) => step.status === 'failed' && completed.has(step.rollback ?? ''));
}

/** Where the plan is: the running step, else the first open one, else the last. */
export function currentIndex(steps: readonly Step[]): number {
  const running = steps.findIndex((step) => step.status === 'running' && !isGroup(steps, step.id));
  if (running >= 0) return running;
  const pending = steps.findIndex((step) => step.status === 'pending' && !isGroup(steps, step.id));
  return pending >= 0 ? pending : Math.max(0, steps.length - 1);
}

/** The same plan with one step changed, its index brought up to date and its revision counted up. */
export function withStep(plan: Plan, id: string, change: (step: Step) => Step, at: string): Plan {
  return withSteps(plan, withChanged(plan.steps, id, change), at);
}

export function withSteps(plan: Plan, steps: Step[], at: string): Plan {
  return touched({ ...plan, steps, current_step_index: currentIndex(steps) }, at);
}

export function touched(plan: Plan, at: string): Plan {
  return { ...plan, revision: plan.revision + 1, updated_at: at };
}

/** A step without the keys named: JSON has no undefined, and neither has a plan. */
export function without<K extends keyof Step>(step: Step, ...keys: K[]): Step {
  const copy = { ...step };
  for (const key of keys) delete copy[key];
  return copy;
}

/** A step in which a command ended with that status; undefined: none did by itself. */
export function withExit(step: Step, exit: number | undefined): Step {
  return exit === undefined ? without(step, 'exit') : { ...step, exit };
}

const PLAN_KEYS = Object.keys(Plan.shape) as Array<keyof Plan>;
const STEP_KEYS = Object.keys(Step.shape) as Array<keyof Step>;

/** The bytes of `plan.json`: keys in the order of the schema, whatever order the plan grew in. */
export function planText(plan: Plan): string {
  const steps = plan.steps.map((step) => inOrder(step, STEP_KEYS));
  return `${JSON.stringify(inOrder({ ...plan, steps }, PLAN_KEYS), null, 2)}\n`;
}

function inOrder<T extends object>(value: T, keys: Array<keyof T>): Partial<T> {
  const ordered: Partial<T> = {};
  for (const key of keys) if (value[key] !== undefined) ordered[key] = value[key];
  return ordered;
}

/** The step a model or a person means by `step_2`, `2`, `step 2`, `步骤2` or its description. */
export function stepNamed(plan: Plan, name: string): Step | undefined {
  const wanted = name.trim().toLowerCase();
  const number = /^(?:step|步骤|步驟)?[\s_#]*(\d{1,9})$/.exec(wanted)?.[1];
  return (
    plan.steps.find((step) => step.id.toLowerCase() === wanted) ??
    (number
      ? (plan.steps.find((step) => step.id === `step_${number}`) ?? plan.steps[Number(number) - 1])
      : undefined) ??
    openSteps(plan).find((step) => step.description.trim().toLowerCase() === wanted) ??
    plan.steps.find((step) => step.description.trim().toLowerCase() === wanted)
  );
}
