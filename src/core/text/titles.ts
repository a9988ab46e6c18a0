import { truncate } from '../../base/strings.ts';

const INSTRUCTION_WRAPPER =
  /^\s*\[[^\]\n]*\][\s\S]*?(?:用户指令|用戶指令|user(?:'s)? (?:instruction|message))\s*[:：]\s*/i;
/** The task of every child session starts with the same words; the title comes from its step. */
const CHILD_TASK_OPENING =
  /^(?:Do this one step of a larger plan|请完成一个较大计划中的这一个步骤)[^\n]*\n+[^\n:：]*[:：]\s*/;
const POLITE_OPENING =
  /^(?:(?:请|請)?(?:你)?(?:帮我|幫我|帮忙|幫忙|麻烦你?|麻煩你?)\s*|(?:请|請)\s*|(?:please|could you(?: please)?|can you(?: please)?|would you(?: please)?|help me(?: to)?|i(?:'d| would) like you to|i want you to)\s+)/i;

/** A session's title from its first message: the first line without a polite opening. Null if nothing is left. */
export function titleFromMessage(text: string): string | null {
  const content = text.replace(INSTRUCTION_WRAPPER, '').replace(CHILD_TASK_OPENING, '').trim();
  if (content.startsWith('/')) return null;
  const line = content.split('\n').find((one) => one.trim() !== '') ?? '';
  const bare = line
    .trim()
    .replace(/^#+\s*/, '')
    .replace(POLITE_OPENING, '')
    .trim();
  return bare === '' ? null : truncate(bare, 60);
}

const MAX_TITLE_LENGTH = 50;

/** The first line of a goal, cut at the end of a word within 50 characters. */
export function titleFromGoal(goal: string): string {
  const [line = ''] = goal.trim().split('\n');
  const points = [...line];
  if (points.length <= MAX_TITLE_LENGTH) return line;
  const head = points.slice(0, MAX_TITLE_LENGTH).join('');
  const word = points[MAX_TITLE_LENGTH] === ' ' ? head.length : head.lastIndexOf(' ');
  return `${word > MAX_TITLE_LENGTH / 2 ? head.slice(0, word) : head}…`;
}
