import { APIError } from 'openai';
import type { ChatCompletionContentPart, ChatCompletionMessageParam } from 'openai/resources/chat/completions';
import type { ChatMessage, ModelRequest } from '../../engine/ports/session-ports.ts';
import type { ToolSpec } from '../../engine/ports/tool-ports.ts';
import type { ImageFile } from '../../protocol/session/message.ts';
import { refusesUsageOption } from '../answer/endpoint-errors.ts';
import { type FieldsMode, toWireAssistant } from '../answer/reasoning.ts';

type RequestParts = { model: string; wire: readonly Buffer[]; tools: readonly ToolSpec[] };

/**
 * The body that the client's `chat.completions.create` would send with `stream`, assembled from cached bytes of earlier
 * requests, since a conversation only grows at its end. Serialising everything again took a sixth of an iteration's
 * processor time at 50 messages.
 */
export function buildRequestBody({ model, wire, tools }: RequestParts, withUsage: boolean): Buffer {
  const options = `${withUsage ? ',"stream_options":{"include_usage":true}' : ''}}`;
  return Buffer.concat([
    Buffer.from(`{"model":${JSON.stringify(model)},"messages":[`),
    ...joinWithCommas(wire),
    Buffer.from(']'),
    ...(tools.length > 0 ? [Buffer.from(',"tools":['), ...joinWithCommas(tools.map(toolBytes)), Buffer.from(']')] : []),
    Buffer.from(`,"stream":true${options}`),
  ]);
}

const COMMA = Buffer.from(',');

function joinWithCommas(parts: readonly Buffer[]): Buffer[] {
  const list: Buffer[] = [];
  for (const part of parts) list.push(part, COMMA);
  return list.slice(0, -1);
}

const toolBytesCache = new WeakMap<ToolSpec, Buffer>();

/** Cached, since the same tool objects are sent with every call. */
function toolBytes(spec: ToolSpec): Buffer {
  const bytes = toolBytesCache.get(spec) ?? Buffer.from(JSON.stringify({ type: 'function', function: spec }));
  toolBytesCache.set(spec, bytes);
  return bytes;
}

/** Which images are not sent to a model, and why. Learned from refusals and kept until the daemon ends. */
export type ImageSupport = {
  /** Why this image is named instead of sent; undefined if it is sent. */
  reasonHidden(model: string, image: ImageFile): string | undefined;
  /** Whether a refusal was about the images sent; if so they are hidden from now on. */
  learnFromRefusal(model: string, sent: readonly ImageFile[], error: unknown): boolean;
};

/** `images`: the person's setting; undefined: images are sent until a model refuses them. */
export function trackImageSupport(images: boolean | undefined): ImageSupport {
  const blind = new Set<string>();
  const refused = new Set<string>();
  return {
    reasonHidden(model, { sha256 }) {
      if (images === false || blind.has(model)) return 'this model sees no images';
      return refused.has(sha256) ? 'the endpoint refused it' : undefined;
    },
    learnFromRefusal(model, sent, error) {
      if (images === true || sent.length === 0 || !isAboutImages(error)) return false;
      if (isAboutOneImage(error)) for (const { sha256 } of sent) refused.add(sha256);
      else blind.add(model);
      return true;
    },
  };
}

/** Statuses of endpoints that refuse a request with images. */
const IMAGE_REFUSAL_STATUSES: ReadonlySet<number | undefined> = new Set([400, 404, 415, 422]);
/** Text-only endpoints complain about the format: the content of a message is a list where they expect text. */
const ABOUT_IMAGES =
  /image|vision|multi-?modal|mmproj|content[ _-]?(?:type|part)|content\b.{0,40}\bstring|valid string|should be 'text'/i;
/** llama.cpp answers 500 (its issue 13566). */
const LLAMA_500 = /image input is not supported|mmproj/i;
/** The model has vision, but rejects this file. */
const ABOUT_ONE_IMAGE =
  /(?:invalid|corrupt|malformed|unsupported|broken|truncated)[ _](?:base64 )?image|image[ _](?:\w+ )?(?:is|was) (?:invalid|corrupt|too)|(?:process|decode|parse|load|identify|read) (?:the )?(?:input )?image|image_parse|image exceeds|invalid base64/i;

const NO_MATCH = /(?!)/;

function isAboutImages(error: unknown): error is APIError {
  if (!(error instanceof APIError)) return false;
  return (error.status === 500 ? LLAMA_500 : IMAGE_REFUSAL_STATUSES.has(error.status) ? ABOUT_IMAGES : NO_MATCH).test(
    refusalText(error),
  );
}

const isAboutOneImage = (error: unknown): boolean =>
  error instanceof APIError && ABOUT_ONE_IMAGE.test(refusalText(error));

const refusalText = (error: APIError): string => `${error.message} ${JSON.stringify(error.error ?? '')}`;

/** Messages in wire format, each as the bytes of its JSON; and the images they contain. */
export type SerializedMessages = { messages: Buffer[]; sent: ImageFile[] };

/** The messages in wire format: images follow the text as content parts, or are named in words if they are not sent. */
export async function serializeMessages(
  { messages, image: read }: Pick<ModelRequest, 'messages' | 'image'>,
  mode: FieldsMode,
  hides: (image: ImageFile) => string | undefined,
): Promise<SerializedMessages> {
  const sent: ImageFile[] = [];
  const wire: Buffer[] = [];
  for (const message of messages) {
    if (message.role !== 'user' || !message.images) {
      wire.push(messageBytes(message, mode));
      continue;
    }
    const parts: ChatCompletionContentPart[] = [];
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
const messageBytesCache = new WeakMap<ChatMessage, { mode: FieldsMode; bytes: Buffer }>();

function messageBytes(message: ChatMessage, mode: FieldsMode): Buffer {
  const known = messageBytesCache.get(message);
  if (known?.mode === mode) return known.bytes;
  const bytes = jsonBytes(toWireMessage(message, mode));
  messageBytesCache.set(message, { mode, bytes });
  return bytes;
}

const jsonBytes = (message: ChatCompletionMessageParam): Buffer => Buffer.from(JSON.stringify(message));

/** The message without our own fields. */
function toWireMessage(message: ChatMessage, mode: FieldsMode): ChatCompletionMessageParam {
  if (message.role === 'assistant') return toWireAssistant(message, mode);
  if (message.role === 'tool') return { role: 'tool', tool_call_id: message.tool_call_id, content: message.content };
  return message.role === 'user' ? { role: 'user', content: message.content } : message;
}

/**
 * The conversation with arguments that are not JSON wrapped as `{"unparsed": …}`, or undefined if all are valid. Strict
 * endpoints refuse a whole conversation for one malformed call by their own model.
 */
export function repairToolArguments(messages: ChatMessage[]): ChatMessage[] | undefined {
  let broken = false;
  const repaired = messages.map((message): ChatMessage => {
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
  return broken ? repaired : undefined;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** The style of requests that an endpoint accepts for a model. Learned from refusals and kept until the daemon ends. */
export type RequestStyle = {
  /** Whether `stream_options` requests the token usage. */
  usage: boolean;
  fields: FieldsMode;
  /** Whether roles must alternate, so that consecutive user messages are joined. */
  alternates: boolean;
};

export const FIRST_STYLE: RequestStyle = { usage: true, fields: 'as they came', alternates: false };

/** The style to try after a refusal; undefined if it was not about the style, or if no other style is left. */
export function styleAfter(error: unknown, style: RequestStyle): RequestStyle | undefined {
  if (style.usage && refusesUsageOption(error)) return { ...style, usage: false };
  if (!style.alternates && refusesRoleOrder(error)) return { ...style, alternates: true };
  const fields = fieldsModeAfter(error, style.fields);
  return fields && { ...style, fields };
}

/** The fields mode to try after a refusal, if it was about the fields that some endpoints require back. */
function fieldsModeAfter(error: unknown, mode: FieldsMode): FieldsMode | undefined {
  if (!(error instanceof APIError) || (error.status !== 400 && error.status !== 422)) return undefined;
  const text = `${error.message} ${JSON.stringify(error.error ?? '')}`;
  if (!/reasoning_(?:content|details)|extra_content|thought_signature/.test(text)) return undefined;
  const next = fieldsModeFor(text);
  return next === mode ? undefined : next;
}

function fieldsModeFor(refusal: string): FieldsMode {
  if (!/missing|must be (?:passed|provided|included)|is required/i.test(refusal)) return 'none';
  return refusal.includes('thought_signature') ? 'placeholder signature' : 'empty reasoning';
}

/** Errors of Mistral's API, and of the chat templates of Mistral and Gemma, which llama.cpp reports with 500. */
const ABOUT_ROLE_ORDER = /unexpected role '?user'? after role|roles must alternate|invalid_request_message_order/i;

const refusesRoleOrder = (error: unknown): boolean =>
  error instanceof APIError &&
  [400, 422, 500].includes(error.status ?? 0) &&
  ABOUT_ROLE_ORDER.test(`${error.message} ${JSON.stringify(error.error ?? '')}`);

/** Inserted between the results of calls and a user message, which may not follow each other. */
const ACKNOWLEDGEMENT: ChatMessage = { role: 'assistant', content: 'OK.' };

/** The same conversation with alternating user and assistant messages; results of calls belong to their assistant. */
export function alternateRoles(messages: readonly ChatMessage[]): ChatMessage[] {
  const result: ChatMessage[] = [];
  for (const message of messages) {
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
