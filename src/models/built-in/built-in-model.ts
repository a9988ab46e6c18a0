import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { errorText, UserError } from '../../base/user-error.ts';
import type { ChatMessage, Model } from '../../engine/ports/session-ports.ts';
import { isDaemonBlock, parseUserMessage } from '../../protocol/session/prompt-tags.ts';
import { finishCalls } from '../answer/call-drafts.ts';
import { refuseEmptyAnswer } from '../answer/completion-stream.ts';
import { type PlayedError, toPlayedFault } from '../answer/endpoint-errors.ts';
import { estimateUsage } from '../answer/token-usage.ts';

/** The request to a built-in model: the conversation and the names of the tools offered. */
export type BuiltInRequest = { messages: ChatMessage[]; tools: string[] };

/** The answer. A call without an id gets one later, as with any endpoint. */
export type BuiltInAnswer = { text: string; calls: Array<{ id?: string | undefined; name: string; args: string }> };

/** An answer or an HTTP error, possibly delayed. */
type BuiltInReply = (BuiltInAnswer | PlayedError) & { delayMs?: number | undefined };

/**
 * Makes a model of a function. Its text is streamed line by line, as it appears in `live`. Its tokens are estimated;
 * with `free` they are zero and cost nothing.
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
      if ('status' in reply) throw toPlayedFault(reply, name);
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
 * A person's request in a message, and the daemon's note on it; undefined for any other message, including those of
 * senders who may not give instructions.
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

const ScriptedCall = z.strictObject({
  name: z.string(),
  args: z.union([z.string(), z.record(z.string(), z.unknown())]),
  id: z.string().optional(),
});

const ScriptedAnswer = z
  .strictObject({
    text: z.string().optional(),
    calls: z.array(ScriptedCall).optional(),
    delay_ms: z.int().min(0).optional(),
    status: z.int().min(400).max(599).optional(),
    retry_after: z.number().min(0).optional(),
    when: z.string().min(1).optional(),
    asked: z.string().min(1).optional(),
    repeat: z.literal(true).optional(),
  })
  .refine((one) => one.status === undefined || one.calls === undefined, 'An answer with a status has no calls.')
  .refine((one) => one.retry_after === undefined || one.status !== undefined, 'retry_after needs a status.');

/**
 * A script: the list of answers a scripted model gives.
 *
 * - `text`, `calls` (`name`, `args` as an object or as a string that is passed on unchanged, `id`): the answer.
 * - `status`, `retry_after` (seconds): an HTTP error in its place, with `text` as its message. This process serves it
 *   once, before the answer that follows it, so a retry gets that answer.
 * - `delay_ms`: wait before answering.
 * - `when`: the entry belongs only to conversations in which some message, apart from the daemon's block, contains this
 *   text.
 * - `asked`: the entry answers each request whose daemon's block contains this text, such as a planner's question; it
 *   has no position among the others.
 * - `repeat`: on the last entry, it is repeated indefinitely; otherwise "The script has ended." follows it.
 */
export const Script = z.array(ScriptedAnswer);
export type Script = z.infer<typeof Script>;

const SCRIPT_END = 'The script has ended.';

/** Reads a script, once. Throws `UserError` if the file is missing, is not JSON or is not a script. */
export function readScript(file: string): Script {
  const script = Script.safeParse(readJson(file));
  if (script.success) return script.data;
  throw new UserError(
    `The script ${file} is not a list of answers:\n${z.prettifyError(script.error)}\nSee docs/models.md.`,
  );
}

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new UserError(`The script ${file} cannot be read as JSON: ${errorText(error)}`);
  }
}

/**
 * The answers of a script. The position in it is the number of assistant messages in the conversation, counted over the
 * entries that belong to the conversation, so a restart continues where the script was; only which errors were already
 * served is kept in memory.
 */
export function scriptedAnswers(script: Script): (request: BuiltInRequest) => BuiltInReply {
  const served = new Set<Script[number]>();
  return (request) => nextReply(script, request, served);
}

function nextReply(script: Script, { messages }: BuiltInRequest, served: Set<Script[number]>): BuiltInReply {
  const unplaced = script.find(({ asked }) => asked !== undefined && isAsked(messages.at(-1), asked));
  if (unplaced) return toBuiltInReply(unplaced);
  const place = messages.filter((message) => message.role === 'assistant').length;
  const entries = script.filter((entry) => entry.asked === undefined && belongsToConversation(entry, messages));
  let answers = 0;
  for (const entry of entries) {
    if (entry.status === undefined) {
      if (answers++ === place) return toBuiltInReply(entry);
    } else if (answers === place && !served.has(entry)) {
      served.add(entry);
      return toBuiltInReply(entry);
    }
  }
  const last = entries.at(-1);
  return last?.repeat ? toBuiltInReply(last) : { text: SCRIPT_END, calls: [] };
}

const isAsked = (last: ChatMessage | undefined, words: string): boolean =>
  last !== undefined && isDaemonMessage(last) && last.content?.includes(words) === true;

function belongsToConversation({ when }: Script[number], messages: ChatMessage[]): boolean {
  return when === undefined || messages.some((message) => !isDaemonMessage(message) && message.content?.includes(when));
}

function toBuiltInReply(entry: Script[number]): BuiltInReply {
  const { status, text = '', calls = [], delay_ms: delayMs, retry_after: retryAfter } = entry;
  if (status !== undefined) return { status, message: text || 'a scripted error', retryAfter, delayMs };
  const asked = calls.map(({ id, name, args }) => ({
    id,
    name,
    args: typeof args === 'string' ? args : JSON.stringify(args),
  }));
  return { text, calls: asked, delayMs };
}
