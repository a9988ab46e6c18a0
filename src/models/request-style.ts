import { APIError } from 'openai';
import type { ChatMessage } from '../engine/ports/session-ports.ts';
import { refusesUsageOption } from './endpoint-errors.ts';
import type { FieldsMode } from './provider-fields.ts';

/** The style of requests that an endpoint accepts for a model. Learned from refusals and kept until the daemon ends. */
export type RequestStyle = {
  /** Whether `stream_options` requests the token usage. */
  usage: boolean;
  fields: FieldsMode;
  /** Whether roles must alternate, so that consecutive user messages are joined. */
  alternates: boolean;
};

export const FIRST_STYLE: RequestStyle = { usage: true, fields: 'as they came', alternates: false };

/** The style to try after a refusal; undefined if it was not about the style, or if no other style is left. */
export function styleAfter(error: unknown, style: RequestStyle): RequestStyle | undefined {
  if (style.usage && refusesUsageOption(error)) return { ...style, usage: false };
  if (!style.alternates && refusesRoleOrder(error)) return { ...style, alternates: true };
  const fields = fieldsModeAfter(error, style.fields);
  return fields && { ...style, fields };
}

/** The fields mode to try after a refusal, if it was about the fields that some endpoints require back. */
function fieldsModeAfter(error: unknown, mode: FieldsMode): FieldsMode | undefined {
  if (!(error instanceof APIError) || (error.status !== 400 && error.status !== 422)) return undefined;
  const text = `${error.message} ${JSON.stringify(error.error ?? '')}`;
  if (!/reasoning_(?:content|details)|extra_content|thought_signature/.test(text)) return undefined;
  const next = fieldsModeFor(text);
  return next === mode ? undefined : next;
}

function fieldsModeFor(refusal: string): FieldsMode {
  if (!/missing|must be (?:passed|provided|included)|is required/i.test(refusal)) return 'none';
  return refusal.includes('thought_signature') ? 'placeholder signature' : 'empty reasoning';
}

/** Errors of Mistral's API, and of the chat templates of Mistral and Gemma, which llama.cpp reports with 500. */
const ABOUT_ROLE_ORDER = /unexpected role '?user'? after role|roles must alternate|invalid_request_message_order/i;

const refusesRoleOrder = (error: unknown): boolean =>
  error instanceof APIError &&
  [400, 422, 500].includes(error.status ?? 0) &&
  ABOUT_ROLE_ORDER.test(`${error.message} ${JSON.stringify(error.error ?? '')}`);

/** Inserted between the results of calls and a user message, which may not follow each other. */
const ACKNOWLEDGEMENT: ChatMessage = { role: 'assistant', content: 'OK.' };

/** The same conversation with alternating user and assistant messages; results of calls belong to their assistant. */
export function alternateRoles(messages: readonly ChatMessage[]): ChatMessage[] {
  const result: ChatMessage[] = [];
  for (const message of messages) {
    const last = result.at(-1);
    const joined = last && joinMessages(last, message);
    if (joined) result[result.length - 1] = joined;
    else if (last?.role === 'tool' && message.role === 'user') result.push(ACKNOWLEDGEMENT, message);
    else result.push(message);
  }
  return result;
}

function joinMessages(last: ChatMessage, next: ChatMessage): ChatMessage | undefined {
  const content = [last.content, next.content].filter(Boolean).join('\n\n');
  if (last.role === 'user' && next.role === 'user') {
    const images = [...(last.images ?? []), ...(next.images ?? [])];
    return { role: 'user', content, ...(images.length > 0 && { images }) };
  }
  if (last.role === 'assistant' && next.role === 'assistant' && !last.tool_calls) return { ...next, content };
  return undefined;
}
