import { setTimeout as sleep } from 'node:timers/promises';
import type { ChatMessage, Model } from '../engine/ports/model-port.ts';
import { isDaemonBlock, parseUserMessage } from '../protocol/session/prompt-tags.ts';
import { finishCalls, refuseEmptyAnswer } from './completion-stream.ts';
import type { PlayedError } from './endpoint-errors.ts';
import { estimateUsage } from './token-usage.ts';

/** The request to a built-in model: the conversation and the names of the tools offered. */
export type BuiltInRequest = { messages: ChatMessage[]; tools: string[] };

/** Its answer. A call without an id gets one later, like any endpoint's. */
export type BuiltInAnswer = { text: string; calls: Array<{ id?: string | undefined; name: string; args: string }> };

/** Or an HTTP error; either of them after a delay. */
export type BuiltInReply = (BuiltInAnswer | PlayedError) & { delayMs?: number | undefined };

/**
 * A function as a model. Its text is streamed line by line, as a person reads it in `live`; its tokens are estimated,
 * or, with `free`, zero at no cost.
 */
export function openBuiltInModel(
  name: string,
  answer: (request: BuiltInRequest) => BuiltInReply,
  { free = false } = {},
): Model {
  return {
    async ask({ messages, tools }, { signal, onText }) {
      const reply = answer({ messages, tools: tools.map((tool) => tool.name) });
      if (reply.delayMs) await sleep(reply.delayMs, undefined, { signal }).catch(() => signal.throwIfAborted());
      signal.throwIfAborted();
      // It has the words of an endpoint's faults, and loads the client with them.
      if ('status' in reply) throw (await import('./endpoint-errors.ts')).toPlayedFault(reply, name);
      for (const line of reply.text.split(/(?<=\n)/)) if (line !== '') onText(line);
      refuseEmptyAnswer(reply);
      const calls = finishCalls(
        reply.calls.map((call) => ({ ...call, id: call.id ?? '' })),
        messages,
      );
      const { input, output } = free ? { input: 0, output: 0 } : estimateUsage({ ...reply, calls }, messages);
      return { text: reply.text, calls, usage: { tokens: input + output, cost: free ? 0 : null }, model: name };
    },
  };
}

/**
 * A person's request in a message, and the daemon's note on it; undefined for any other message, including those of a
 * sender who may not give orders.
 */
export function personMessage(message: ChatMessage): { note: string; text: string } | undefined {
  if (message.role !== 'user' || isDaemonMessage(message)) return undefined;
  const { note, text, isData } = parseUserMessage(message.content);
  return isData ? undefined : { note, text };
}

/** The daemon's block has the user role and starts with its tag. */
export function isDaemonMessage(message: ChatMessage): boolean {
  return message.role === 'user' && isDaemonBlock(message.content);
}
