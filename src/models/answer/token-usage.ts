import { z } from 'zod';
import {
  type ChatMessage,
  countMessageTokens,
  countTokens,
  type ModelAnswer,
  type TokenPrices,
} from '../../engine/ports/session-ports.ts';
import type { ToolCall } from '../../protocol/session/event.ts';
import type { CompletionDraft } from './completion-stream.ts';

const ReportedUsage = z.object({
  prompt_tokens: z.number().nullish(),
  completion_tokens: z.number().nullish(),
  total_tokens: z.number().nullish(),
  /** OpenRouter reports the cost of each answer here, in its credits (US dollars). */
  cost: z.number().nullish(),
});

/**
 * The usage of an answer. Tokens as reported by the endpoint, else estimated from the characters. Cost from `prices` if
 * a person set them, else from the endpoint's `usage.cost`, else from the list price, else null: unknown.
 */
export function measureUsage(
  draft: CompletionDraft,
  messages: ChatMessage[],
  { prices, listPrices }: { prices: TokenPrices | undefined; listPrices?: TokenPrices | undefined },
): ModelAnswer['usage'] {
  const reported = ReportedUsage.safeParse(draft.usage).data;
  const isReported =
    reported && (reported.total_tokens ?? reported.prompt_tokens ?? reported.completion_tokens) != null;
  const { input, output } = isReported ? splitReported(reported) : estimateUsage(draft, messages);
  const total = isReported ? (reported.total_tokens ?? input + output) : input + output;
  const costAt = (price: TokenPrices) => (input * price.input + output * price.output) / 1e6;
  const cost = prices ? costAt(prices) : (reported?.cost ?? (listPrices ? costAt(listPrices) : null));
  return { tokens: total, cost };
}

function splitReported(reported: z.infer<typeof ReportedUsage>) {
  const total = reported.total_tokens ?? 0;
  const output = reported.completion_tokens ?? Math.max(0, total - (reported.prompt_tokens ?? total));
  return { input: reported.prompt_tokens ?? Math.max(0, total - output), output };
}

/** Estimates an answer's usage if the endpoint reports none: accurate enough for a limit, not for a bill. */
export function estimateUsage(
  { text, calls }: { text: string; calls: readonly ToolCall[] },
  messages: readonly ChatMessage[],
): { input: number; output: number } {
  const tool_calls = calls.map(({ id, name, args }) => ({
    id,
    type: 'function' as const,
    function: { name, arguments: args },
  }));
  const answer: ChatMessage = { role: 'assistant', content: text, ...(calls.length > 0 && { tool_calls }) };
  return { input: Math.round(countTokens(messages)), output: Math.round(countMessageTokens(answer)) };
}
