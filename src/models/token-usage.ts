import { z } from 'zod';
import type { ChatMessage, ModelAnswer } from '../engine/ports/model-port.ts';
import type { CompletionDraft } from './completion-stream.ts';

/** Prices per million tokens, in the person's currency. */
export type TokenPrices = { input: number; output: number };

const ReportedUsage = z.object({
  prompt_tokens: z.number().nullish(),
  completion_tokens: z.number().nullish(),
  total_tokens: z.number().nullish(),
  /** OpenRouter reports the cost of each answer here, in its credits (US dollars). */
  cost: z.number().nullish(),
});

/**
 * The usage of an answer. Tokens as reported by the endpoint, else estimated from the characters. Cost from `prices` if
 * a person set them, else from the endpoint's `usage.cost`, else null: unknown.
 */
export function measureUsage(
  draft: CompletionDraft,
  messages: ChatMessage[],
  prices: TokenPrices | undefined,
): ModelAnswer['usage'] {
  const reported = ReportedUsage.safeParse(draft.usage).data;
  const isReported =
    reported && (reported.total_tokens ?? reported.prompt_tokens ?? reported.completion_tokens) != null;
  const { input, output } = isReported ? splitReported(reported) : estimateUsage(draft, messages);
  const total = isReported ? (reported.total_tokens ?? input + output) : input + output;
  const cost = prices ? (input * prices.input + output * prices.output) / 1e6 : (reported?.cost ?? null);
  return { tokens: total, cost };
}

function splitReported(reported: z.infer<typeof ReportedUsage>) {
  const total = reported.total_tokens ?? 0;
  const output = reported.completion_tokens ?? Math.max(0, total - (reported.prompt_tokens ?? total));
  return { input: reported.prompt_tokens ?? Math.max(0, total - output), output };
}

/** For endpoints that report no usage: accurate enough for a limit, not for a bill. */
function estimateUsage(draft: CompletionDraft, messages: ChatMessage[]) {
  const calls = draft.calls.reduce((sum, call) => sum + estimateTokens(call.name) + estimateTokens(call.args), 0);
  return {
    input: messages.reduce((sum, message) => sum + messageTokens(message), 0),
    output: estimateTokens(draft.text) + calls,
  };
}

/** Rough size of an image. */
const IMAGE_TOKENS = 1000;

/** Messages are immutable, so each is counted once, however often the conversation is sent. */
const tokenCountCache = new WeakMap<ChatMessage, number>();

function messageTokens(message: ChatMessage): number {
  const tokens = tokenCountCache.get(message) ?? countTokens(message);
  tokenCountCache.set(message, tokens);
  return tokens;
}

function countTokens(message: ChatMessage): number {
  const calls = message.role === 'assistant' ? (message.tool_calls ?? []) : [];
  return calls.reduce(
    (sum, call) => sum + estimateTokens(call.function.arguments),
    estimateTokens(message.content ?? '') +
      IMAGE_TOKENS * (message.role === 'user' ? (message.images?.length ?? 0) : 0),
  );
}

/**
 * Rough number of tokens in a text: four characters per token, one and a half in Chinese, Japanese and Korean. Off by
 * up to half for code and rare languages.
 */
export function estimateTokens(text: string): number {
  let wide = 0;
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) >= 0x2e80) wide++;
  return Math.ceil(wide / 1.5 + (text.length - wide) / 4);
}
