import type { Reply } from '../../protocol/session/reply.ts';
import type { AnswerPiece, WholeAnswer } from './follow-answer.ts';
import { isCutShort } from './openai-answer.ts';

/** What every object about one completion begins with. `created`: Unix seconds. */
export type CompletionHead = { id: string; created: number; model: string };

const finishReason = (reply: Reply | undefined): string => (reply && isCutShort(reply) ? 'length' : 'stop');

/** The event log counts all tokens of a run together; they are reported as those of the prompt. */
const usageOf = (reply: Reply | undefined): object => {
  const tokens = reply?.usage?.tokens ?? 0;
  return { prompt_tokens: tokens, completion_tokens: 0, total_tokens: tokens };
};

/** The answer to a request that is not streamed. */
export function chatCompletion(head: CompletionHead, { reply, text, activity }: WholeAnswer): object {
  const reasoning = activity.length > 0 && { reasoning_content: `${activity.join('\n')}\n` };
  const message = { role: 'assistant', content: text, refusal: null, ...reasoning };
  return {
    ...head,
    object: 'chat.completion',
    choices: [{ index: 0, message, finish_reason: finishReason(reply), logprobs: null }],
    usage: usageOf(reply),
  };
}

/** The same as a stream: text as `content`, what the agent does as `reasoning_content`. */
export async function* chatFrames(
  head: CompletionHead,
  pieces: AsyncGenerator<AnswerPiece, Reply>,
  { usage }: { usage: boolean },
): AsyncGenerator<string> {
  const chunk = (rest: object) => `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', ...rest })}\n\n`;
  const delta = (delta: object, finish_reason: string | null = null) =>
    chunk({ choices: [{ index: 0, delta, finish_reason, logprobs: null }] });
  yield delta({ role: 'assistant', content: '' });
  for (;;) {
    const { done, value } = await pieces.next();
    if (done) {
      yield delta({}, finishReason(value));
      if (usage) yield chunk({ choices: [], usage: usageOf(value) });
      yield 'data: [DONE]\n\n';
      return;
    }
    if (value.is === 'silence') yield KEEP_ALIVE;
    else if (value.is !== 'event')
      yield delta(value.is === 'text' ? { content: value.text } : { reasoning_content: `${value.text}\n` });
  }
}

/** A comment: clients of either API pass over it. */
export const KEEP_ALIVE = ': keepalive\n\n';
