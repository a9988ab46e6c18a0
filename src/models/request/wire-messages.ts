import { createHash } from 'node:crypto';
import { z } from 'zod';
import { isRecord } from '../../base/collections.ts';
import { parseJson } from '../../base/json.ts';
import type { ChatMessage, ModelRequest } from '../../engine/ports/session-ports.ts';
import type { ImageFile } from '../../protocol/session/message.ts';
import { FieldsMode, toWireAssistant } from '../answer/reasoning.ts';

/** How messages are written for an endpoint. */
export const MessageStyle = z.object({
  fields: FieldsMode,
  /** Ids of calls: as they came, or nine letters and digits, which Mistral wants. */
  ids: z.enum(['as they came', 'short']),
  /** What a message without words has: what came (mostly null), an empty text, or words; each is refused somewhere. */
  empty: z.enum(['as it came', 'text', 'words']),
});
export type MessageStyle = z.infer<typeof MessageStyle>;

/** Messages in wire format, each as the bytes of its JSON; and the images they contain. */
export type SerializedMessages = { messages: Buffer[]; sent: ImageFile[] };

/** The messages in wire format: images follow the text as content parts, or are named in words if they are not sent. */
export async function serializeMessages(
  { messages, image: read }: Pick<ModelRequest, 'messages' | 'image'>,
  style: MessageStyle,
  hides: (image: ImageFile) => string | undefined,
): Promise<SerializedMessages> {
  const sent: ImageFile[] = [];
  const wire: Buffer[] = [];
  for (const message of messages) {
    if (message.role !== 'user' || !message.images) {
      wire.push(messageBytes(message, style));
      continue;
    }
    const parts: object[] = [];
    const left: string[] = [];
    for (const image of message.images) {
      const why = hides(image);
      const bytes = why === undefined ? await read?.(image) : undefined;
      if (!bytes) left.push(`[not shown: work/${image.path}, ${why ?? 'the file has changed or is gone'}]`);
      else {
        sent.push(image);
        const url = `data:${image.type};base64,${Buffer.from(bytes).toString('base64')}`;
        parts.push({ type: 'image_url', image_url: { url } });
      }
    }
    const text = [message.content, ...left].join('\n');
    const content = parts.length > 0 ? [{ type: 'text' as const, text }, ...parts] : text;
    wire.push(jsonBytes({ role: 'user', content }));
  }
  return { messages: wire, sent };
}

/** Messages are immutable, so each is serialised once, however often the conversation is sent. */
const messageBytesCache = new WeakMap<ChatMessage, { key: string; bytes: Buffer }>();

function messageBytes(message: ChatMessage, style: MessageStyle): Buffer {
  const key = `${style.fields} ${style.ids} ${style.empty}`;
  const known = messageBytesCache.get(message);
  if (known?.key === key) return known.bytes;
  const bytes = jsonBytes(toWireMessage(message, style));
  messageBytesCache.set(message, { key, bytes });
  return bytes;
}

const jsonBytes = (message: object): Buffer => Buffer.from(JSON.stringify(message));

/** The message without our own fields, with ids, names and arguments that every endpoint accepts. */
function toWireMessage(message: ChatMessage, style: MessageStyle): object {
  const content = (text: string): string => (text === '' && style.empty === 'words' ? '(empty)' : text);
  if (message.role === 'tool')
    return { role: 'tool', tool_call_id: wireId(message.tool_call_id, style), content: content(message.content) };
  if (message.role !== 'assistant') return { role: message.role, content: content(message.content) };
  const { tool_calls, ...rest } = message;
  const calls = tool_calls?.map(({ via, ...call }) => ({
    ...call,
    id: wireId(call.id, style),
    function: asItWasCalled(via, wireName(call.function.name), wireArguments(call.function.arguments)),
  }));
  const said = {
    ...rest,
    content: rest.content || (style.empty === 'as it came' ? rest.content : NO_WORDS[style.empty]),
  };
  return toWireAssistant(calls ? { ...said, tool_calls: calls } : said, style.fields);
}

const NO_WORDS = { text: '', words: '(calls a tool)' };

/** OpenAI's limit; the ids of other endpoints are longer. */
const MAX_ID_CHARS = 40;
const MAX_NAME_CHARS = 64;
const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';

function wireId(id: string, { ids }: MessageStyle): string {
  if (ids === 'short') return /^[A-Za-z0-9]{9}$/.test(id) ? id : hashLetters(id, 9);
  return /^[\x21-\x7e]+$/.test(id) && id.length <= MAX_ID_CHARS ? id : `call_${hashLetters(id, 24)}`;
}

const hashLetters = (text: string, count: number): string =>
  [...createHash('sha256').update(text).digest().subarray(0, count)].map((byte) => LETTERS[byte % 62]).join('');

/** A call that came through another tool is that tool's in the conversation: what the model wrote stays as it was. */
const asItWasCalled = (via: string | undefined, name: string, args: string) =>
  via === undefined
    ? { name, arguments: args }
    : { name: via, arguments: `{"tool":${JSON.stringify(name)},"arguments":${args}}` };

/** A name that the model made up is recorded as it came; endpoints refuse a conversation for it. */
function wireName(name: string): string {
  return name.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, MAX_NAME_CHARS) || 'unknown';
}

/** Arguments that are no JSON object are wrapped: strict endpoints refuse a conversation for one malformed call. */
function wireArguments(text: string): string {
  if (text.trim() === '') return '{}';
  return isRecord(parseJson(text)) ? text : JSON.stringify({ unparsed: text });
}

const flatCache = new WeakMap<ChatMessage, ChatMessage>();

/** A call or its result in words, in the syntax of Hermes: nothing is left but roles and texts. */
export function flatMessage(message: ChatMessage): ChatMessage {
  const flat = flatCache.get(message) ?? inWords(message);
  flatCache.set(message, flat);
  return flat;
}

function inWords(message: ChatMessage): ChatMessage {
  if (message.role === 'tool')
    return { role: 'user', content: `<tool_response>\n${message.content}\n</tool_response>` };
  if (message.role !== 'assistant') return message.content === '' ? { ...message, content: '(empty)' } : message;
  const calls = message.tool_calls?.map(
    ({ function: { name, arguments: args } }) =>
      `<tool_call>\n{"name": ${JSON.stringify(name)}, "arguments": ${wireArguments(args)}}\n</tool_call>`,
  );
  return { role: 'assistant', content: [message.content, ...(calls ?? [])].filter(Boolean).join('\n') || '(empty)' };
}

/** Inserted between the results of calls and a user message, which may not follow each other. */
const ACKNOWLEDGEMENT: ChatMessage = { role: 'assistant', content: 'OK.' };

/**
 * The same conversation with alternating user and assistant messages; results of calls belong to their assistant. The
 * rules of an endpoint without a system role go to the first user message.
 */
export function orderRoles(
  messages: readonly ChatMessage[],
  { alternates, hasSystem }: { alternates: boolean; hasSystem: boolean },
): readonly ChatMessage[] {
  const named = hasSystem
    ? messages
    : messages.map((one): ChatMessage => (one.role === 'system' ? { role: 'user', content: one.content } : one));
  if (!alternates) return named;
  const result: ChatMessage[] = [];
  for (const message of named) {
    const last = result.at(-1);
    const joined = last && joinMessages(last, message);
    if (joined) result[result.length - 1] = joined;
    else if (last?.role === 'tool' && message.role === 'user') result.push(ACKNOWLEDGEMENT, message);
    else result.push(message);
  }
  return result;
}

function joinMessages(last: ChatMessage, next: ChatMessage): ChatMessage | undefined {
  const content = [last.content, next.content].filter(Boolean).join('\n\n');
  if (last.role === 'user' && next.role === 'user') {
    const images = [...(last.images ?? []), ...(next.images ?? [])];
    return { role: 'user', content, ...(images.length > 0 && { images }) };
  }
  if (last.role === 'assistant' && next.role === 'assistant' && !last.tool_calls) return { ...next, content };
  return undefined;
}
