import type { ChatMessage } from '../../engine/ports/session-ports.ts';
import type { ToolCall } from '../../protocol/session/event.ts';

/** The tags around a model's reasoning if the endpoint does not separate it from the answer. */
const TAGS = [
  { open: '<think>', close: '</think>' },
  { open: '<thinking>', close: '</thinking>' },
  { open: '<seed:think>', close: '</seed:think>' },
  { open: '[THINK]', close: '[/THINK]' },
] as const;

/** Removes the reasoning at the beginning of a streamed answer. */
export type ReasoningFilter = {
  /** Adds text; returns what is certain to be answer. */
  add(delta: string): string;
  /** The rest, at the end of the stream. */
  end(): string;
};

/**
 * A marker such as `[Done]` in the reasoning must not count as a statement, and reasoning does not belong in a reply.
 * Tags only count at the beginning of an answer; further on they belong to its content.
 */
export function openReasoningFilter(): ReasoningFilter {
  let held = '';
  let inside: string | null = null;
  let isPast = false;
  let hadReasoning = false;

  /** Processes text up to the next tag; false if more text is needed. */
  const advance = (): boolean => {
    if (inside !== null) {
      const at = held.indexOf(inside);
      held = at < 0 ? held.slice(1 - inside.length) : held.slice(at + inside.length);
      if (at >= 0) inside = null;
      return at >= 0;
    }
    const start = held.trimStart();
    const tag = TAGS.find(({ open }) => start.startsWith(open));
    if (tag) {
      hadReasoning = true;
      inside = tag.close;
      held = start.slice(tag.open.length);
      return true;
    }
    isPast = !TAGS.some(({ open }) => open.startsWith(start));
    return false;
  };
  const release = (): string => {
    const text = hadReasoning ? held.trimStart() : held;
    held = '';
    return text;
  };

  return {
    add(delta) {
      if (isPast) return delta;
      held += delta;
      while (advance());
      return isPast ? release() : '';
    },
    end: () => (inside === null ? release() : ''),
  };
}

const CLOSING_LINE = /^[ \t]*(?:<\/(?:think|thinking|seed:think)>|\[\/THINK\])\s*/m;

/**
 * Removes reasoning that has only a closing tag, because some chat templates put the opening tag into the prompt. A tag
 * in a code block belongs to the answer.
 */
export function dropUnopenedReasoning(text: string): string {
  const found = CLOSING_LINE.exec(text);
  if (!found) return text;
  const before = text.slice(0, found.index);
  const isQuoted = before.split('```').length % 2 === 0 || TAGS.some(({ open }) => before.includes(open));
  return isQuoted ? text : text.slice(found.index + found[0].length);
}

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
