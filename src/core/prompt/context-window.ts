import type { EventBody } from '../../protocol/session/event.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import type { ChatMessage } from '../session/session-messages.ts';
import { contextWindowOf } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';
import { chatMessages } from './chat-messages.ts';
import { summarizeTurns } from './context-summary.ts';

/** Share of the window that a conversation may fill before outputs are left out; the rest is for the answer. */
const WINDOW_SHARE = 0.75;
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

/** Share of the window that a request may fill, with the system message and the tools; the rest is for the answer. */
const REQUEST_SHARE = 0.85;
/** Our own words to the model, and the tools whose schemas are sent; those of servers are offered by a line. */
const OWN_TOKENS = 2500;
/** Characters of each text and list that people wrote, as far as a request shows them. */
const MAX_SHOWN_CHARS = 16_000;

/** The window of a model as far as a conversation may have it: what is sent beside it counts, too. */
export function conversationWindow(session: Session, rules: Rules): number {
  const window = contextWindowOf(session, rules);
  const { memory, user, project, skills } = rules.notes;
  const listed = skills.map(({ name, description }) => `${name} ${description}`).join('\n');
  const texts = [memory.workspace, memory.session, user, project?.text ?? '', listed];
  const shown = texts.reduce((sum, text) => sum + countTextTokens(text.slice(0, MAX_SHOWN_CHARS)), 0);
  const beside = OWN_TOKENS + countTextTokens(rules.instructions) + shown;
  return Math.max(window / 3, Math.min(window, (window * REQUEST_SHARE - beside) / WINDOW_SHARE));
}

/** What a request can do without: long outputs and images, never what a person or the model wrote. */
const isElidable = (message: ChatMessage): boolean =>
  message.role === 'user'
    ? message.images !== undefined
    : message.role === 'tool' && message.by === undefined && message.content.length > SHORT_OUTPUT;

export const countImages = (message: ChatMessage): number =>
  message.role === 'user' ? (message.images?.length ?? 0) : 0;

/** A message without its first images. */
export function withoutFirstImages(
  { images = [], content }: ChatMessage & { role: 'user' },
  count: number,
): ChatMessage {
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

function estimateTokens(message: ChatMessage): number {
  const { tool_calls, provider_fields } = message.role === 'assistant' ? message : {};
  const unseen = [tool_calls, provider_fields].map((part) => (part ? JSON.stringify(part) : '')).join('');
  return countTextTokens((message.content ?? '') + unseen) + 4 + countImages(message) * IMAGE_TOKENS;
}

/** A rough count: about four characters per token, one per character outside Latin scripts. */
export function countTextTokens(text: string): number {
  let wide = 0;
  for (let place = 0; place < text.length; place++) if (text.charCodeAt(place) > 0x2e7f) wide++;
  return wide + (text.length - wide) / 4;
}

/**
 * How many windows a conversation may fill before its oldest turns are compacted. Leaving out old outputs
 * (`elideOldOutputs`) takes it that far; beyond that, they would only be kept in memory and in snapshots, and never be
 * sent.
 */
const MAX_WINDOWS = 1.25;
/**
 * The share of the room that stays. So each compaction removes much at once, and a provider's prefix cache is rarely
 * lost.
 */
const KEPT_SHARE = 0.25;
/** Models that track their position by reading the whole conversation, and have no window. */
const MODELS_WITHOUT_WINDOW = /^(?:runbook$|scripted:)/;

/**
 * The event that compacts the oldest turns, if the conversation has outgrown its window and there is enough to compact.
 * A call stays with its result, an answer with the messages delivered to it, and the last turn always stays.
 */
export function compactionEvent(session: Session, rules: Rules): EventBody | null {
  if (MODELS_WITHOUT_WINDOW.test(session.run?.model ?? rules.model ?? '')) return null;
  const conversation = chatMessages(session);
  const window = conversationWindow(session, rules);
  const room = window * WINDOW_SHARE;
  if (!hasOutgrownWindow(conversation, window)) return null;
  const from = compactionCut(conversation, room * KEPT_SHARE);
  const old = conversation.slice(0, from);
  if (countTokens(old) < room * KEPT_SHARE) return null;
  return {
    type: 'context.compacted',
    upto: session.seq,
    summary: summarizeTurns(session, old, rules),
    kept: conversation.length - from,
  };
}

function hasOutgrownWindow(conversation: readonly ChatMessage[], window: number): boolean {
  const size = countTokens(conversation);
  if (size <= window * WINDOW_SHARE) return false;
  return size > window * MAX_WINDOWS || countTokens(elideOldOutputs(conversation, window)) > window * WINDOW_SHARE;
}

/** Where the kept part starts: the first place with no more than `most` tokens after it. */
function compactionCut(conversation: readonly ChatMessage[], most: number): number {
  const last = conversation.findLastIndex((message) => message.role === 'assistant');
  let size = 0;
  let from = conversation.length;
  for (let place = conversation.length - 1; place > 0; place--) {
    const message = conversation[place];
    if (!message) break;
    size += countMessageTokens(message);
    if (size > most && from <= last) break;
    if (isTurnStart(conversation, place)) from = place;
  }
  // A single long turn is never cut.
  return from > last ? 0 : from;
}

/** A turn starts with the messages delivered to an answer, or with the answer if there were none. */
function isTurnStart(conversation: readonly ChatMessage[], place: number): boolean {
  return conversation[place]?.role !== 'tool' && conversation[place - 1]?.role !== 'user';
}
