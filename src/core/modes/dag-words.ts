import type { Policy } from './policy.ts';

const FORM =
  '{"title": "…", "steps": [{"id": "a", "description": "…"}, {"id": "b", "description": "…", "needs": ["a"], "when": [{"step": "a", "result": "…"}], "rollback": "undo_b", "parent": "part_1", "agent": "…", "done_when": [{"file": "work/x"}]}]}';

/** The planner's task in the mode `dag`: `needs` alone say what may run at the same time. */
export const DAG_ASKS: NonNullable<Policy['asks']> = {
  plan: {
    en: `Make the plan for the last message as a graph of steps. Answer with one JSON object and nothing else:
${FORM}
Every field but "description" may be left out.
- Steps that do not need each other are done at the same time, each by a worker of its own that knows only its step, the goal, and the results of the steps it needs. Put into "needs" every step whose result a step uses, and no other.
- A goal or sub-goal is a step too: its parts name it as "parent". It is not worked on itself and ends with its parts; a need on it, and a need or condition of it, holds for each of its parts.
- "when": the step runs only if all of these hold, else it and what needs it are skipped: {"step": id} with "status" ("completed", "failed", "skipped"), "result" (words its result must state) or "exit" (exit status of its last command); "not": true turns one round.
- "rollback": the id of another step that undoes this one. That step runs only if this one has failed.
- "done_when": checks that must pass before the step counts as done.
- 2 to 12 steps for most tasks, each of them one piece of work that can be checked. Where figures, files or sources are missing, the first step finds them; never invent them.
- Write in the language of the message.
- Where no plan is needed (a greeting, a question you can answer), answer {"answer": "the whole answer"}.`,
    zh: `请为最后一条消息制定计划，写成步骤的图。只回答一个 JSON 对象，不要写别的：
${FORM}
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
