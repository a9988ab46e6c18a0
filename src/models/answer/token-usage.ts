import { z } from 'zod';
import {
  type ChatMessage,
  countMessageTokens,
  countTextTokens,
  countTokens,
  type ModelAnswer,
  type ModelRequest,
  type TokenPrices,
} from '../../engine/ports/session-ports.ts';
import type { ToolSpec } from '../../engine/ports/tool-ports.ts';
import type { ToolCall } from '../../protocol/session/event.ts';
import type { CompletionDraft } from './completion-stream.ts';

/** `prices`: as a person set them; `listPrices`: as they are known of this model. */
export type UsedPrices = { prices: TokenPrices | undefined; listPrices?: TokenPrices | undefined };

const Details = z.looseObject({ cached_tokens: z.number().nullish() }).nullish();

const ReportedUsage = z.object({
  prompt_tokens: z.number().nullish(),
  completion_tokens: z.number().nullish(),
  total_tokens: z.number().nullish(),
  /** OpenRouter reports the cost of each answer here, in its credits (US dollars). */
  cost: z.number().nullish(),
  /** The part of the prompt that was cached: of OpenAI and many others, DeepSeek, and Anthropic's layer. */
  prompt_tokens_details: Details.catch(undefined),
  prompt_cache_hit_tokens: z.number().nullish(),
  cache_read_input_tokens: z.number().nullish(),
});

/**
 * The usage of an answer. Tokens as reported by the endpoint, else estimated from the characters. Cost from `prices` if
 * a person set them, else from the endpoint's `usage.cost`, else from the list price, else null: unknown. `cached`:
 * prompt tokens that the endpoint had cached, `output`: those that are not of the prompt, both if it says so.
 */
export function measureUsage(
  draft: CompletionDraft,
  { messages, tools }: Pick<ModelRequest, 'messages' | 'tools'>,
  { prices, listPrices }: UsedPrices,
): ModelAnswer['usage'] {
  const reported = ReportedUsage.safeParse(draft.usage).data;
  const isReported =
    reported && (reported.total_tokens ?? reported.prompt_tokens ?? reported.completion_tokens) != null;
  const { input, output } = isReported ? splitReported(reported) : estimateUsage(draft, messages, tools);
  const total = isReported ? (reported.total_tokens ?? input + output) : input + output;
  const cached = isReported ? cachedTokens(reported) : undefined;
  const fromCache = Math.min(input, cached ?? 0);
  const costAt = (price: TokenPrices) =>
    ((input - fromCache) * price.input + fromCache * (price.cached ?? price.input) + output * price.output) / 1e6;
  const cost = prices ? costAt(prices) : (reported?.cost ?? (listPrices ? costAt(listPrices) : null));
  const isSplit = isReported && reported.prompt_tokens != null;
  return {
    ...{ tokens: total, cost, ...(!isReported && { estimated: true }), ...(cached !== undefined && { cached }) },
    // Some count the tokens of reasoning only in the total.
    ...(isSplit && { output: Math.max(0, total - input) }),
  };
}

function cachedTokens(reported: z.infer<typeof ReportedUsage>): number | undefined {
  const { prompt_tokens_details: details, prompt_cache_hit_tokens: hit, cache_read_input_tokens: read } = reported;
  return details?.cached_tokens ?? hit ?? read ?? undefined;
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
  tools: readonly ToolSpec[] = [],
): { input: number; output: number } {
  const tool_calls = calls.map(({ id, name, args }) => ({
    id,
    type: 'function' as const,
    function: { name, arguments: args },
  }));
  const answer: ChatMessage = { role: 'assistant', content: text, ...(calls.length > 0 && { tool_calls }) };
  const offered = tools.filter(({ line }) => line === undefined);
  const schemas = offered.length > 0 ? countTextTokens(JSON.stringify(offered)) : 0;
  return { input: Math.round(countTokens(messages) + schemas), output: Math.round(countMessageTokens(answer)) };
}

const known = new Map<string, TokenPrices | undefined>();

/**
 * The list price of a million tokens of a model at this address, from `PRICE_LIST`; undefined for an unknown address,
 * such as one on this machine, or an unknown model. Nothing is fetched. The list is large: the first call of a model
 * that is elsewhere loads it.
 */
export async function findKnownPrices(baseUrl: string, model: string): Promise<TokenPrices | undefined> {
  const key = `${baseUrl} ${model}`;
  if (!known.has(key)) known.set(key, await lookUp(baseUrl, model));
  return known.get(key);
}

/** No provider that the list has is there. */
const LOOPBACK = /^https?:\/\/(?:localhost|127(?:\.\d+){3}|\[::1\])(?=[:/]|$)/i;

async function lookUp(baseUrl: string, model: string): Promise<TokenPrices | undefined> {
  if (LOOPBACK.test(baseUrl)) return undefined;
  const { calcPrice } = await import('@pydantic/genai-prices');
  try {
    const found = calcPrice({ input_tokens: 1e6, output_tokens: 1e6 }, model, { providerApiUrl: baseUrl });
    if (!found) return undefined;
    const fromCache = { input_tokens: 1e6, cache_read_tokens: 1e6, output_tokens: 0 };
    const cached = calcPrice(fromCache, model, { providerApiUrl: baseUrl })?.input_price;
    return { input: found.input_price, output: found.output_price, cached };
  } catch {
    // It knows the model, but not how its tokens are priced.
    return undefined;
  }
}
