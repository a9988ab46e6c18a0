import { clip } from '../protocol/recorded.ts';

const WRAPPER = /^\s*\[[^\]\n]*\][\s\S]*?(?:用户指令|用戶指令|user(?:'s)? (?:instruction|message))\s*[:：]\s*/i;
/** What a parent tells a child session begins with the same words for all of them; its step is what it is about. */
const GIVEN = /^(?:Do this one step of a larger plan|请完成一个较大计划中的这一个步骤)[^\n]*\n+[^\n:：]*[:：]\s*/;
const POLITE =
  /^(?:(?:请|請)?(?:你)?(?:帮我|幫我|帮忙|幫忙|麻烦你?|麻煩你?)\s*|(?:请|請)\s*|(?:please|could you(?: please)?|can you(?: please)?|would you(?: please)?|help me(?: to)?|i(?:'d| would) like you to|i want you to)\s+)/i;

/** A session's title from what was said first: its first line without polite beginnings. Null where that leaves nothing. */
export function titleOf(text: string): string | null {
  const said = text.replace(WRAPPER, '').replace(GIVEN, '').trim();
  if (said.startsWith('/')) return null;
  const line = said.split('\n').find((one) => one.trim() !== '') ?? '';
  const bare = line
    .trim()
    .replace(/^#+\s*/, '')
    .replace(POLITE, '')
    .trim();
  return bare === '' ? null : clip(bare, 60);
}
