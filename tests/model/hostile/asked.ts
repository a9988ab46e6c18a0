import type { PlannerQuery } from '../../../src/protocol/session/event.ts';
import type { ScriptEntry } from '../../support/openai-server.ts';
import { sessionIn } from './words.ts';

type Body = Parameters<Extract<ScriptEntry, (request: never) => unknown>>[0]['body'];

/** The parts of a request that an answer depends on. */
export type Asked = {
  /** The root session of the family that sent it; undefined if the request has no message of a person. */
  session: string | undefined;
  /** The planner query; null for a normal turn. */
  plannerQuery: PlannerQuery | null;
  /** Whether the requested plan has parts. */
  isParts: boolean;
  tools: string[];
  /** Whether the conversation ends with a tool result. */
  afterTool: boolean;
};

const QUESTIONS: ReadonlyArray<readonly [RegExp, PlannerQuery]> = [
  [/What kind of work|要求的是哪一类工作/, 'choose'],
  [/should the steps that have not begun|还没开始的步骤需要改变/, 'revise'],
  [/Make the plan for the last message|请为最后一条消息制定计划|对许多部分做同样的工作/, 'plan'],
  [/All steps have ended|所有步骤都已结束/, 'summary'],
];

/** Extracts these parts from a request. */
export function readRequest({ messages, tools = [] }: Body): Asked {
  const texts = messages.map(({ content }) => (typeof content === 'string' ? content : JSON.stringify(content ?? '')));
  const last = texts.at(-1) ?? '';
  const question = tools.length === 0 ? QUESTIONS.find(([words]) => words.test(last)) : undefined;
  const roles = messages.slice(0, -1).map(({ role }) => role);
  return {
    session: texts.map(sessionIn).find((name) => name !== undefined),
    plannerQuery: question?.[1] ?? null,
    isParts: /"each"/.test(last),
    tools: tools.map((tool) => tool.function.name),
    afterTool: messages.at(-1)?.role === 'tool' || roles.at(-1) === 'tool',
  };
}
