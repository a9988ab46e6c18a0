import { readFileSync } from 'node:fs';
import { z } from 'zod';
import type { ChatMessage } from '../engine/ports.ts';
import { errorText, UserError } from '../protocol/errors.ts';
import { isDaemons } from './daemon-block.ts';
import type { Send } from './http-send.ts';
import { type LocalChat, type LocalReply, localSend } from './local-send.ts';

const Call = z.strictObject({
  name: z.string(),
  args: z.union([z.string(), z.record(z.string(), z.unknown())]),
  id: z.string().optional(),
});

const Answer = z
  .strictObject({
    text: z.string().optional(),
    calls: z.array(Call).optional(),
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
 * - `text`, `calls` (`name`, `args` as an object or as a string that is passed on as it is, `id`): the answer.
 * - `status`, `retry_after` (seconds): an HTTP error in its place, with `text` as its message. It is served once by this
 *   process, before the answer that follows it, so a retry gets that answer.
 * - `delay_ms`: wait before answering.
 * - `when`: the entry belongs only to conversations in which some message (the daemon's block left out) holds this text.
 * - `asked`: the entry answers each request whose block of the daemon holds this text, such as a planner's question; it has no
 *   place among the others.
 * - `repeat`: on the last entry, it is given for ever; otherwise "The script has ended." follows it.
 */
export const Script = z.array(Answer);
export type Script = z.infer<typeof Script>;

const SCRIPT_END = 'The script has ended.';

/** Reads a script, once. Throws `UserError` where the file is missing, is no JSON or is no script. */
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
 * A door behind which a script is played. The place in it is the number of assistant messages in the conversation, counted over the
 * entries that belong to the conversation, so a restart goes on where the script was; only which errors were already
 * served is kept in memory.
 */
export function scriptedSend(script: Script): Send {
  const served = new Set<Script[number]>();
  return localSend((chat) => replyAt(script, chat, served));
}

function replyAt(script: Script, { messages }: LocalChat, served: Set<Script[number]>): LocalReply {
  const beside = script.find(({ asked }) => asked !== undefined && isAsked(messages.at(-1), asked));
  if (beside) return reply(beside);
  const place = messages.filter((message) => message.role === 'assistant').length;
  const entries = script.filter((entry) => entry.asked === undefined && belongs(entry, messages));
  let answers = 0;
  for (const entry of entries) {
    if (entry.status === undefined) {
      if (answers++ === place) return reply(entry);
    } else if (answers === place && !served.has(entry)) {
      served.add(entry);
      return reply(entry);
    }
  }
  const last = entries.at(-1);
  return last?.repeat ? reply(last) : { text: SCRIPT_END, calls: [] };
}

const isAsked = (last: ChatMessage | undefined, words: string): boolean =>
  last !== undefined && isDaemons(last) && last.content?.includes(words) === true;

function belongs({ when }: Script[number], messages: ChatMessage[]): boolean {
  return when === undefined || messages.some((message) => !isDaemons(message) && message.content?.includes(when));
}

function reply(entry: Script[number]): LocalReply {
  const { status, text = '', calls = [], delay_ms: delayMs, retry_after: retryAfter } = entry;
  if (status !== undefined) return { status, message: text || 'a scripted error', retryAfter, delayMs };
  const asked = calls.map(({ id, name, args }) => ({
    id,
    name,
    args: typeof args === 'string' ? args : JSON.stringify(args),
  }));
  return { text, calls: asked, delayMs };
}
