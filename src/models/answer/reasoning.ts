import { z } from 'zod';
import { isRecord } from '../../base/collections.ts';
import type { ChatMessage } from '../../engine/ports/session-ports.ts';
import type { ToolCall } from '../../protocol/session/event.ts';

/**
 * How reasoning begins if the endpoint does not separate it from the answer: a tag with such a name in the brackets of
 * any model, or the analysis channel of gpt-oss.
 */
const OPENING =
  /^(?:<\|start\|>assistant)?<\|channel\|>(?:analysis|thought)[^<]*<\|message\|>|^[<[◁](\|?)((?:\w+:)?(?:begin_of_|START_)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|analysis|reflection|scratchpad))\|?[>\]▷]/i;
/** The beginning of such a text, as long as it may become one. */
const MAY_OPEN =
  /^(?:[<[◁][^>\]▷\n]{0,40}|<\|start\|>(?:assistant)?|(?:<\|start\|>assistant)?<\|channel\|>[^<]{0,20}(?:<[^>]{0,12})?)$/;

/** What closes reasoning that was opened so. */
function closingOf([whole, pipe, name = '']: RegExpExecArray): RegExp {
  if (name === '') return /<\|end\|>|(?=<\|channel\|>(?!analysis))/;
  const plain = name.replace(/^(?:begin_of_|START_)/i, '');
  const close = whole.startsWith('[') ? `\\[/${plain}\\]` : `[<◁](?:/${plain}|\\|(?:end_of_|END_)${plain}\\|)[>▷]`;
  return new RegExp(pipe === '|' && name === plain ? `<\\|/${plain}\\|>` : close, 'i');
}

/** Removes the reasoning at the beginning of a streamed answer. */
export type ReasoningFilter = {
  /** Adds text; returns what is certain to be answer. */
  add(delta: string): string;
  /** The rest, at the end of the stream. */
  end(): string;
};

/** The longest closing tag. */
const CLOSING_CHARS = 48;

/**
 * A marker such as `[Done]` in the reasoning must not count as a statement, and reasoning does not belong in a reply.
 * Tags only count at the beginning of an answer; further on they belong to its content.
 */
export function openReasoningFilter(): ReasoningFilter {
  let held = '';
  let inside: RegExp | null = null;
  let isPast = false;
  let hadReasoning = false;

  /** Processes text up to the next tag; false if more text is needed. */
  const advance = (): boolean => {
    if (inside !== null) {
      const found = inside.exec(held);
      held = found ? held.slice(found.index + found[0].length) : held.slice(-CLOSING_CHARS);
      if (found) inside = null;
      return found !== null;
    }
    const start = held.trimStart();
    const opening = OPENING.exec(start);
    if (opening) {
      hadReasoning = true;
      inside = closingOf(opening);
      held = start.slice(opening[0].length);
      return true;
    }
    isPast = start !== '' && !MAY_OPEN.test(start);
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

const CLOSING_LINE = /^[ \t]*(?:<\/(?:think|thinking|thought|reasoning|seed:think)>|\[\/THINK\])\s*/im;

/**
 * Removes reasoning that has only a closing tag, because some chat templates put the opening tag into the prompt. A tag
 * in a code block belongs to the answer.
 */
export function dropUnopenedReasoning(text: string): string {
  const found = CLOSING_LINE.exec(text);
  if (!found) return text;
  const before = text.slice(0, found.index);
  const isQuoted = before.split('```').length % 2 === 0 || /<(?:\w+:)?(?:think|thought|reason)|\[THINK\]/i.test(before);
  return isQuoted ? text : text.slice(found.index + found[0].length);
}

/** The marks with which chat templates begin and end a turn. */
const TURN_MARK = String.raw`(?:<\|(?:im_end|im_start|eot_id|eom_id|end|return|endoftext|end_of_text|start|begin_of_text|END_OF_TURN_TOKEN|START_RESPONSE|END_RESPONSE)\|>(?:assistant\b)?|<\|assistant\|>|<\|channel\|>final(?: <\|constrain\|>\w+)?<\|message\|>|<(?:end_of_turn|start_of_turn)>(?:model\b)?|<｜end▁of▁sentence｜>|<\/?s>|\[\/INST\])`;
const LEADING_MARKS = new RegExp(String.raw`^\s*(?:${TURN_MARK}\s*)+`);
const TRAILING_MARKS = new RegExp(String.raw`(?:\s*${TURN_MARK})+\s*$`);
/** A model that goes on writes the next turn of the other side. */
const NEXT_TURN =
  /<\|(?:im_end|eot_id|end)\|>\s*<\|(?:im_start|start_header_id|start)\|>(?:user|system)[\s\S]*$|<end_of_turn>\s*<start_of_turn>user[\s\S]*$/;

/** The text without the marks of a chat template around it, and without turns of others that the model made up. */
export function withoutTemplateMarks(text: string): string {
  if (!/[<[]/.test(text)) return text;
  return text.replace(NEXT_TURN, '').replace(LEADING_MARKS, '').replace(TRAILING_MARKS, '');
}

/**
 * Fields that some endpoints require to be sent back unchanged with their model's tool calls: `reasoning_content` for
 * DeepSeek (`reasoning` for newer servers), `reasoning_details` for OpenRouter, the signature in a call's
 * `extra_content` for Gemini. Other endpoints refuse unknown fields.
 */
export type ProviderFields = Readonly<Record<string, unknown>>;

type ReasoningDelta = { reasoning_content?: unknown; reasoning?: unknown; reasoning_details?: unknown };

/** The reasoning in a piece, under whichever name. */
export const reasoningOf = ({ reasoning_content: one, reasoning: other }: ReasoningDelta): string =>
  typeof one === 'string' ? one : typeof other === 'string' ? other : '';

/** Collects these fields from the pieces of a streamed answer. */
export function collectProviderFields() {
  const reasoning = { reasoning_content: '', reasoning: '' };
  const details: unknown[] = [];
  return {
    add({ reasoning_details, ...delta }: ReasoningDelta): void {
      for (const name of ['reasoning_content', 'reasoning'] as const) {
        const more = delta[name];
        if (typeof more === 'string') reasoning[name] += more;
      }
      if (Array.isArray(reasoning_details)) for (const detail of reasoning_details) addDetail(details, detail);
    },
    /** Undefined if there are none. */
    all(): ProviderFields | undefined {
      const { reasoning_content, reasoning: newer } = reasoning;
      const fields = {
        ...(reasoning_content !== '' && { reasoning_content }),
        // A second copy of what is sent back under another name would only cost tokens.
        ...(newer !== '' && reasoning_content === '' && details.length === 0 && { reasoning: newer }),
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

/** The call with the fields that were sent with it. */
export const withCallFields = (call: ToolCall, extra: unknown): ToolCall =>
  isRecord(extra) ? { ...call, provider_fields: { extra_content: extra } } : call;

/**
 * How the fields are sent back: unchanged, not at all, or also for answers that have none (from another model, or from
 * before they were kept).
 */
export const FieldsMode = z.enum(['as they came', 'none', 'empty reasoning', 'placeholder signature']);
export type FieldsMode = z.infer<typeof FieldsMode>;

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
  return { ...plain, tool_calls: calls, ...emptyReasoning, ...(isSent && own) };
}
