import type { EventBody, PlanChange } from '../protocol/event.ts';
import { PLAN_BOUNDS, type Plan, type Step } from '../protocol/plan.ts';
import { stepNamed } from './steps.ts';

/** What a person asked of the plan in a command: the events, and what they are told. */
export type PlanOrder = {
  events: EventBody[];
  told: string /** it could not be carried out, and `told` says why */;
  refused?: true;
};

const HOW =
  'done <step> [result] · skip <step> [reason] · add [after <step>:] <text> · move <step> <position> · reword <step> <text> · undo';

/**
 * `/plan done step_2`, `skip`, `add`, `move`, `reword`: the hand edits of `plan.json` for whoever has no editor at hand. They become
 * the same `plan.edited` events. Undefined where the order is not one of these.
 */
export function planOrder(plan: Plan, stepNo: number, order: string): PlanOrder | undefined {
  const [, verb = '', rest = ''] = /^\s*(\S+)\s*([\s\S]*)$/.exec(order) ?? [];
  switch (verb.toLowerCase()) {
    case 'done':
      return onStep(plan, rest, (step, result) => close(step, 'completed', result));
    case 'skip':
      return onStep(plan, rest, (step, reason) => close(step, 'skipped', reason));
    case 'reword':
      return onStep(plan, rest, (step, text) =>
        text
          ? (fitting(text) ??
            edit(`${step.id} is now: ${text}`, { what: 'step', step: step.id, set: { description: text }, unset: [] }))
          : refused('reword wants a text: reword <step> <text>'),
      );
    case 'move':
      return onStep(plan, rest, (step, text) => move(plan, step, Number(text)));
    case 'add':
      return add(plan, stepNo, rest.trim());
    default:
      return undefined;
  }
}

/** What to say where an order was not understood. */
export const PLAN_ORDERS = HOW;

const refused = (text: string): PlanOrder => ({ events: [], told: text, refused: true });

function fitting({ length }: string): PlanOrder | undefined {
  const most = PLAN_BOUNDS.description;
  if (length <= most) return undefined;
  return refused(
    `A step has at most ${most} characters; these are ${length}. Put the long part into a file and name it.`,
  );
}

const edit = (text: string, ...changes: PlanChange[]): PlanOrder => ({
  events: [{ type: 'plan.edited', by: 'person', changes, ignored: [] }],
  told: text,
});

function onStep(plan: Plan, rest: string, act: (step: Step, text: string) => PlanOrder): PlanOrder {
  const [, name = '', text = ''] = /^\s*(\S*)\s*([\s\S]*)$/.exec(rest) ?? [];
  const step = name === '' ? undefined : stepNamed(plan, name);
  if (!step)
    return refused(`There is no step "${name}". Steps: ${plan.steps.map((one) => one.id).join(', ') || 'none yet'}.`);
  return act(step, text.trim());
}

function close(step: Step, to: 'completed' | 'skipped', note: string): PlanOrder {
  if (step.status === to) return refused(`${step.id} is ${to} already.`);
  return edit(`${step.id} is ${to}: ${step.description}`, {
    what: 'status',
    step: step.id,
    from: step.status,
    to,
    ...(note && { note }),
  });
}

function move(plan: Plan, step: Step, position: number): PlanOrder {
  if (!Number.isInteger(position) || position < 1 || position > plan.steps.length)
    return refused(`move wants a position from 1 to ${plan.steps.length}.`);
  const others = plan.steps.map((one) => one.id).filter((id) => id !== step.id);
  return edit(`${step.id} is at place ${position}.`, {
    what: 'order',
    to: [...others.slice(0, position - 1), step.id, ...others.slice(position - 1)],
  });
}

function add(plan: Plan, stepNo: number, rest: string): PlanOrder {
  const [, after = '', behind = ''] = /^after\s+([^:：]+)[:：]\s*([\s\S]+)$/i.exec(rest) ?? [];
  // "after lunch: eat" is a text of its own where no step is called lunch.
  const before = stepNamed(plan, after);
  const text = before ? behind : rest;
  if (text.trim() === '') return refused('add wants a text: add [after <step>:] <text>');
  if (plan.steps.length >= PLAN_BOUNDS.steps) return refused(`A plan has at most ${PLAN_BOUNDS.steps} steps.`);
  const unfit = fitting(text.trim());
  if (unfit) return unfit;
  const step: Step = { id: `step_${stepNo + 1}`, description: text.trim(), status: 'pending' };
  const at = before ? plan.steps.indexOf(before) + 1 : plan.steps.length;
  return edit(`${step.id} was added: ${step.description}`, { what: 'added', step, at });
}
