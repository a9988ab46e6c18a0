import { firstFew, truncate } from '../../base/strings.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import { RUN_END } from '../../protocol/session/reply.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { REPLY_WORDING } from '../messages/reply-wording.ts';
import { openSteps, runningStep } from '../plan/plan-steps.ts';
import { MAX_CHANGES_AT_ONCE } from '../plan/step-cascade.ts';
import { causeInWords, readySteps } from '../plan/step-readiness.ts';
import { firstPlanAction, summaryAction, wholeTaskStep } from '../planner/planner-queries.ts';
import { isStagnant } from '../session/run-state.ts';
import { activePlan, sessionLanguage } from '../session/session-queries.ts';
import type { RunEndReason, Session } from '../session/session-state.ts';
import type { ModePolicy } from './mode-policy.ts';
import { declaredStepEvents, linear } from './mode-policy.ts';
import { failUnknownAgent, planAct } from './plan-act.ts';

const TODO_PLAN_FORM =
  '{"title": "…", "steps": ["what is to be done", {"id": "a", "description": "…", "needs": ["…"], "agent": "…"}]}';

/** The prompt for the first items. */
const TODO_PLANNER_PROMPTS: NonNullable<ModePolicy['plannerPrompts']> = {
  plan: {
    en: `Begin a todo list for the last message: 1 to 3 first items, no more. Answer with one JSON object and nothing else:
${TODO_PLAN_FORM}
An item is a text, or an object with "description" and, where needed, "id", "needs" (ids of items that must be completed first), "agent".
- The list grows while the work goes on: name only what can be begun with what is known now.
- Where a place, a date, a name or another figure is missing from the message, the first item finds it out or asks the person. Invent no default for it.
- Write in the language of the message.
- Where no work is needed (a greeting, a question you can answer), answer {"answer": "the whole answer"}.`,
    zh: `请为最后一条消息开始一个待办列表：只写 1 到 3 个最先要做的事项。只回答一个 JSON 对象，不要写别的：
${TODO_PLAN_FORM}
事项可以是一段文字，也可以是对象：必须有 "description"，需要时加 "id"、"needs"（必须先完成的事项的 id）、"agent"。
- 列表会随着工作增长：只写凭现有信息就能开始的事项。
- 如果消息里缺少地点、日期、名称或其他参数，第一个事项就是把它查清，或者询问对方。绝不编造默认值。
- 使用消息的语言。
- 不需要做事时（问候、能直接回答的问题），回答 {"answer": "完整的回答"}。`,
  },
};

/** How the list is to be kept, included in the prompt. */
const TODO_WORK_PROMPT: NonNullable<ModePolicy['workPrompt']> = {
  en: 'This plan is a todo list. Work on the current item alone. Work you discover is added with a [Step] line, or with the plan tool (add_step, with "needs"); an item that turns out not to be needed, or is a part of another, is closed with mark_step skipped. Write [Failed: …] and why where an item cannot be done in this way.',
  zh: '这个计划是一个待办列表。只做当前事项。发现新的工作，用 [步骤] 一行或 plan 工具（add_step，可带 "needs"）添加；不再需要的事项，或已并入其他事项的，用 mark_step skipped 关闭。某个事项这样做不成时，写 [失败：原因]。',
};

/**
 * The most open items, and the share of them from which the model is asked to merge or close some (both as in Manus
 * Demo).
 */
const MAX_OPEN_ITEMS = 20;
const MERGE_HINT_SHARE = 0.8;

/**
 * A list that grows during the work: one to three first items, the first ready one is worked on, discovered work is
 * added and unneeded items are closed. A failed item is retried and then blocked, and so is what needs it; on
 * stagnation the run ends with a diagnosis; the final answer reports the failures too.
 */
export const todo: ModePolicy = {
  ...linear,
  about: { use: 'a task whose steps are discovered during the work', workers: 'as above' },
  startsWithWork: false,
  maxAttempts: 3,
  maxOpenSteps: MAX_OPEN_ITEMS,
  mergeHintAt: MAX_OPEN_ITEMS * MERGE_HINT_SHARE,
  firstPlan: { maxTries: 2, maxSteps: 3, fallback: wholeTaskStep },
  declaredSteps: (session, turn) => declaredStepEvents(session, turn, MAX_OPEN_ITEMS),
  chooseStep: (session) => readySteps(session.plan?.steps ?? [])[0],
  isDelegated: planAct.isDelegated,
  plannerPrompts: TODO_PLANNER_PROMPTS,
  workPrompt: TODO_WORK_PROMPT,
  nextAction(session, rules) {
    const first = firstPlanAction(session, rules, todo.firstPlan);
    const plan = activePlan(session);
    // The model is stuck and has asked the person: the run waits, with everything as it is.
    if (first || !plan || session.turn?.isBlocked) return first;
    const again = retryOrBlock(session, plan);
    const events = again ? [again] : blockDependents(session, plan);
    if (events.length > 0) return { record: events.slice(0, MAX_CHANGES_AT_ONCE) };
    if (openSteps(plan).length > 0 && isStagnant(session.workRounds))
      return { endRun: stagnationEnd(session, plan, rules) };
    return failUnknownAgent(session, rules, todo.chooseStep(session)) ?? summaryAction(session, rules);
  },
};

/** A failed item is retried while it has attempts left, then blocked. What a person marked as failed stays so. */
function retryOrBlock({ editedByPerson }: Session, plan: Plan): EventBody | null {
  const failed = plan.steps.find((step) => step.status === 'failed' && !editedByPerson.includes(`${step.id}:status`));
  if (!failed) return null;
  if ((failed.attempts ?? 1) < maxAttemptsOf(plan, failed))
    return { type: 'step.reopened', step: failed.id, by: 'daemon' };
  return { type: 'step.blocked', step: failed.id, error: failed.error ?? '', by: 'daemon' };
}

/** The single item of a list that was never planned gets one attempt: a second one would find no better plan. */
const maxAttemptsOf = (plan: Plan, { id }: Step): number => (plan.unplanned && id === 'step_1' ? 1 : todo.maxAttempts);

/**
 * Items that need one that will never be completed are never started, nor those that need them in turn. What a person
 * holds back may still be done: what needs it waits.
 */
function blockDependents({ editedByPerson }: Session, { steps }: Plan): EventBody[] {
  const isHeldBack = ({ id, status }: Step) => status === 'blocked' && editedByPerson.includes(`${id}:status`);
  const lost = new Map(
    steps.flatMap((step) =>
      (step.status === 'blocked' || step.status === 'failed') && !isHeldBack(step) ? [[step.id, step.status]] : [],
    ),
  );
  return steps.flatMap(({ id, status, needs = [] }): EventBody[] => {
    const need = status === 'pending' ? needs.find((one) => lost.has(one)) : undefined;
    if (need === undefined) return [];
    const { reason, because } = causeInWords({ relation: 'needs', step: need, detail: `, which is ${lost.get(need)}` });
    lost.set(id, 'blocked');
    return [{ type: 'step.blocked', step: id, error: reason, because, by: 'daemon' }];
  });
}

/** How many attempts at the current item are named. */
const MAX_TRIED_SHOWN = 3;

/** Ends the run on stagnation: names the open items and the latest attempts. */
function stagnationEnd(session: Session, plan: Plan, rules: Rules): RunEndReason {
  const words = REPLY_WORDING[sessionLanguage(session, rules)];
  const items = openSteps(plan).map((step) =>
    words.stillOpen(
      truncate(step.description, 300),
      step.attempts ?? 1,
      step.iterations ?? 0,
      lastTriesOf(session, plan, step),
    ),
  );
  return {
    status: 'paused',
    reason: RUN_END.stagnation,
    text: [words.stagnation(session.workRounds.idleRounds), ...firstFew(items)].join('\n'),
  };
}

/** The last calls in an item, and the errors of its earlier attempts. */
function lastTriesOf({ stepHistory, turn }: Session, plan: Plan, step: Step): string {
  const calls = [
    ...stepHistory.flatMap((trace) => trace.tools.map((name, n) => `${name} ${trace.args[n] ?? ''}`)),
    ...(turn?.calls ?? []).map((call) => `${call.name} ${call.mainArgument}`),
  ].map((call) => truncate(call.replace(/\s+/g, ' ').trim(), 100));
  const own = runningStep(plan)?.id === step.id ? [...new Set(calls)].slice(-MAX_TRIED_SHOWN) : [];
  return [...own, ...(step.error ? [truncate(step.error, 200)] : [])].join('; ');
}
