import type { PlanChange } from '../../protocol/event.ts';
import type { Plan, Step } from '../../protocol/plan.ts';
import { currentIndex, without } from '../steps.ts';

/** The plan with one hand edit in it. A change that names a step which is gone changes nothing. */
export function applyChange(plan: Plan, change: PlanChange, at: string): Plan {
  switch (change.what) {
    case 'goal':
      return { ...plan, goal: change.to };
    case 'limits':
      return { ...plan, limits: change.to };
    case 'added':
      return placed(plan, [...plan.steps.slice(0, change.at), change.step, ...plan.steps.slice(change.at)]);
    case 'removed':
      return placed(
        plan,
        plan.steps.filter((step) => step.id !== change.step),
      );
    case 'order':
      return placed(plan, ordered(plan.steps, change.to));
    case 'status':
      return changed(plan, change.step, (step) => withStatus(step, change, at));
    case 'step':
      return changed(plan, change.step, (step) => ({ ...without(step, ...change.unset), ...change.set }) as Step);
    default:
      return change satisfies never;
  }
}

/** Steps in the order named; those not named keep their place behind the step they followed. */
export function ordered(steps: readonly Step[], order: readonly string[]): Step[] {
  const named = order.flatMap((id) => steps.filter((step) => step.id === id));
  const result = [...named];
  for (const [place, step] of steps.entries()) {
    if (order.includes(step.id)) continue;
    const before = steps[place - 1];
    const after = before ? result.findIndex((other) => other.id === before.id) : -1;
    result.splice(after + 1, 0, step);
  }
  return result;
}

function withStatus(step: Step, { to, note }: Extract<PlanChange, { what: 'status' }>, at: string): Step {
  const bare = without(step, 'completed_by', 'evidence', 'completed_at', 'error');
  const said = note ? { [to === 'completed' ? 'result' : 'error']: note } : {};
  if (to === 'completed')
    return { ...bare, ...said, status: to, completed_by: 'person', evidence: 'set by hand', completed_at: at };
  if (to === 'pending') return { ...without(bare, 'result'), status: to };
  return { ...bare, ...said, status: to };
}

function changed(plan: Plan, id: string, change: (step: Step) => Step): Plan {
  return placed(
    plan,
    plan.steps.map((step) => (step.id === id ? change(step) : step)),
  );
}

function placed(plan: Plan, steps: Step[]): Plan {
  return { ...plan, steps, current_step_index: currentIndex(steps) };
}
