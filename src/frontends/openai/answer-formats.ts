import { truncate } from '../../base/strings.ts';
import type { Reply } from '../../protocol/session/reply.ts';
import type { AnswerPiece, WholeAnswer } from './follow-answer.ts';
import { secondsNow } from './openai-answer.ts';

/** The fields that every completion object begins with. `created`: Unix seconds. */
export type CompletionHead = { id: string; created: number; model: string };

/**
 * A run that pauses, at a limit too, is a whole answer that says how to go on: clients take anything else for an error,
 * or for an answer that was too long for a model.
 */
const FINISHED = 'stop';

/** How the run ended, for clients that want to know. */
const endOf = (reply: Reply | undefined): object =>
  reply ? { agentd: { status: reply.status, reason: reply.reason ?? null } } : {};

/** The event log has one token count per run; it is reported as prompt tokens. */
const usageOf = (reply: Reply | undefined): object => {
  const tokens = reply?.usage?.tokens ?? 0;
  return { prompt_tokens: tokens, completion_tokens: 0, total_tokens: tokens };
};

/** The body of an answer that is not streamed. */
export function chatCompletion(head: CompletionHead, { reply, text, activity }: WholeAnswer): object {
  const reasoning = activity.length > 0 && { reasoning_content: `${activity.join('\n')}\n` };
  const message = { role: 'assistant', content: text, refusal: null, ...reasoning };
  return {
    ...head,
    object: 'chat.completion',
    choices: [{ index: 0, message, finish_reason: FINISHED, logprobs: null }],
    usage: usageOf(reply),
    ...endOf(reply),
  };
}

/** The same answer as a stream: text as `content`, the agent's activity as `reasoning_content`. */
export async function* chatFrames(
  head: CompletionHead,
  pieces: AsyncGenerator<AnswerPiece, Reply>,
  { usage }: { usage: boolean },
): AsyncGenerator<string> {
  const chunk = (rest: object) => `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', ...rest })}\n\n`;
  const delta = (delta: object, finish_reason: string | null = null, rest: object = {}) =>
    chunk({ choices: [{ index: 0, delta, finish_reason, logprobs: null }], ...rest });
  yield delta({ role: 'assistant', content: '' });
  for (;;) {
    const { done, value } = await pieces.next();
    if (done) {
      yield delta({}, FINISHED, endOf(value));
      if (usage) yield chunk({ choices: [], usage: usageOf(value) });
      yield 'data: [DONE]\n\n';
      return;
    }
    if (value.is === 'silence') yield KEEP_ALIVE;
    else yield delta(value.is === 'text' ? { content: value.text } : { reasoning_content: `${value.text}\n` });
  }
}

/** An SSE comment, which clients of both APIs ignore. */
const KEEP_ALIVE = ': keepalive\n\n';

/** The fields of a response that do not depend on how its run ended. `created`: Unix seconds. */
export type ResponseHead = {
  id: string;
  created: number;
  model: string;
  previous: string | null;
  metadata: Record<string, string>;
  background: boolean;
};

const ID_PREFIX = 'resp_';

/** The message that a response id encodes, so that no table of responses is needed. */
export type AnsweredMessage = { session: string; message: string };

export const responseIdOf = ({ session, message }: AnsweredMessage): string =>
  ID_PREFIX + Buffer.from(`${message}/${session}`).toString('base64url');

/** Returns undefined for an id that this server did not issue. */
export function parseResponseId(id: string): AnsweredMessage | undefined {
  if (!id.startsWith(ID_PREFIX)) return undefined;
  const text = Buffer.from(id.slice(ID_PREFIX.length), 'base64url').toString();
  const [, message, session] = /^(chat-[\w-]+)\/([^/]+)$/.exec(text) ?? [];
  return message === undefined || session === undefined ? undefined : { session, message };
}

type ReasoningItem = { id: string; type: 'reasoning'; summary: Array<{ type: 'summary_text'; text: string }> };
type TextItem = { id: string; type: 'message'; status: string; role: 'assistant'; content: object[] };
type OutputItem = ReasoningItem | TextItem;

const textPart = (text: string): object => ({ type: 'output_text', text, annotations: [], logprobs: [] });

const textItem = (id: string, text: string): TextItem => ({
  ...{ id, type: 'message', role: 'assistant', status: 'completed' },
  content: [textPart(text)],
});

const reasoningItem = (id: string, text: string): ReasoningItem => ({
  ...{ id, type: 'reasoning', summary: [{ type: 'summary_text', text }] },
});

/** The body of an answer that is not streamed, and of `GET /v1/responses/{id}`. */
export function wholeResponse(head: ResponseHead, { reply, text, activity }: WholeAnswer): object {
  const done = activity.length === 0 ? [] : [reasoningItem(`rs_${head.id}_0`, activity.join('\n'))];
  const message = text === '' ? [] : [textItem(`msg_${head.id}_${done.length}`, text)];
  return responseObject(head, [...done, ...message], reply);
}

/** Without `reply`, the run is still in progress. The event log has one token count per run, reported as input. */
function responseObject(
  { id, created, model, previous, metadata, background }: ResponseHead,
  output: OutputItem[],
  reply: Reply | undefined,
) {
  const tokens = reply?.usage?.tokens ?? 0;
  const usage = {
    ...{ input_tokens: tokens, output_tokens: 0, total_tokens: tokens },
    input_tokens_details: { cached_tokens: 0 },
    output_tokens_details: { reasoning_tokens: 0 },
  };
  const end: Record<string, string> = reply
    ? { agentd_status: reply.status, ...(reply.reason !== undefined && { agentd_reason: truncate(reply.reason, 500) }) }
    : {};
  return {
    ...{ id, object: 'response', created_at: created, completed_at: reply ? secondsNow() : null, model },
    ...{ output, metadata: { ...metadata, ...end }, previous_response_id: previous, background, store: true },
    status: reply === undefined ? 'in_progress' : 'completed',
    incomplete_details: null,
    usage: reply ? usage : null,
    ...{ error: null, instructions: null, max_output_tokens: null, max_tool_calls: null, parallel_tool_calls: true },
    ...{ text: { format: { type: 'text' } }, tool_choice: 'auto', tools: [], truncation: 'disabled' },
    ...{ temperature: 1, top_p: 1, presence_penalty: 0, frequency_penalty: 0, top_logprobs: 0 },
    ...{ reasoning: { effort: null, summary: null }, service_tier: 'default', safety_identifier: null },
    prompt_cache_key: null,
  };
}

/** The same as a stream: the agent's activity as `reasoning` items, one per step, and its text as `message` items. */
export async function* responseFrames(
  head: ResponseHead,
  pieces: AsyncGenerator<AnswerPiece, Reply>,
): AsyncGenerator<string> {
  let number = 0;
  const event = (type: string, rest: object) =>
    `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: number++, ...rest })}\n\n`;
  const output = openOutput(head, event);
  yield event('response.created', { response: responseObject(head, [], undefined) });
  yield event('response.in_progress', { response: responseObject(head, [], undefined) });
  for (;;) {
    const { done, value } = await pieces.next();
    if (done) {
      yield* output.close();
      const response = responseObject(head, output.items, value);
      yield event(`response.${response.status}`, { response });
      return;
    }
    if (value.is === 'silence') yield KEEP_ALIVE;
    else yield* value.is === 'text' ? output.text(value.text) : output.activity(value);
  }
}

/** Builds the output items of a response and the stream events that announce them. */
function openOutput(head: ResponseHead, event: (type: string, rest: object) => string) {
  const items: OutputItem[] = [];
  let open: { is: 'reasoning' | 'message'; id: string; text: string } | undefined;
  const at = (place: object) => ({ item_id: open?.id, output_index: items.length, ...place });

  function* begin(is: 'reasoning' | 'message'): Generator<string> {
    yield* close();
    const id = `${is === 'message' ? 'msg' : 'rs'}_${head.id}_${items.length}`;
    open = { is, id, text: '' };
    const isMessage = is === 'message';
    const item = isMessage
      ? { ...textItem(id, ''), status: 'in_progress', content: [] }
      : { id, type: is, summary: [] };
    yield event('response.output_item.added', { output_index: items.length, item });
    yield isMessage
      ? event('response.content_part.added', at({ content_index: 0, part: textPart('') }))
      : event(
          'response.reasoning_summary_part.added',
          at({ summary_index: 0, part: { type: 'summary_text', text: '' } }),
        );
  }

  function* close(): Generator<string> {
    if (!open) return;
    const { is, id, text } = open;
    const item: OutputItem = is === 'message' ? textItem(id, text) : reasoningItem(id, text);
    if (is === 'message') {
      yield event('response.output_text.done', at({ content_index: 0, text, logprobs: [] }));
      yield event('response.content_part.done', at({ content_index: 0, part: textPart(text) }));
    } else {
      yield event('response.reasoning_summary_text.done', at({ summary_index: 0, text }));
      yield event(
        'response.reasoning_summary_part.done',
        at({ summary_index: 0, part: { type: 'summary_text', text } }),
      );
    }
    yield event('response.output_item.done', { output_index: items.length, item });
    items.push(item);
    open = undefined;
  }

  return {
    items,
    close,
    *text(delta: string): Generator<string> {
      if (open?.is !== 'message') yield* begin('message');
      if (open) open.text += delta;
      yield event('response.output_text.delta', at({ content_index: 0, delta, logprobs: [] }));
    },
    *activity({ text, begins }: Extract<AnswerPiece, { is: 'activity' }>): Generator<string> {
      if (open?.is !== 'reasoning' || begins) yield* begin('reasoning');
      const delta = `${open?.text === '' ? '' : '\n'}${text}`;
      if (open) open.text += delta;
      yield event('response.reasoning_summary_text.delta', at({ summary_index: 0, delta }));
    },
  };
}
