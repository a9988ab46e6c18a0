import type { PlannerQuery } from '../../protocol/session/event.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import { indentContinuation } from '../../protocol/session/prompt-tags.ts';
import type { AgentProfile } from '../../protocol/settings/config.ts';
import type { Language, Rules } from '../../protocol/settings/effective-settings.ts';
import { currentPolicy } from '../modes/mode-choice.ts';
import { MAX_PLAN_STEPS } from '../planner/plan-proposal.ts';
import { lastRevision } from '../planner/plan-revision.ts';
import { readFirstPlan } from '../planner/planner-queries.ts';
import type { ChatMessage } from '../session/session-messages.ts';
import { activePlan } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';
import { MODEL_WORDING } from './model-wording.ts';
import { stepLines } from './status-block.ts';

/** The last message of a planner query: the question, the current state, and what was wrong with the last answer. */
export function plannerQueryBlock(session: Session, rules: Rules, ask: PlannerQuery, language: Language): string {
  const words = PLANNER_WORDING[language];
  const plan = activePlan(session);
  const lines = [
    currentPolicy(session).plannerPrompts?.[ask]?.[language] ?? words[ask],
    ...(ask === 'summary' || ask === 'choose' ? [] : agentLines(rules.agents, language)),
    ...(plan ? [`${words.goal}: ${indentContinuation(plan.goal)}`, ...stepLines(plan, MODEL_WORDING[language])] : []),
    ...(plan && ask === 'revise' ? changeableSteps(plan, language) : []),
    ...faultLines(session, rules, ask, language),
  ];
  return lines.join('\n');
}

function agentLines(agents: Readonly<Record<string, AgentProfile>>, language: Language): string[] {
  const names = Object.entries(agents);
  if (names.length === 0) return [];
  const words = PLANNER_WORDING[language];
  return [words.agents, ...names.map(([name, { description = '' }]) => `- [${name}] ${description}`)];
}

/** What may be changed, with everything a change may touch. */
function changeableSteps({ steps }: Plan, language: Language): string[] {
  const pending = steps.filter((step) => step.status === 'pending');
  const whole = ({ id, description, needs, when, rollback, parent, agent, done_when }: Step) =>
    JSON.stringify({ id, description, needs, when, rollback, parent, agent, done_when });
  const shown = pending.slice(0, MAX_PLAN_STEPS);
  return [PLANNER_WORDING[language].changeable, ...shown.map((step) => `- ${whole(step)}`)];
}

function faultLines(session: Session, rules: Rules, ask: PlannerQuery, language: Language): string[] {
  const read =
    ask === 'revise'
      ? lastRevision(session, rules)
      : ask === 'plan'
        ? readFirstPlan(session, rules, currentPolicy(session).firstPlan)
        : null;
  return read?.is === 'fault' ? [PLANNER_WORDING[language].fault(indentContinuation(read.why))] : [];
}

/**
 * The system message of a planner query: the planner plans and calls nothing; classifying the work needs no more than
 * this.
 */
export function plannerSystemMessage(
  ask: PlannerQuery,
  language: Language,
  date: string,
  instructions: string,
): ChatMessage {
  const words = PLANNER_WORDING[language];
  const { marks } = MODEL_WORDING[language];
  if (ask === 'choose') return { role: 'system', content: `${words.sorter}\n${marks}` };
  return { role: 'system', content: [`${words.system(date)}\n${marks}`, instructions].filter(Boolean).join('\n\n') };
}

const PLAN_FORM =
  '{"title": "…", "steps": ["what is to be done", {"id": "a", "description": "…", "needs": ["…"], "agent": "…", "done_when": [{"file": "work/x"}]}]}';

const REVISION_FORM =
  '{"remove": ["id"], "change": [{"id": "…", "description": "…", "needs": ["…"]}], "add": ["what is to be done", {"id": "a", "description": "…", "needs": ["…"], "agent": "…", "done_when": [{"file": "work/x"}]}], "reason": "…"}';

const en = {
  system: (date: string) =>
    `You are the planner of agentd, an agent that carries out tasks with tools. You call no tool and do no step yourself. The date is ${date}.`,
  sorter: 'You say for agentd what kind of work a message asks for. You call no tool and do none of the work yourself.',
  choose: `What kind of work does the last message ask for? Answer with one of these words, or with {"choice": "…", "reason": "…"}, and nothing else:
- simple: talk, a question, or one piece of work
- complex: several steps, one after another, that can be named now
- branching: several steps that can be named now, some at the same time or only on a condition
- emergent: the steps can only be found on the way (research, finding a cause)
- parts: the same work on many parts of one kind, put together at the end`,
  plan: `Make the plan for the last message. Answer with one JSON object and nothing else:
${PLAN_FORM}
A step is a text, or an object with "description" and, where needed, "id", "needs" (ids), "agent", "done_when".
- 3 to 5 steps for most tasks, one where it cannot be split; each of them one piece of work that can be checked.
- No step that only says "check whether it is needed"; assume the likely and say so in the step.
- Where a step leaves a file or a command can show that it worked, write "done_when": it is checked. Forms: {"file": "work/x", "matches": "…"}, {"command": "npm test"}, {"url": "…"}.
- Where figures, files or sources are missing, the first step finds them; never invent them.
- Write in the language of the message.
- Where no plan is needed (a greeting, a question you can answer), answer {"answer": "the whole answer"}.`,
  revise: `Look at the results of the plan so far: should the steps that have not begun be different? Answer with one JSON object and nothing else. Where the plan still leads to the goal: {"keep": true}. Else:
${REVISION_FORM}
Leave out what does not apply. Only steps that have not begun can be removed or changed. "change" gives new values (null removes one); "add" has new steps, which come before those that have not begun. Steps that failed or were skipped stay so: add others in their place if the goal can still be reached, else remove what is left. What needs a step that failed, was skipped or is removed is skipped, unless you change its "needs".`,
  changeable: 'Steps that have not begun, whole:',
  summary:
    'All steps have ended. Answer the person now: what came out of the task, with the figures and file names of the results below, and what did not work, if anything. No tool, no JSON.',
  agents: 'Agents; a step beginning with one of these tags is done by that agent:',
  goal: 'Goal',
  fault: (why: string) => `Your last answer could not be used: ${why}. Answer again, in that form.`,
};

const zh: typeof en = {
  system: (date) =>
    `你是 agentd 的规划者；agentd 是一个用工具完成任务的智能体。你不调用工具，也不亲自做步骤。今天是 ${date}。`,
  sorter: '你替 agentd 判断一条消息要求的是哪一类工作。你不调用工具，也不做其中的任何工作。',
  choose: `最后一条消息要求的是哪一类工作？只回答下面的一个英文词，或 {"choice": "…", "reason": "…"}，不要写别的：
- simple：闲聊、提问，或一件事
- complex：现在就能说出的、一个接一个的几个步骤
- branching：现在就能说出的几个步骤，其中有的可以同时做，或取决于某个条件
- emergent：步骤要在过程中才能发现（调研、查找原因）
- parts：对许多同类的部分做同样的事，最后汇总`,
  plan: `请为最后一条消息制定计划。只回答一个 JSON 对象，不要写别的：
${PLAN_FORM}
步骤可以是一段文字，也可以是对象：必须有 "description"，需要时加 "id"、"needs"（步骤的 id）、"agent"、"done_when"。
- 多数任务 3 到 5 步，不能再分的任务一步；每一步都是可以检查的一件事。
- 不要写“看看是否需要”这样的步骤；按最可能的情况假设，并写在步骤里。
- 步骤会留下文件，或有命令能证明它成功时，请写 "done_when"，它会被检查。写法：{"file": "work/x", "matches": "…"}、{"command": "npm test"}、{"url": "…"}。
- 缺少数据、文件或来源时，第一步先去找；绝不编造。
- 使用消息的语言。
- 不需要计划时（问候、能直接回答的问题），回答 {"answer": "完整的回答"}。`,
  revise: `请看计划到目前为止的结果：还没开始的步骤需要改变吗？只回答一个 JSON 对象，不要写别的。如果计划仍能达到目标：{"keep": true}。否则：
${REVISION_FORM}
用不到的字段可以省略。只能删除或修改还没开始的步骤。"change" 给出新的值（null 表示去掉）；"add" 是新的步骤，排在还没开始的步骤之前。失败或跳过的步骤不再改变：如果目标仍能达到，请添加替代的步骤，否则请删除剩下的步骤。需要已失败、已跳过或被删步骤的步骤会跳过，除非你修改它的 "needs"。`,
  changeable: '还没开始的步骤（完整内容）：',
  summary:
    '所有步骤都已结束。现在请回答对方：任务的结果，包括下面结果中的数字和文件名；如有没做成的，也要说明。不要用工具，不要写 JSON。',
  agents: '可用的智能体；以其标签开头的步骤由它完成：',
  goal: '目标',
  fault: (why) => `上一个回答不能使用：${why}。请按格式重新回答。`,
};

/** The daemon's words to the planner. */
const PLANNER_WORDING: Record<Language, typeof en> = { en, zh };
