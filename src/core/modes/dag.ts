import { firstFew } from '../../base/strings.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import { RUN_END } from '../../protocol/session/reply.ts';
import type { Language, Rules } from '../../protocol/settings/effective-settings.ts';
import { REPLY_WORDING } from '../messages/reply-wording.ts';
import { openSteps } from '../plan/plan-steps.ts';
import { cascadeEvents } from '../plan/step-cascade.ts';
import { dependencyNodes, findCycle, isGroup, rollbackStepAround, stepGraph } from '../plan/step-graph.ts';
import { readySteps } from '../plan/step-readiness.ts';
import { revisionAction } from '../planner/plan-revision.ts';
import {
  blockedRunEnd,
  DEFAULT_FIRST_PLAN,
  type FirstPlanRules,
  fallbackSteps,
  firstPlanAction,
  type ModeAction,
  summaryAction,
} from '../planner/planner-queries.ts';
import { activePlan, sessionLanguage } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';
import type { ModePolicy } from './mode-policy.ts';
import { linear } from './mode-policy.ts';

const DAG_PLAN_FORM =
  '{"title": "…", "steps": [{"id": "a", "description": "…"}, {"id": "b", "description": "…", "needs": ["a"], "when": [{"step": "a", "result": "…"}], "rollback": "undo_b", "parent": "part_1", "agent": "…", "done_when": [{"file": "work/x"}]}]}';

/** The planner's task in mode `dag`: only `needs` determine what may run at the same time. */
const DAG_PLANNER_PROMPTS: NonNullable<ModePolicy['plannerPrompts']> = {
  plan: {
    en: `Make the plan for the last message as a graph of steps. Answer with one JSON object and nothing else:
${DAG_PLAN_FORM}
Every field but "description" may be left out.
- Steps that do not need each other are done at the same time, each by a worker of its own that knows only its step, the goal, and the results of the steps it needs. Put into "needs" every step whose result a step uses, and no other.
- A goal or sub-goal is a step too: its parts name it as "parent". It is not worked on itself and ends with its parts; a need on it, and a need or condition of it, holds for each of its parts.
- "when": the step runs only if all of these hold, else it and what needs it are skipped: {"step": id} with "status" ("completed", "failed", "skipped"), "result" (words its result must state) or "exit" (exit status of its last command); "not": true inverts one.
- "rollback": the id of another step that undoes this one. That step runs only if this one has failed.
- "done_when": checks that must pass before the step counts as done.
- 2 to 12 steps for most tasks, each of them one piece of work that can be checked. Where figures, files or sources are missing, the first step finds them; never invent them.
- Write in the language of the message.
- Where no plan is needed (a greeting, a question you can answer), answer {"answer": "the whole answer"}.`,
    zh: `请为最后一条消息制定计划，写成步骤的图。只回答一个 JSON 对象，不要写别的：
${DAG_PLAN_FORM}
除 "description" 外，其他字段都可以省略。
- 互不需要的步骤会同时进行，各由一个执行者完成；执行者只知道自己的步骤、目标，以及它所需要的步骤的结果。步骤用到谁的结果，就把谁写进 "needs"，不要多写。
- 目标或子目标也是步骤：它的各部分用 "parent" 指向它。它本身不执行，随各部分结束；对它的需要，以及它自己的需要和条件，对其中每一部分都有效。
- "when"：全部成立才执行，否则它和需要它的步骤都会跳过。写法：{"step": id}，加上 "status"（"completed"、"failed"、"skipped"）、"result"（结果里必须说到的话）或 "exit"（最后一条命令的退出码）；"not": true 表示相反。
- "rollback"：用来撤销本步骤的另一个步骤的 id。只有本步骤失败后它才会执行。
- "done_when"：步骤算作完成之前必须通过的检查。
- 多数任务 2 到 12 个步骤，每一步都是可以检查的一件事。缺少数据、文件或来源时，第一步先去找；绝不编造。
- 使用消息的语言。
- 不需要计划时（问候、能直接回答的问题），回答 {"answer": "完整的回答"}。`,
  },
};

/**
 * How often the planner is asked between super-steps, per plan: each super-step costs several calls, so this adds few.
 */
const MAX_REVISIONS = 5;

const DAG_FIRST_PLAN: FirstPlanRules = { ...DEFAULT_FIRST_PLAN, fallback: (language) => sequentialFallback(language) };

/**
 * The plan as a graph: all ready steps run together as a super-step, each in a child session; the next one starts when
 * all of them have ended. Conditions, rollback steps, groups and revision are as in Manus Demo, without its faults.
 */
export const dag: ModePolicy = {
  ...linear,
  about: {
    use: 'parallel parts, branches, steps to undo after a failure',
    workers: 'child sessions, all that are ready at once',
  },
  startsWithWork: false,
  runsInParallel: true,
  declaredSteps: () => [],
  chooseStep: (session) => readySteps(session.plan?.steps ?? [])[0],
  isDelegated: () => true,
  nextAction: (session, rules) =>
    firstPlanAction(session, rules, DAG_FIRST_PLAN) ??
    cascadeAction(session) ??
    revisionAction(session, rules, { most: MAX_REVISIONS, cause: isReviewDue(session) ? '' : null }) ??
    strandedAction(session, rules) ??
    summaryAction(session, rules),
  plannerPrompts: DAG_PLANNER_PROMPTS,
  firstPlan: DAG_FIRST_PLAN,
};

/** Three plain steps form a sequence; without needs they would run at once. */
function sequentialFallback(language: Language): Step[] {
  return fallbackSteps(language).map((step, n, all) => ({ ...step, ...(n > 0 && { needs: [all[n - 1]?.id ?? ''] }) }));
}

function cascadeAction(session: Session): ModeAction | null {
  const plan = activePlan(session);
  const events = plan ? cascadeEvents(plan, session.replacedSteps) : [];
  return events.length > 0 ? { record: events } : null;
}

/**
 * Between super-steps, when something is done, some steps have not started and nothing runs: after the first one, when
 * the first facts come in, and after each one in which a step failed or was left out. A rollback that was not needed is
 * no news.
 */
function isReviewDue(session: Session): boolean {
  const { revisions, reviewedSteps } = session;
  const { steps } = activePlan(session) ?? { steps: [] };
  const worked = steps.filter((step) => !isGroup(steps, step.id));
  const has = (status: Step['status']) => worked.some((step) => step.status === status);
  if (!has('completed') || !has('pending') || has('running') || isRollingBack(session)) return false;
  const { rollbackTargets } = stepGraph(steps);
  const turned = steps.filter((step) => step.status === 'failed' || step.status === 'skipped');
  return revisions === 0 || turned.some(({ id }) => !reviewedSteps.includes(id) && !rollbackTargets.has(id));
}

/** A failed step is rolled back before anything is planned on top of it. */
function isRollingBack(session: Session): boolean {
  const { steps } = activePlan(session) ?? { steps: [] };
  return readySteps(steps).some((step) => rollbackStepAround(step, stepGraph(steps)) !== undefined);
}

/** Steps are open, and none of them can start without a person: they have to decide. */
function strandedAction(session: Session, rules: Rules): ModeAction | null {
  const plan = activePlan(session);
  if (!plan || openSteps(plan).length === 0 || readySteps(plan.steps).length > 0) return null;
  if (plan.steps.some((step) => step.status === 'running' && !isGroup(plan.steps, step.id))) return null;
  const words = REPLY_WORDING[sessionLanguage(session, rules)];
  const blocked = plan.steps.filter((step) => step.status === 'blocked');
  if (blocked.length > 0) return { endRun: blockedRunEnd(blocked) };
  if (openSteps(plan).every((step) => isGroup(plan.steps, step.id))) return null;
  return { endRun: { status: 'waiting', reason: RUN_END.stuck, text: words.stranded(describeDeadlock(plan)) } };
}

/** The steps that wait for each other, else all waiting steps. */
const describeDeadlock = (plan: Plan): string =>
  firstFew(findCycle(dependencyNodes(plan.steps)) ?? openSteps(plan).map((step) => step.id)).join(' → ');
