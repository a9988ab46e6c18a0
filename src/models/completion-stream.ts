import { z } from 'zod';
import { truncate } from '../base/strings.ts';
import {
  type ChatMessage,
  countMessageTokens,
  countTokens,
  type ModelAnswer,
  ModelError,
  type TokenPrices,
} from '../engine/ports/session-ports.ts';
import type { ToolCall } from '../protocol/session/event.ts';
import {
  collectProviderFields,
  dropUnopenedReasoning,
  openReasoningFilter,
  type ProviderFields,
  withCallFields,
} from './reasoning.ts';

/** A piece of a tool call. The format defines `arguments` as text; some servers send the object itself. */
const CallDelta = z.object({
  index: z.number().nullish(),
  id: z.string().nullish(),
  function: z.object({ name: z.string().nullish(), arguments: z.unknown().optional() }).nullish(),
  extra_content: z.unknown().optional(),
});
export type CallDelta = z.infer<typeof CallDelta>;

const Content = z.union([
  z.string(),
  z.array(z.looseObject({ type: z.string().optional(), text: z.string().optional() })),
]);

/** The fields that are read from a streamed piece; all others (log probabilities, …) are ignored. */
const Chunk = z.object({
  model: z.string().nullish(),
  choices: z
    .array(
      z.object({
        delta: z
          .object({
            content: Content.nullish(),
            refusal: z.string().nullish(),
            tool_calls: z.array(CallDelta).nullish(),
            reasoning_content: z.unknown().optional(),
            reasoning_details: z.unknown().optional(),
          })
          .nullish(),
        finish_reason: z.string().nullish(),
      }),
    )
    .nullish(),
  usage: z.unknown().optional(),
});
type Content = z.infer<typeof Content>;

/** A partial answer. `finish` is empty if the stream ended without a finish_reason. */
export type CompletionDraft = {
  text: string;
  calls: CallDraft[];
  finish: string;
  model: string;
  providerFields: ProviderFields | undefined;
  /** The usage in the last piece that had one; its form is the endpoint's. */
  usage: unknown;
};

/**
 * Assembles a streamed answer: text deltas, tool call deltas and usage of the first choice. A refusal counts as text,
 * reasoning between tags does not. Throws `ModelError` (malformed) for a piece of another form or a finish_reason
 * "error"; stream errors pass through.
 */
export async function readCompletionStream(
  chunks: AsyncIterable<unknown>,
  onText: (delta: string) => void,
): Promise<CompletionDraft> {
  const draft: CompletionDraft = {
    ...{ text: '', calls: [], finish: '', model: '', usage: undefined, providerFields: undefined },
  };
  const fields = collectProviderFields();
  const reasoning = openReasoningFilter();
  const addText = (text: string): void => {
    draft.text += text;
    if (text !== '') onText(text);
  };
  for await (const raw of chunks) {
    const chunk = Chunk.safeParse(raw);
    if (!chunk.success)
      throw malformedFault(`a piece of the answer has an unknown form (${z.prettifyError(chunk.error)})`);
    const { model, choices, usage } = chunk.data;
    draft.model ||= model ?? '';
    draft.usage = usage ?? draft.usage;
    const choice = choices?.[0];
    if (!choice) continue;
    addText(reasoning.add(contentText(choice.delta?.content) + (choice.delta?.refusal ?? '')));
    fields.add(choice.delta ?? {});
    for (const call of choice.delta?.tool_calls ?? []) addCallDelta(draft.calls, call);
    draft.finish = choice.finish_reason || draft.finish;
  }
  draft.providerFields = fields.all();
  addText(reasoning.end());
  draft.text = dropUnopenedReasoning(draft.text);
  if (draft.finish === 'error') throw malformedFault('the endpoint broke off with finish_reason "error"');
  return draft;
}

function contentText(content: Content | null | undefined): string {
  if (typeof content === 'string') return content;
  return (content ?? []).map((part) => ((part.type ?? 'text') === 'text' ? (part.text ?? '') : '')).join('');
}

/** The answer is unusable, but the same request may succeed next time. */
export function malformedFault(what: string): ModelError {
  return new ModelError('malformed', `The model's answer cannot be used: ${what}.`, { retry: true });
}

/** Throws `ModelError` (malformed) for an answer without text and calls. */
export function refuseEmptyAnswer({ text, calls }: { text: string; calls: readonly unknown[] }, finish = ''): void {
  if (text.trim() === '' && calls.length === 0)
    throw malformedFault(`an empty answer${finish ? ` (finish_reason "${finish}")` : ''}`);
}

/** How models of several families begin a tool call in their own syntax: Hermes and Qwen, Mistral, Llama, DeepSeek. */
const RAW_CALL = /^\s*(?:<tool_call>\s*(?:\{|<function=)|\[TOOL_CALLS\]|<\|python_tag\|>|<｜tool▁calls▁begin｜>)/m;

/**
 * Throws `ModelError` (malformed) if the endpoint passed a tool call on as text: treated as an answer, it would end the
 * run as done.
 */
export function refuseRawCall({ text, calls }: { text: string; calls: readonly unknown[] }): void {
  const found = calls.length === 0 ? RAW_CALL.exec(text) : null;
  const isQuoted = text.slice(0, found?.index).split('```').length % 2 === 0;
  if (!found || isQuoted) return;
  const call = truncate(text.slice(found.index).trim(), 80);
  throw malformedFault(`a tool call came as text (${call}); check the tool call parser of the endpoint`);
}

type CallDraft = { index: number | undefined; id: string; name: string; args: string; extra?: unknown };

/**
 * Adds one piece to its call. Pieces are matched by index; but a piece with a name and a new id starts a new call
 * whatever its index says, since Ollama gave every call the index 0 (ollama issue 15457) or none (issue 7881).
 */
function addCallDelta(drafts: CallDraft[], delta: CallDelta): void {
  const name = delta.function?.name ?? '';
  let draft = drafts.findLast((one) => delta.index == null || one.index === delta.index);
  if (!draft || (name && startsNewCall(draft, delta))) {
    draft = { index: delta.index ?? undefined, id: '', name: '', args: '' };
    drafts.push(draft);
  }
  draft.id ||= delta.id ?? '';
  draft.name ||= name;
  draft.args += argsText(delta.function?.arguments);
  draft.extra ??= delta.extra_content;
}

function startsNewCall(draft: CallDraft, { id, index }: CallDelta): boolean {
  return id ? draft.id !== '' && draft.id !== id : index == null && draft.name !== '';
}

function argsText(args: unknown): string {
  if (args === undefined || args === null) return '';
  return typeof args === 'string' ? args : JSON.stringify(args);
}

/**
 * The finished calls, with arguments exactly as the model wrote them. Every id is new to the conversation: a missing
 * one becomes `call_<n>` (n counts the conversation's calls from 0), a taken one gets `_2`, `_3`, …
 */
export function finishCalls(
  drafts: ReadonlyArray<ToolCall & { extra?: unknown }>,
  conversation: readonly ChatMessage[],
): ToolCall[] {
  const taken = new Set<string>();
  // Searching for one or two ids costs less than collecting all ids of a conversation, which may have a thousand calls.
  const isTaken = (id: string) => taken.has(id) || conversation.some((message) => callIdsOf(message).includes(id));
  return drafts.map(({ id, name, args, extra }, at) => {
    const wanted = id || `call_${conversation.reduce((sum, message) => sum + callIdsOf(message).length, at)}`;
    let free = wanted;
    for (let n = 2; isTaken(free); n++) free = `${wanted}_${n}`;
    taken.add(free);
    return withCallFields({ id: free, name, args }, extra);
  });
}

const NO_IDS: readonly string[] = [];
const callIdCache = new WeakMap<ChatMessage, readonly string[]>();

/** The ids of the calls in a message; messages are immutable. */
function callIdsOf(message: ChatMessage): readonly string[] {
  if (message.role !== 'assistant' || !message.tool_calls) return NO_IDS;
  const ids = callIdCache.get(message) ?? message.tool_calls.map((call) => call.id);
  callIdCache.set(message, ids);
  return ids;
}

/** Prices per million tokens, in the person's currency. */

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
