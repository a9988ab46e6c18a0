import { nearestName, truncate } from '../../base/strings.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import type { PlanChange } from '../../protocol/session/plan-edit.ts';
import { PLAN_BOUNDS } from '../../protocol/session/plan-edit.ts';
import { planSizeFault } from './edited-plan.ts';
import { findStep } from './plan-steps.ts';

/** The result of a plan command: the changes, and the reply. */
export type PlanCommandResult = {
  changes: PlanChange[];
  reply: string;
  /** It could not be carried out, and `reply` says why. */
  isRefused?: true;
};

const USAGE =
  'done <step> [result] · skip <step> [reason] · add [after <step>:] <text> · move <step> <position> · reword <step> <text> · undo [step]';
const VERBS = ['done', 'skip', 'add', 'move', 'reword', 'undo'];

/**
 * `/plan done step_2`, `skip`, `add`, `move`, `reword`: hand edits of `plan.json` without an editor, as the same
 * changes. Any other is refused, with those there are.
 */
export function runPlanCommand(plan: Plan, lastStepNumber: number, command: string): PlanCommandResult {
  const [, verb = '', rest = ''] = /^\s*(\S+)\s*([\s\S]*)$/.exec(command) ?? [];
  switch (verb.toLowerCase()) {
    case 'done':
      return withNamedStep(plan, rest, (step, result) => closeStepByHand(step, 'completed', result));
    case 'skip':
      return withNamedStep(plan, rest, (step, reason) => closeStepByHand(step, 'skipped', reason));
    case 'reword':
      return withNamedStep(plan, rest, (step, text) =>
        text
          ? (refuseTooLong(text) ??
            editResult(`${step.id} is now: ${text}`, {
              what: 'step',
              step: step.id,
              set: { description: text },
              unset: [],
            }))
          : refuse('reword needs a text: reword <step> <text>'),
      );
    case 'move':
      return withNamedStep(plan, rest, (step, text) => moveStepByHand(plan, step, Number(text)));
    case 'add':
      return addStepByHand(plan, lastStepNumber, rest.trim());
    case 'undo':
      return withNamedStep(plan, rest, ({ id, status }) =>
        refuse(`${id} is ${status}: only a step that has ended is undone.`),
      );
    default: {
      const near = nearestName(verb, VERBS);
      return refuse(
        `There is no /plan ${truncate(verb, 40)}.${near ? ` Did you mean "${near}"?` : ''} There are: ${USAGE}`,
      );
    }
  }
}

const refuse = (text: string): PlanCommandResult => ({ changes: [], reply: text, isRefused: true });

function refuseTooLong({ length }: string): PlanCommandResult | undefined {
  const most = PLAN_BOUNDS.description;
  if (length <= most) return undefined;
  return refuse(
    `A step has at most ${most} characters; these are ${length}. Put the long part into a file and name it.`,
  );
}

const editResult = (text: string, ...changes: PlanChange[]): PlanCommandResult => ({
  changes,
  reply: text,
});

function withNamedStep(
  plan: Plan,
  rest: string,
  act: (step: Step, text: string) => PlanCommandResult,
): PlanCommandResult {
  const [, name = '', text = ''] = /^\s*(\S*)\s*([\s\S]*)$/.exec(rest) ?? [];
  const step = name === '' ? undefined : findStep(plan, name);
  if (!step)
    return refuse(`There is no step "${name}". Steps: ${plan.steps.map((one) => one.id).join(', ') || 'none yet'}.`);
  return act(step, text.trim());
}

function closeStepByHand(step: Step, to: 'completed' | 'skipped', note: string): PlanCommandResult {
  if (step.status === to) return refuse(`${step.id} is ${to} already.`);
  return editResult(`${step.id} is ${to}: ${step.description}`, {
    what: 'status',
    step: step.id,
    from: step.status,
    to,
    ...(note && { note }),
  });
}

function moveStepByHand(plan: Plan, step: Step, position: number): PlanCommandResult {
  if (!Number.isInteger(position) || position < 1 || position > plan.steps.length)
    return refuse(`move needs a position from 1 to ${plan.steps.length}.`);
  const others = plan.steps.map((one) => one.id).filter((id) => id !== step.id);
  return editResult(`${step.id} is at place ${position}.`, {
    what: 'order',
    to: [...others.slice(0, position - 1), step.id, ...others.slice(position - 1)],
  });
}

function addStepByHand(plan: Plan, lastStepNumber: number, rest: string): PlanCommandResult {
  const [, after = '', behind = ''] = /^after\s+([^:：]+)[:：]\s*([\s\S]+)$/i.exec(rest) ?? [];
  // "after lunch: eat" is plain text if no step is called lunch.
  const before = findStep(plan, after);
  const text = before ? behind : rest;
  if (text.trim() === '') return refuse('add needs a text: add [after <step>:] <text>');
  const unfit = refuseTooLong(text.trim());
  if (unfit) return unfit;
  const step: Step = { id: `step_${lastStepNumber + 1}`, description: text.trim(), status: 'pending' };
  const large = planSizeFault([...plan.steps, step], plan.steps);
  if (large) return refuse(`The plan would become too large: ${large}.`);
  const at = before ? plan.steps.indexOf(before) + 1 : plan.steps.length;
  return editResult(`${step.id} was added: ${step.description}`, { what: 'added', step, at });
}
