import { z } from 'zod';
import type { ChatMessage } from '../engine/ports.ts';
import type { ToolCall } from '../protocol/event.ts';

/** A piece of a tool call. `arguments` is text in the format's definition; some servers send the object itself. */
export const CallDelta = z.object({
  index: z.number().nullish(),
  id: z.string().nullish(),
  function: z.object({ name: z.string().nullish(), arguments: z.unknown().optional() }).nullish(),
});
export type CallDelta = z.infer<typeof CallDelta>;

export type CallDraft = { index: number | undefined; id: string; name: string; args: string };

/**
 * Puts one piece where it belongs. Pieces go by index; but a piece with a name and a new id begins a new call whatever its
 * index says, since Ollama gave every call the index 0 (ollama issue 15457) or none (issue 7881).
 */
export function addCallDelta(drafts: CallDraft[], delta: CallDelta): void {
  const name = delta.function?.name ?? '';
  let draft = drafts.findLast((one) => delta.index == null || one.index === delta.index);
  if (!draft || (name && beginsAnother(draft, delta))) {
    draft = { index: delta.index ?? undefined, id: '', name: '', args: '' };
    drafts.push(draft);
  }
  draft.id ||= delta.id ?? '';
  draft.name ||= name;
  draft.args += argsText(delta.function?.arguments);
}

function beginsAnother(draft: CallDraft, { id, index }: CallDelta): boolean {
  return id ? draft.id !== '' && draft.id !== id : index == null && draft.name !== '';
}

function argsText(args: unknown): string {
  if (args === undefined || args === null) return '';
  return typeof args === 'string' ? args : JSON.stringify(args);
}

/**
 * The finished calls, arguments exactly as the model wrote them. Every id is one that the conversation has not seen:
 * a missing one becomes `call_<n>` (n counts the conversation's calls from 0), a taken one gets `_2`, `_3`, …
 */
export function finishCalls(drafts: CallDraft[], conversation: ChatMessage[]): ToolCall[] {
  const taken = new Set<string>();
  // Looked up rather than collected: a conversation of a thousand calls is asked for one or two ids, and seldom has them.
  const isTaken = (id: string) => taken.has(id) || conversation.some((message) => idsOf(message).includes(id));
  return drafts.map(({ id, name, args }, at) => {
    const wanted = id || `call_${conversation.reduce((sum, message) => sum + idsOf(message).length, at)}`;
    let free = wanted;
    for (let n = 2; isTaken(free); n++) free = `${wanted}_${n}`;
    taken.add(free);
    return { id: free, name, args };
  });
}

const NONE: readonly string[] = [];
const known = new WeakMap<ChatMessage, readonly string[]>();

/** The ids of the calls in a message; messages never change. */
function idsOf(message: ChatMessage): readonly string[] {
  if (message.role !== 'assistant' || !message.tool_calls) return NONE;
  const ids = known.get(message) ?? message.tool_calls.map((call) => call.id);
  known.set(message, ids);
  return ids;
}

/**
 * The conversation with arguments that are no JSON wrapped as `{"unparsed": …}`, or undefined where all are well. Strict
 * endpoints refuse a whole conversation for one broken call of their own model in it.
 */
export function mendArguments(messages: ChatMessage[]): ChatMessage[] | undefined {
  let broken = false;
  const mended = messages.map((message): ChatMessage => {
    if (message.role !== 'assistant' || !message.tool_calls?.some((call) => !isJson(call.function.arguments))) {
      return message;
    }
    broken = true;
    const tool_calls = message.tool_calls.map((call) => {
      const text = call.function.arguments;
      return isJson(text)
        ? call
        : { ...call, function: { ...call.function, arguments: JSON.stringify({ unparsed: text }) } };
    });
    return { ...message, tool_calls };
  });
  return broken ? mended : undefined;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
