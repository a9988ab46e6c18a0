import type { Language } from '../language.ts';

const FORM = `{"title": "…", "steps": [
 {"id": "prepare", "description": "…"},
 {"id": "map", "description": "what is done with one part", "each": {"folder": "work/in", "match": "*.md"}, "on_failed_part": "fail"},
 {"id": "reduce", "description": "how outcomes are put together", "gather": {"from": "map"}},
 {"id": "finish", "description": "…"}]}`;

/** What the planner of a map-reduce plan is asked. */
export const MAP_REDUCE_PLAN: Readonly<Record<Language, string>> = {
  en: `Make the plan for the last message: the same work on many parts, put together at the end. Answer with one JSON object and nothing else:
${FORM}
- The steps run one after the other. "each" makes a step run once for each part, all parts at the same time, each by a worker of its own that sees only its part. One of:
  {"folder": "work/in", "match": "*.md"}: each file in it and below ("match" may be left out); {"file": "work/list.txt"}: each line of the file; {"list": ["…", "…"]}: each entry.
- Where the parts are not there yet, a step before it makes them: files in a folder, or a file with one part a line. Leave it out where they are.
- "gather" makes a step put together what the parts of the step named in "from" came to. Large outcomes come to it in several batches; a step after it joins these where needed.
- "on_failed_part": "fail" where every part matters, "go_on" where the result is worth having without those that failed.
- A step may have "agent" and "done_when" ([{"file": "work/x"}]). Few steps: leave out what is not needed. Write in the language of the message.
- Where no plan is needed (a greeting, a question you can answer), answer {"answer": "the whole answer"}.`,
  zh: `请为最后一条消息制定计划：对许多部分做同样的工作，最后汇总。只回答一个 JSON 对象，不要写别的：
${FORM}
- 步骤依次进行。"each" 让一个步骤对每个部分各做一次，同时进行，每个部分由一个只看得到该部分的执行者完成。可以是：
  {"folder": "work/in", "match": "*.md"}：文件夹及其下的每个文件（"match" 可省略）；{"file": "work/list.txt"}：文件的每一行；{"list": ["…", "…"]}：列表的每一项。
- 如果各部分还不存在，先用一个步骤准备：放在一个文件夹里，或写成每行一个部分的文件。已经存在就不要这个步骤。
- "gather" 让一个步骤汇总 "from" 所指步骤的各部分结果。结果很多时分批进行；需要时用后面的步骤合并各批。
- "on_failed_part"：每个部分都重要时用 "fail"；缺少失败的部分也有价值时用 "go_on"。
- 步骤可以有 "agent" 和 "done_when"（[{"file": "work/x"}]）。步骤要少，不需要的不要写。使用消息的语言。
- 不需要计划时（问候、能直接回答的问题），回答 {"answer": "完整的回答"}。`,
};
