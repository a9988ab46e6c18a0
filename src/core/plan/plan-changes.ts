import type { EventBody } from '../../protocol/session/event.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import type { PlanChange } from '../../protocol/session/plan-edit.ts';
import { currentStepIndex, omitFields } from './plan-steps.ts';
import { moveStep } from './step-moves.ts';
import { causeInReason } from './step-readiness.ts';

/** Who changes a plan from outside the step's own work. */
type Editor = 'person' | 'agent' | 'planner';

/**
 * The plan with all changes applied in order. A change to a step that no longer exists does nothing. A thousand changes
 * cost about what one does. `by`: who sets a step to completed or skipped.
 */
export function applyPlanChanges(plan: Plan, changes: readonly PlanChange[], at: string, by: Editor = 'person'): Plan {
  let { goal, limits } = plan;
  const list = editableStepList(plan.steps);
  for (const change of changes) {
    switch (change.what) {
      case 'goal':
        goal = change.to;
        break;
      case 'limits':
        limits = change.to;
        break;
      case 'added':
        list.add(change.step, change.at);
        break;
      case 'removed':
        list.remove(change.step);
        break;
      case 'order':
        list.order(change.to);
        break;
      case 'status':
        list.change(change.step, (step) => setStatus(step, change, at, by));
        break;
      case 'step':
        list.change(change.step, (step) => Object.assign(omitFields(step, ...change.unset), change.set));
        break;
      default:
        change satisfies never;
    }
  }
  const steps = by === 'person' ? withoutRemovedNeeds(list.steps(), changes) : list.steps();
  return { ...plan, goal, limits, steps, current_step_index: currentStepIndex(steps) };
}

/**
 * A list of steps that is changed in place: steps are found by id, appended and removed without touching the others. A
 * removal leaves a gap until positions matter.
 */
function editableStepList(before: readonly Step[]) {
  let steps: Array<Step | null> = [...before];
  let places: Map<string, number> | null = null;
  let gaps = false;

  const dense = (): Step[] => {
    const all = steps.filter((step) => step !== null);
    if (gaps) replace(all);
    return all;
  };
  const replace = (all: Step[]) => {
    steps = all;
    gaps = false;
    places = null;
  };
  const indexed = (): Map<string, number> => {
    if (places) return places;
    places = new Map();
    for (const [place, step] of steps.entries()) if (step) places.set(step.id, place);
    return places;
  };

  return {
    steps: dense,
    add(step: Step, at: number) {
      const count = gaps ? dense().length : steps.length;
      if (at < count) {
        steps.splice(at, 0, step);
        places = null;
        return;
      }
      steps.push(step);
      places?.set(step.id, steps.length - 1);
    },
    remove(id: string) {
      const place = indexed().get(id);
      if (place === undefined) return;
      steps[place] = null;
      gaps = true;
      indexed().delete(id);
    },
    change(id: string, change: (step: Step) => Step) {
      const place = indexed().get(id) ?? -1;
      const step = steps[place];
      if (step) steps[place] = change(step);
    },
    order: (ids: readonly string[]) => replace(reorderSteps(dense(), ids)),
  };
}

/** Steps in the order named; those not named stay after the step they followed. */
function reorderSteps(steps: readonly Step[], order: readonly string[]): Step[] {
  const named = new Set(order);
  const byId = new Map(steps.map((step) => [step.id, step]));
  const result: Step[] = [];
  const follower = new Map<Step | undefined, Step>();
  for (const [place, step] of steps.entries()) if (!named.has(step.id)) follower.set(steps[place - 1], step);
  const putFollowers = (first: Step | undefined) => {
    for (let step = follower.get(first); step; step = follower.get(step)) result.push(step);
  };
  putFollowers(undefined);
  for (const id of named) {
    const step = byId.get(id);
    if (!step) continue;
    result.push(step);
    putFollowers(step);
  }
  return result;
}

/** A step that a person removes holds nobody back: what the others need or ask of it goes with it. */
function withoutRemovedNeeds(steps: Step[], changes: readonly PlanChange[]): Step[] {
  const gone = removedSteps(changes);
  if (gone.size === 0) return steps;
  const known = new Set(steps.map(({ id }) => id));
  const isGone = (id: string) => gone.has(id) && !known.has(id);
  return steps.map((step) => {
    const { needs = [], when = [], ...rest } = step;
    const left = { needs: needs.filter((id) => !isGone(id)), when: when.filter((one) => !isGone(one.step)) };
    if (left.needs.length === needs.length && left.when.length === when.length) return step;
    return {
      ...rest,
      ...(left.needs.length > 0 && { needs: left.needs }),
      ...(left.when.length > 0 && { when: left.when }),
    };
  });
}

/** The ids of the steps that these changes remove. */
export const removedSteps = (changes: readonly PlanChange[]): ReadonlySet<string> =>
  new Set(changes.flatMap((it) => (it.what === 'removed' ? [it.step] : [])));

type StatusChange = Extract<PlanChange, { what: 'status' }>;

/** The reason of a person is the result of a completed step, and the error of any other. */
function setStatus(step: Step, { to, note, because: cause }: StatusChange, at: string, by: Editor): Step {
  if (to === 'completed')
    return moveStep(step, to, {
      at,
      result: note,
      completed_by: by === 'planner' ? 'person' : by,
      evidence: 'set by hand',
    });
  const because = by === 'planner' ? (cause ?? causeInReason(note)) : undefined;
  const completed_by = to === 'skipped' && by !== 'planner' ? by : undefined;
  return moveStep(step, to, { at, error: note, because, completed_by });
}

/** A hand edit as reported to the model: one sentence per change. */
export function describePlanChanges(changes: readonly PlanChange[]): string[] {
  return changes.map((change) => {
    switch (change.what) {
      case 'goal':
        return `the goal is now: ${change.to}`;
      case 'limits':
        return `the limits are now ${change.to.iterations} iterations, ${change.to.step_iterations} in a step`;
      case 'added':
        return `${change.step.id} was added: ${change.step.description}`;
      case 'removed':
        return `${change.step} was removed: ${change.description}`;
      case 'order':
        return `the order is now ${change.to.join(', ')}`;
      case 'status':
        return `${change.step} was set from ${change.from} to ${change.to}`;
      case 'step':
        return `${change.step} was changed: ${[...Object.entries(change.set).map(([key, value]) => `${key} = ${typeof value === 'string' ? value : JSON.stringify(value)}`), ...change.unset.map((key) => `${key} removed`)].join('; ')}`;
      default:
        return change satisfies never;
    }
  });
}

/** A paused plan leaves `plan.json` and can be resumed later. */
export function shelvePlanEvent(plan: string): EventBody {
  return { type: 'plan.ended', plan, status: 'paused', reason: 'shelved' };
}
