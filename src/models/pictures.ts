import { APIError } from 'openai';
import type { ChatCompletionContentPart, ChatCompletionMessageParam } from 'openai/resources/chat/completions';
import type { ChatMessage, ModelRequest } from '../engine/ports.ts';
import type { ImageFile } from '../protocol/images.ts';

/** Which images a model is not sent, and why; a daemon learns it from refusals and knows it as long as it lives. */
export type Sight = {
  /** Why this image is only named; undefined: it is sent. */
  hides(model: string, image: ImageFile): string | undefined;
  /** Whether a refusal was about the images sent; then they are hidden from now on. */
  learns(model: string, sent: readonly ImageFile[], error: unknown): boolean;
};

/** `images`: what a person set; undefined: tried, and given up for a model that refuses. */
export function openSight(images: boolean | undefined): Sight {
  const blind = new Set<string>();
  const refused = new Set<string>();
  return {
    hides(model, { sha256 }) {
      if (images === false || blind.has(model)) return 'this model sees no images';
      return refused.has(sha256) ? 'the endpoint refused it' : undefined;
    },
    learns(model, sent, error) {
      if (images === true || sent.length === 0 || !isAboutImages(error)) return false;
      if (isAboutOne(error)) for (const { sha256 } of sent) refused.add(sha256);
      else blind.add(model);
      return true;
    },
  };
}

/** Statuses of endpoints that refuse a request with images. */
const REFUSALS: ReadonlySet<number | undefined> = new Set([400, 404, 415, 422]);
/** Text-only endpoints complain of the form: the content of a message is a list where they want a text. */
const ABOUT_IMAGES =
  /image|vision|multi-?modal|mmproj|content[ _-]?(?:type|part)|content\b.{0,40}\bstring|valid string|should be 'text'/i;
/** llama.cpp answers 500 (its issue 13566). */
const LLAMA_500 = /image input is not supported|mmproj/i;
/** The model sees, but not this file. */
const ABOUT_ONE =
  /(?:invalid|corrupt|malformed|unsupported|broken|truncated)[ _](?:base64 )?image|image[ _](?:\w+ )?(?:is|was) (?:invalid|corrupt|too)|(?:process|decode|parse|load|identify|read) (?:the )?(?:input )?image|image_parse|image exceeds|invalid base64/i;

const NEVER = /(?!)/;

function isAboutImages(error: unknown): error is APIError {
  if (!(error instanceof APIError)) return false;
  return (error.status === 500 ? LLAMA_500 : REFUSALS.has(error.status) ? ABOUT_IMAGES : NEVER).test(wordsOf(error));
}

const isAboutOne = (error: unknown): boolean => error instanceof APIError && ABOUT_ONE.test(wordsOf(error));

const wordsOf = (error: APIError): string => `${error.message} ${JSON.stringify(error.error ?? '')}`;

/** Messages as the wire has them, each as the bytes of its JSON; and the images that are sent in them. */
export type WireMessages = { messages: Buffer[]; sent: ImageFile[] };

/** The messages as the wire has them: images as parts behind the text, and named in words where they are not sent. */
export async function onTheWire(
  { messages, image: read }: Pick<ModelRequest, 'messages' | 'image'>,
  hides: (image: ImageFile) => string | undefined,
): Promise<WireMessages> {
  const sent: ImageFile[] = [];
  const wire: Buffer[] = [];
  for (const message of messages) {
    if (message.role !== 'user' || !message.images) {
      wire.push(plainJson(message));
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
    wire.push(json({ role: 'user', content }));
  }
  return { messages: wire, sent };
}

/** Messages never change, so each is written once, however often the conversation is sent. */
const written = new WeakMap<ChatMessage, Buffer>();

function plainJson(message: ChatMessage): Buffer {
  const bytes = written.get(message) ?? json(plain(message));
  written.set(message, bytes);
  return bytes;
}

const json = (message: ChatCompletionMessageParam): Buffer => Buffer.from(JSON.stringify(message));

/** Without what is ours. */
function plain(message: ChatMessage): ChatCompletionMessageParam {
  if (message.role === 'tool') return { role: 'tool', tool_call_id: message.tool_call_id, content: message.content };
  return message.role === 'user' ? { role: 'user', content: message.content } : message;
}
