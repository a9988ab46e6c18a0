import { nearestName, truncate } from '../../base/strings.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import type { PlanChange } from '../../protocol/session/plan-edit.ts';
import { PLAN_BOUNDS } from '../../protocol/session/plan-edit.ts';
import type { Language } from '../../protocol/settings/effective-settings.ts';
import { planSizeFault } from './edited-plan.ts';
import { findStep } from './plan-steps.ts';

/** The result of a plan command: the changes, and the reply. */
export type PlanCommandResult = {
  changes: PlanChange[];
  reply: string;
  /** It could not be carried out, and `reply` says why. */
  isRefused?: true;
};

const VERBS = ['done', 'skip', 'add', 'move', 'reword', 'undo'];

const en = {
  usage:
    'done <step> [result] · skip <step> [reason] · add [after <step>:] <text> · move <step> <position> · reword <step> <text> · undo [step]',
  noSuchVerb: (verb: string, near: string | undefined): string =>
    `There is no /plan ${verb}.${near ? ` Did you mean "${near}"?` : ''} There are: ${en.usage}`,
  notEnded: (step: string, status: string) => `${step} is ${status}: only a step that has ended is undone.`,
  isNow: (step: string, text: string) => `${step} is now: ${text}`,
  rewordNeeds: 'reword needs a text: reword <step> <text>',
  addNeeds: 'add needs a text: add [after <step>:] <text>',
  tooLong: (most: number, length: number) =>
    `A step has at most ${most} characters; these are ${length}. Put the long part into a file and name it.`,
  noSuchStep: (name: string, known: string) => `There is no step "${name}". Steps: ${known || 'none yet'}.`,
  isAlready: (step: string, isDone: boolean) => `${step} is ${isDone ? 'completed' : 'skipped'} already.`,
  closed: (step: string, isDone: boolean, text: string) => `${step} is ${isDone ? 'completed' : 'skipped'}: ${text}`,
  moveNeeds: (most: number) => `move needs a position from 1 to ${most}.`,
  moved: (step: string, position: number) => `${step} is at place ${position}.`,
  tooLarge: (why: string) => `The plan would become too large: ${why}.`,
  added: (step: string, text: string) => `${step} was added: ${text}`,
};
const zh: typeof en = {
  usage:
    'done <步骤> [结果] · skip <步骤> [原因] · add [after <步骤>:] <内容> · move <步骤> <位置> · reword <步骤> <内容> · undo [步骤]',
  noSuchVerb: (verb, near) => `没有 /plan ${verb}。${near ? `您是指“${near}”吗？` : ''}可用的有：${zh.usage}`,
  notEnded: (step, status) => `${step} 的状态是 ${status}：只能撤销已经结束的步骤。`,
  isNow: (step, text) => `${step} 现在是：${text}`,
  rewordNeeds: 'reword 需要内容：reword <步骤> <内容>',
  addNeeds: 'add 需要内容：add [after <步骤>:] <内容>',
  tooLong: (most, length) => `一个步骤最多 ${most} 个字符，这里有 ${length} 个。请把较长的部分写进文件，再写上文件名。`,
  noSuchStep: (name, known) => `没有步骤“${name}”。现有步骤：${known || '暂无'}。`,
  isAlready: (step, isDone) => `${step} 已经${isDone ? '完成' : '跳过'}了。`,
  closed: (step, isDone, text) => `${step} 已${isDone ? '完成' : '跳过'}：${text}`,
  moveNeeds: (most) => `move 需要 1 到 ${most} 之间的位置。`,
  moved: (step, position) => `${step} 现在是第 ${position} 步。`,
  tooLarge: (why) => `计划会变得太大：${why}`,
  added: (step, text) => `已添加 ${step}：${text}`,
};

/** What the command says, in the language of its reply. */
export const PLAN_COMMAND_WORDING: Record<Language, typeof en> = { en, zh };
type Words = typeof en;

/**
 * `/plan done step_2`, `skip`, `add`, `move`, `reword`: hand edits of `plan.json` without an editor, as the same
 * changes. Any other is refused, with those there are.
 */
export function runPlanCommand(plan: Plan, lastStepNumber: number, command: string, words: Words): PlanCommandResult {
  const [, verb = '', rest = ''] = /^\s*(\S+)\s*([\s\S]*)$/.exec(command) ?? [];
  switch (verb.toLowerCase()) {
    case 'done':
      return withNamedStep(plan, rest, words, (step, result) => closeStepByHand(step, 'completed', result, words));
    case 'skip':
      return withNamedStep(plan, rest, words, (step, reason) => closeStepByHand(step, 'skipped', reason, words));
    case 'reword':
      return withNamedStep(plan, rest, words, (step, text) => rewordStep(step, text, words));
    case 'move':
      return withNamedStep(plan, rest, words, (step, text) => moveStepByHand(plan, step, Number(text), words));
    case 'add':
      return addStepByHand(plan, lastStepNumber, rest.trim(), words);
    case 'undo':
      return withNamedStep(plan, rest, words, ({ id, status }) => refuse(words.notEnded(id, status)));
    default:
      return refuse(words.noSuchVerb(truncate(verb, 40), nearestName(verb, VERBS)));
  }
}

const refuse = (text: string): PlanCommandResult => ({ changes: [], reply: text, isRefused: true });

function refuseTooLong({ length }: string, words: Words): PlanCommandResult | undefined {
  const most = PLAN_BOUNDS.description;
  return length <= most ? undefined : refuse(words.tooLong(most, length));
}

const editResult = (text: string, ...changes: PlanChange[]): PlanCommandResult => ({
  changes,
  reply: text,
});

function withNamedStep(
  plan: Plan,
  rest: string,
  words: Words,
  act: (step: Step, text: string) => PlanCommandResult,
): PlanCommandResult {
  const [, name = '', text = ''] = /^\s*(\S*)\s*([\s\S]*)$/.exec(rest) ?? [];
  const step = name === '' ? undefined : findStep(plan, name);
  if (!step) return refuse(words.noSuchStep(name, plan.steps.map(({ id }) => id).join(', ')));
  return act(step, text.trim());
}

function rewordStep({ id }: Step, text: string, words: Words): PlanCommandResult {
  if (text === '') return refuse(words.rewordNeeds);
  const change: PlanChange = { what: 'step', step: id, set: { description: text }, unset: [] };
  return refuseTooLong(text, words) ?? editResult(words.isNow(id, text), change);
}

function closeStepByHand(step: Step, to: 'completed' | 'skipped', note: string, words: Words) {
  if (step.status === to) return refuse(words.isAlready(step.id, to === 'completed'));
  return editResult(words.closed(step.id, to === 'completed', step.description), {
    what: 'status',
    step: step.id,
    from: step.status,
    to,
    ...(note && { note }),
  });
}

function moveStepByHand(plan: Plan, step: Step, position: number, words: Words): PlanCommandResult {
  if (!Number.isInteger(position) || position < 1 || position > plan.steps.length)
    return refuse(words.moveNeeds(plan.steps.length));
  const others = plan.steps.map((one) => one.id).filter((id) => id !== step.id);
  return editResult(words.moved(step.id, position), {
    what: 'order',
    to: [...others.slice(0, position - 1), step.id, ...others.slice(position - 1)],
  });
}

function addStepByHand(plan: Plan, lastStepNumber: number, rest: string, words: Words): PlanCommandResult {
  const [, after = '', behind = ''] = /^after\s+([^:：]+)[:：]\s*([\s\S]+)$/i.exec(rest) ?? [];
  // "after lunch: eat" is plain text if no step is called lunch.
  const before = findStep(plan, after);
  const text = before ? behind : rest;
  if (text.trim() === '') return refuse(words.addNeeds);
  const unfit = refuseTooLong(text.trim(), words);
  if (unfit) return unfit;
  const step: Step = { id: `step_${lastStepNumber + 1}`, description: text.trim(), status: 'pending' };
  const large = planSizeFault([...plan.steps, step], plan.steps);
  if (large) return refuse(words.tooLarge(large));
  const at = before ? plan.steps.indexOf(before) + 1 : plan.steps.length;
  return editResult(words.added(step.id, step.description), { what: 'added', step, at });
}
