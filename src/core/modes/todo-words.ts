import type { Policy } from './policy.ts';

const FORM =
  '{"title": "…", "steps": ["what is to be done", {"id": "a", "description": "…", "needs": ["…"], "agent": "…"}]}';

/** How the first items are asked for. */
export const TODO_ASKS: NonNullable<Policy['asks']> = {
  plan: {
    en: `Begin a todo list for the last message: 1 to 3 first items, no more. Answer with one JSON object and nothing else:
${FORM}
An item is a text, or an object with "description" and, where needed, "id", "needs" (ids of items that must be completed first), "agent".
- The list grows while the work goes on: name only what can be begun with what is known now.
- Where a place, a date, a name or another figure is missing from the message, the first item finds it out or asks the person. Invent no default for it.
- Write in the language of the message.
- Where no work is needed (a greeting, a question you can answer), answer {"answer": "the whole answer"}.`,
    zh: `请为最后一条消息开始一个待办列表：只写 1 到 3 个最先要做的事项。只回答一个 JSON 对象，不要写别的：
${FORM}
事项可以是一段文字，也可以是对象：必须有 "description"，需要时加 "id"、"needs"（必须先完成的事项的 id）、"agent"。
- 列表会随着工作增长：只写凭现有信息就能开始的事项。
- 如果消息里缺少地点、日期、名称或其他参数，第一个事项就是把它查清，或者询问对方。绝不编造默认值。
- 使用消息的语言。
- 不需要做事时（问候、能直接回答的问题），回答 {"answer": "完整的回答"}。`,
  },
};

/** How the list is kept, told with it. */
export const TODO_TELLS: NonNullable<Policy['tells']> = {
  en: 'This plan is a todo list. Work on the current item alone. Work you discover is added with a [Step] line, or with the plan tool (add_step, with "needs"); an item that turns out not to be needed, or is a part of another, is closed with mark_step skipped. Write [Failed: …] and why where an item cannot be done in this way.',
  zh: '这个计划是一个待办列表。只做当前事项。发现新的工作，用 [步骤] 一行或 plan 工具（add_step，可带 "needs"）添加；不再需要的事项，或已并入其他事项的，用 mark_step skipped 关闭。某个事项这样做不成时，写 [失败：原因]。',
};
