import type { ChatMessage } from '../engine/ports/session-ports.ts';
import type { ToolCall } from '../protocol/session/event.ts';

/**
 * Fields that some endpoints require to be sent back unchanged with their model's tool calls: `reasoning_content` for
 * DeepSeek, `reasoning_details` for OpenRouter, the signature in a call's `extra_content` for Gemini. Other endpoints
 * refuse unknown fields.
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

/** Joins the texts of pieces that belong to one block, which have the same type and index. */
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

/** The call with the fields that were sent with it. */
export const withCallFields = (call: ToolCall, extra: unknown): ToolCall =>
  isRecord(extra) ? { ...call, provider_fields: { extra_content: extra } } : call;

/**
 * How the fields are sent back: unchanged, not at all, or also for answers that have none (from another model, or from
 * before they were kept).
 */
export type FieldsMode = 'as they came' | 'none' | 'empty reasoning' | 'placeholder signature';

/** The signature that Gemini accepts for a call that it did not make. */
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
