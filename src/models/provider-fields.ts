import type { ChatMessage } from '../engine/ports/session-ports.ts';
import type { ToolCall } from '../protocol/session/event.ts';

/**
 * What some endpoints want back with the tool calls of their model, as they sent it: DeepSeek its `reasoning_content`,
 * OpenRouter `reasoning_details`, Gemini the signature in `extra_content` of a call. Others refuse what they do not
 * know.
 */
export type ProviderFields = Readonly<Record<string, unknown>>;

/** Collects these fields from the pieces of a streamed answer. */
export function collectProviderFields() {
  let reasoning = '';
  const details: unknown[] = [];
  return {
    add({ reasoning_content, reasoning_details }: { reasoning_content?: unknown; reasoning_details?: unknown }): void {
      if (typeof reasoning_content === 'string') reasoning += reasoning_content;
      if (Array.isArray(reasoning_details)) for (const detail of reasoning_details) addDetail(details, detail);
    },
    /** Undefined if there are none. */
    all(): ProviderFields | undefined {
      const fields = {
        ...(reasoning !== '' && { reasoning_content: reasoning }),
        ...(details.length > 0 && { reasoning_details: details }),
      };
      return Object.keys(fields).length > 0 ? fields : undefined;
    },
  };
}

const GROWING_TEXTS = ['text', 'summary'] as const;

/** Pieces of one block have its type and index; their texts are joined. */
function addDetail(details: unknown[], piece: unknown): void {
  const last = details.at(-1);
  const isMore =
    isRecord(last) &&
    isRecord(piece) &&
    piece['index'] !== undefined &&
    piece['index'] === last['index'] &&
    piece['type'] === last['type'];
  if (!isMore) {
    details.push(piece);
    return;
  }
  const joined = { ...last, ...piece };
  for (const name of GROWING_TEXTS) {
    const [before, more] = [last[name], piece[name]];
    if (typeof before === 'string') joined[name] = before + (typeof more === 'string' ? more : '');
  }
  details[details.length - 1] = joined;
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The call with the fields of its own. */
export const withCallFields = (call: ToolCall, extra: unknown): ToolCall =>
  isRecord(extra) ? { ...call, provider_fields: { extra_content: extra } } : call;

/**
 * How a model's endpoint is sent them: as they came, not at all, or also where an answer came without, from another
 * model or before they were kept.
 */
export type FieldsMode = 'as they came' | 'none' | 'empty reasoning' | 'placeholder signature';

/** What Gemini accepts for a call that it did not make itself. */
const PLACEHOLDER_SIGNATURE = { google: { thought_signature: 'skip_thought_signature_validator' } };

/** An assistant's message in wire format. */
export function toWireAssistant(message: ChatMessage & { role: 'assistant' }, mode: FieldsMode) {
  const { provider_fields: own, tool_calls, ...plain } = message;
  const emptyReasoning = mode === 'empty reasoning' && { reasoning_content: '' };
  if (!tool_calls) return { ...plain, ...emptyReasoning };
  const isSent = mode !== 'none';
  const calls = tool_calls.map(({ provider_fields, ...call }) => ({
    ...call,
    ...(isSent && provider_fields),
    ...(mode === 'placeholder signature' && !provider_fields && { extra_content: PLACEHOLDER_SIGNATURE }),
  }));
  return {
    ...plain,
    tool_calls: calls,
    ...emptyReasoning,
    ...(isSent && own),
  };
}
