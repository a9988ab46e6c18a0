import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { ChatMessage } from '../engine/ports/model-port.ts';
import { isDaemonBlock, parseUserMessage } from '../protocol/session/prompt-tags.ts';
import type { RawResponse, SendRequest } from './http-transport.ts';
import { estimateTokens } from './token-usage.ts';

/** The request to a built-in model: the conversation and the names of the tools offered. */
export type BuiltInRequest = { messages: ChatMessage[]; tools: string[] };

/** Its answer. A call without an id gets one later, like any endpoint's. */
export type BuiltInAnswer = { text: string; calls: Array<{ id?: string | undefined; name: string; args: string }> };

/** Or an HTTP error; either of them after a delay. */
export type BuiltInReply = (BuiltInAnswer | { status: number; message: string; retryAfter?: number | undefined }) & {
  delayMs?: number | undefined;
};

const Call = z.object({
  id: z.string(),
  type: z.literal('function'),
  function: z.object({ name: z.string(), arguments: z.string() }),
});
const Message = z.discriminatedUnion('role', [
  z.object({ role: z.literal('system'), content: z.string() }),
  z.object({ role: z.literal('user'), content: z.string() }),
  z.object({ role: z.literal('assistant'), content: z.string().nullable(), tool_calls: z.array(Call).optional() }),
  z.object({ role: z.literal('tool'), tool_call_id: z.string(), content: z.string() }),
]);
const RequestBody = z.object({
  model: z.string(),
  messages: z.array(Message),
  tools: z.array(z.object({ function: z.object({ name: z.string() }) })).default([]),
  stream: z.boolean().default(false),
  stream_options: z.object({ include_usage: z.boolean() }).optional(),
});
type RequestBody = z.infer<typeof RequestBody>;

/**
 * Serves a function as an endpoint in the OpenAI wire format, streamed or plain, with usage: built-in models take the
 * same path as any endpoint. Usage is estimated from the characters; with `free` it is zero at no cost.
 */
export function serveBuiltIn(answer: (chat: BuiltInRequest) => BuiltInReply, { free = false } = {}): SendRequest {
  return async (_url, init) => {
    const body = RequestBody.parse(JSON.parse(String(init?.body)));
    const chat = { messages: body.messages.map(toChatMessage), tools: body.tools.map((tool) => tool.function.name) };
    const reply = answer(chat);
    if (reply.delayMs) await sleep(reply.delayMs, undefined, init?.signal ? { signal: init.signal } : {});
    if ('status' in reply) return errorResponse(reply);
    const usage = free
      ? { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0, cost: 0 }
      : estimatedUsage(chat, reply);
    return body.stream ? streamedResponse(body, reply, usage) : plainResponse(body, reply, usage);
  };
}

/** Without the `undefined` that an optional key may carry. */
function toChatMessage(message: RequestBody['messages'][number]): ChatMessage {
  if (message.role !== 'assistant') return message;
  const { tool_calls, ...rest } = message;
  return tool_calls ? { ...rest, tool_calls } : rest;
}

function errorResponse(reply: { status: number; message: string; retryAfter?: number | undefined }): RawResponse {
  const answer = textResponse(JSON.stringify({ error: { message: reply.message } }), 'application/json', reply.status);
  if (reply.retryAfter !== undefined) answer.headers.set('retry-after', String(reply.retryAfter));
  return answer;
}

const textResponse = (text: string, type: string, status = 200): RawResponse => ({
  status,
  statusText: '',
  headers: new Headers({ 'content-type': type }),
  body: Readable.from([Buffer.from(text)]),
});

function estimatedUsage({ messages }: BuiltInRequest, { text, calls }: BuiltInAnswer) {
  const prompt = messages.reduce((sum, message) => sum + estimateTokens(message.content ?? ''), 0);
  const completion = calls.reduce((sum, call) => sum + estimateTokens(call.args), estimateTokens(text));
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
}

const wireCalls = ({ calls }: BuiltInAnswer) =>
  calls.map(({ id, name, args }, index) => ({
    index,
    id: id ?? '',
    type: 'function',
    function: { name, arguments: args },
  }));

const finishReason = ({ calls }: BuiltInAnswer) => (calls.length > 0 ? 'tool_calls' : 'stop');

function plainResponse({ model }: RequestBody, answer: BuiltInAnswer, usage: object): RawResponse {
  const message = { role: 'assistant', content: answer.text, tool_calls: wireCalls(answer) };
  const choices = [{ index: 0, message, finish_reason: finishReason(answer) }];
  return textResponse(JSON.stringify({ object: 'chat.completion', model, choices, usage }), 'application/json');
}

/** Text is sent line by line, as a person reads it in `live`. */
function streamedResponse({ model, stream_options }: RequestBody, answer: BuiltInAnswer, usage: object): RawResponse {
  const piece = (delta: object, finish_reason: string | null = null) => ({
    object: 'chat.completion.chunk',
    model,
    choices: [{ index: 0, delta, finish_reason }],
  });
  const pieces: object[] = answer.text.split(/(?<=\n)/).map((content) => piece({ content }));
  if (answer.calls.length > 0) pieces.push(piece({ tool_calls: wireCalls(answer) }));
  pieces.push(piece({}, finishReason(answer)));
  if (stream_options?.include_usage) pieces.push({ object: 'chat.completion.chunk', model, choices: [], usage });
  const lines = [...pieces.map((one) => JSON.stringify(one)), '[DONE]'].map((data) => `data: ${data}\n\n`);
  return textResponse(lines.join(''), 'text/event-stream');
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
