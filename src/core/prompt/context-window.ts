import type { ChatMessage } from '../session/session-messages.ts';

/** Share of the window that a conversation may fill before outputs are left out; the rest is for the answer. */
export const WINDOW_SHARE = 0.75;
/**
 * Outputs are left out in groups of this size, so that the beginning of the request rarely changes (providers cache
 * it).
 */
const ELISION_GROUP = 8;
const SHORT_OUTPUT = 200;

/**
 * The conversation with its oldest tool outputs left out as it nears the model's window. Calls and results stay paired,
 * and nothing a person or the model wrote is touched. `window` is in tokens. Deterministic.
 */
export function elideOldOutputs(conversation: readonly ChatMessage[], window: number): readonly ChatMessage[] {
  let size = countTokens(conversation);
  const room = window * WINDOW_SHARE;
  if (size <= room) return conversation;
  const outputs = conversation.flatMap((message, place) => (isElidable(message) ? [place] : []));
  const gone = new Set<number>();
  // The newest outputs are what the model is working with: they stay as long as there is room.
  for (let from = 0; from + ELISION_GROUP < outputs.length && size > room; from += ELISION_GROUP) {
    for (const place of outputs.slice(from, from + ELISION_GROUP)) {
      const message = conversation[place];
      if (message) size -= countMessageTokens(message) - countMessageTokens(elideMessage(message));
      gone.add(place);
    }
  }
  // If that is not enough, they go too, one by one; the last one always stays.
  for (const place of outputs.filter((one) => !gone.has(one)).slice(0, -1)) {
    if (size <= room) break;
    const message = conversation[place];
    if (message) size -= countMessageTokens(message) - countMessageTokens(elideMessage(message));
    gone.add(place);
  }
  return conversation.map((message, place) => (gone.has(place) ? elideMessage(message) : message));
}

/** What a request can do without: long outputs and images, never what a person or the model wrote. */
const isElidable = (message: ChatMessage): boolean =>
  message.role === 'user'
    ? message.images !== undefined
    : message.role === 'tool' && message.by === undefined && message.content.length > SHORT_OUTPUT;

/**
 * The most images in a request; and how many of the oldest are dropped at once, so that its beginning rarely changes.
 */
const MAX_IMAGES = 8;
const IMAGES_AT_ONCE = 4;

/** The same messages with at most eight images: the oldest are left out first, and named in their place. */
export function limitImages(messages: readonly ChatMessage[]): ChatMessage[] {
  const count = messages.reduce((sum, message) => sum + countImages(message), 0);
  let excess = Math.ceil((count - MAX_IMAGES) / IMAGES_AT_ONCE) * IMAGES_AT_ONCE;
  return messages.map((message) => {
    if (excess <= 0 || message.role !== 'user' || !message.images) return message;
    const gone = message.images.slice(0, excess);
    excess -= gone.length;
    return withoutFirstImages(message, gone.length);
  });
}

const countImages = (message: ChatMessage): number => (message.role === 'user' ? (message.images?.length ?? 0) : 0);

/** A message without its first images. */
function withoutFirstImages({ images = [], content }: ChatMessage & { role: 'user' }, count: number): ChatMessage {
  const left = images.slice(count);
  const names = images.slice(0, count).map(({ path }) => `work/${path}`);
  const shortened = `${content}\n[no longer shown: ${names.join(', ')}; read_file shows an image again]`;
  return { role: 'user', content: shortened, ...(left.length > 0 && { images: left }) };
}

function elideMessage(message: ChatMessage): ChatMessage {
  if (message.role === 'user' && message.images) return withoutFirstImages(message, message.images.length);
  return message.role === 'tool'
    ? {
        ...message,
        content: `[output of ${message.content.length} characters left out; call the tool again if you need it]`,
      }
    : message;
}

/** Messages are immutable, so each is counted once, however often the conversation is sent. */
const tokenCache = new WeakMap<ChatMessage, number>();

/** Rough number of tokens in a message. */
export function countMessageTokens(message: ChatMessage): number {
  const known = tokenCache.get(message);
  if (known !== undefined) return known;
  const tokens = estimateTokens(message);
  tokenCache.set(message, tokens);
  return tokens;
}

/** Conversations grow at their end: tokens already counted are not counted again. */
const tokenSumCache = new WeakMap<readonly ChatMessage[], { length: number; tokens: number }>();

/** Rough number of tokens in messages. The list may only change by appending. */
export function countTokens(messages: readonly ChatMessage[]): number {
  const known = tokenSumCache.get(messages);
  const from = known && known.length <= messages.length ? known : { length: 0, tokens: 0 };
  let { tokens } = from;
  for (let place = from.length; place < messages.length; place++) {
    const message = messages[place];
    if (message) tokens += countMessageTokens(message);
  }
  tokenSumCache.set(messages, { length: messages.length, tokens });
  return tokens;
}

/** Rough size of an image: endpoints count from some 85 to 1,600 tokens for one, by its size and their own rules. */
const IMAGE_TOKENS = 1000;

/** A rough count: about four characters per token, one per character outside Latin scripts. */
function estimateTokens(message: ChatMessage): number {
  const { tool_calls, provider_fields } = message.role === 'assistant' ? message : {};
  const unseen = [tool_calls, provider_fields].map((part) => (part ? JSON.stringify(part) : '')).join('');
  const text = (message.content ?? '') + unseen;
  let wide = 0;
  for (let place = 0; place < text.length; place++) if (text.charCodeAt(place) > 0x2e7f) wide++;
  return wide + (text.length - wide) / 4 + 4 + countImages(message) * IMAGE_TOKENS;
}
