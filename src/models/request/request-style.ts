import { z } from 'zod';
import type { ChatMessage, ModelRequest } from '../../engine/ports/session-ports.ts';
import { EndpointRefusal } from '../answer/endpoint-errors.ts';
import { MessageStyle } from './wire-messages.ts';

/** The style of requests that an endpoint accepts for a model. Learned from refusals. */
export const RequestStyle = MessageStyle.extend({
  /** Whether `stream_options` requests the token usage. */
  usage: z.boolean(),
  /** Whether roles must alternate, so that consecutive user messages are joined. */
  alternates: z.boolean(),
  /** Whether there is a system role. */
  hasSystem: z.boolean(),
  /** How much of JSON Schema the tools use. */
  schemas: z.enum(['plain', 'reduced']),
  /** Which of OpenAI's two APIs it speaks. */
  api: z.enum(['chat', 'responses']),
});
export type RequestStyle = z.infer<typeof RequestStyle>;

export const FIRST_STYLE: RequestStyle = {
  ...{ usage: true, fields: 'as they came', ids: 'as they came', empty: 'as it came' },
  ...{ alternates: false, hasSystem: true, schemas: 'plain', api: 'chat' },
};

/** Everything that is refused somewhere is left out or replaced. */
export const carefulStyle = (style: RequestStyle): RequestStyle => ({
  ...style,
  ...{ fields: 'none', ids: 'short', empty: 'words' },
});

type StyledRequest = Pick<ModelRequest, 'messages' | 'tools'>;

/** The style to try after a refusal; undefined if it was not about the style, or if no other style is left. */
export function styleAfter(error: unknown, style: RequestStyle, request: StyledRequest): RequestStyle | undefined {
  if (!(error instanceof EndpointRefusal) || !STYLE_STATUSES.has(error.meaning)) return undefined;
  const { words } = error;
  for (const { about, change } of RULES) {
    const other = about.test(words) ? change({ style, words, request }) : undefined;
    if (other) return { ...style, ...other };
  }
  return undefined;
}

/** llama.cpp answers 500 if a chat template fails. */
const STYLE_STATUSES: ReadonlySet<number | undefined> = new Set([400, 404, 422, 500]);

type StyleRule = {
  about: RegExp;
  change(at: { style: RequestStyle; words: string; request: StyledRequest }): Partial<RequestStyle> | undefined;
};

/** What refusals are about, in the words of OpenAI, vLLM, Mistral, Gemini, llama.cpp, LM Studio and chat templates. */
const RULES: readonly StyleRule[] = [
  {
    about: /v1\/responses|only supported (?:in|by|with) the responses api|use the responses api/i,
    change: ({ style }) => (style.api === 'chat' ? { api: 'responses' } : undefined),
  },
  { about: /stream_options|include_usage/, change: ({ style }) => (style.usage ? { usage: false } : undefined) },
  {
    about: /unexpected role '?user'? after role|must alternate|invalid_request_message_order/i,
    change: ({ style }) => (style.alternates ? undefined : { alternates: true }),
  },
  {
    about:
      /system role (?:is )?not supported|does not support (?:the )?\W?system\W|system messages? (?:is|are) not supported/i,
    change: ({ style }) => (style.hasSystem ? { hasSystem: false } : undefined),
  },
  {
    about: /reasoning_(?:content|details)|\breasoning\b|extra_content|thought_signature/,
    change({ style, words }) {
      const fields = fieldsModeFor(words);
      return fields === style.fields ? undefined : { fields };
    },
  },
  {
    about: /function_?declarations|grammar|schema|unknown name|function_parameters|\btools?(?:\[\d+\]|\.\d+)/i,
    change: ({ style, request }) =>
      style.schemas === 'plain' && request.tools.length > 0 ? { schemas: 'reduced' } : undefined,
  },
  {
    about: /tool[_ ]?call[_ ]?id|tool_calls\W{0,3}\d*\W{0,3}id\b|\bcall[_ ]id|invalid_function_call/i,
    change: ({ style, request }) =>
      style.ids !== 'short' && request.messages.some(hasCalls) ? { ids: 'short' } : undefined,
  },
  {
    about: /content|valid string|non-?empty/i,
    change({ style, request }) {
      const empty = NEXT_EMPTY[style.empty];
      return empty && request.messages.some(({ content }) => !content) ? { empty } : undefined;
    },
  },
];

const NEXT_EMPTY: Readonly<Record<MessageStyle['empty'], MessageStyle['empty'] | undefined>> = {
  ...{ 'as it came': 'text', text: 'words', words: undefined },
};

export const hasCalls = (message: ChatMessage): boolean =>
  message.role === 'tool' || (message.role === 'assistant' && message.tool_calls !== undefined);

function fieldsModeFor(refusal: string): MessageStyle['fields'] {
  if (!/missing|must be (?:passed|provided|included)|is required/i.test(refusal)) return 'none';
  return refusal.includes('thought_signature') ? 'placeholder signature' : 'empty reasoning';
}
