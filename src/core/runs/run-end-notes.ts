import { firstFew, truncate } from '../../base/strings.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import type { Language, Rules } from '../../protocol/settings/effective-settings.ts';
import type { REPLY_WORDING } from '../messages/reply-wording.ts';
import { executorOf, isLeftOutByModel } from '../plan/plan-steps.ts';
import { skipCauseOf } from '../plan/step-readiness.ts';
import type { RunEndReason } from '../session/session-state.ts';

type Words = (typeof REPLY_WORDING)[Language];

/** What a reply adds about the steps: what was only assumed, what was left out, and who did not do what they name. */
export function planNotes(plan: Plan, { status }: RunEndReason, rules: Rules, words: Words): string[] {
  const isDone = status === 'done';
  const assumed = isDone ? plan.steps.filter((step) => step.completed_by === 'timeout').map(shortStep) : [];
  const leftOut = isDone ? leftOutSteps(plan).map(stepWithReason) : [];
  return [
    ...(assumed.length > 0 ? [words.assumed(firstFew(assumed).join('; '))] : []),
    ...(leftOut.length > 0 ? [words.leftOut(firstFew(leftOut).join('; '))] : []),
    ...unknownAgentNotes(plan, rules, words),
  ];
}

/** Steps that the model left out, and those that were skipped because they need one of them. */
function leftOutSteps({ steps }: Plan): Step[] {
  const out = new Set(steps.filter(isLeftOutByModel).map(({ id }) => id));
  const isHeldBack = (step: Step) => {
    const cause = skipCauseOf(step);
    return !out.has(step.id) && cause?.relation === 'needs' && out.has(cause.step);
  };
  for (let more = steps.filter(isHeldBack); more.length > 0; more = steps.filter(isHeldBack))
    for (const { id } of more) out.add(id);
  return steps.filter(({ id }) => out.has(id));
}

const stepWithReason = (step: Step): string =>
  step.error ? `${shortStep(step)} (${truncate(step.error, MAX_NAMED_CHARS)})` : shortStep(step);

/** Characters of a step named in a reply. */
export const MAX_NAMED_CHARS = 300;
const shortStep = ({ description }: Step): string => truncate(description, MAX_NAMED_CHARS);

/** Steps that "continue" leaves alone. */
export const stepsBlockedByPerson = ({ steps }: Plan, editedByPerson: readonly string[]): string[] =>
  steps.flatMap(({ id, status, description }) =>
    status === 'blocked' && editedByPerson.includes(`${id}:status`)
      ? [`${id} (${truncate(description, MAX_NAMED_CHARS)})`]
      : [],
  );

/** Steps whose tag named an unknown agent: the reply says who did them. */
function unknownAgentNotes(plan: Plan, rules: Rules, words: Words): string[] {
  if (!plan.planned_by || Object.keys(rules.agents).length === 0) return [];
  const notes = plan.steps.flatMap((step) => {
    const { agent, unknown } = executorOf(step, rules);
    const did = agent === undefined && step.started_at !== undefined && step.status !== 'failed';
    return unknown !== undefined && did ? [words.nobody(unknown, shortStep(step))] : [];
  });
  return firstFew(notes);
}
