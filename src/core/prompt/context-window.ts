import { listItems } from '../../base/collections.ts';
import { truncate } from '../../base/strings.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import { isDaemonBlock, parseUserMessage } from '../../protocol/session/prompt-tags.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { countCompletedSteps } from '../plan/step-graph.ts';
import type { ChatMessage } from '../session/session-messages.ts';
import { activePlan, contextWindowOf, sessionLanguage } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';
import { splitSentences } from '../text/prose.ts';
import { MODEL_WORDING } from './model-wording.ts';

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
  const conversation = listItems(session.conversation);
  const window = contextWindowOf(session, rules);
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

/** Longest line of a request or an answer, in code points. */
const MAX_REQUEST_LINE = 400;
const MAX_ANSWER_LINE = 300;
/** A longer condition is a task of its own. */
const MAX_CONDITION = 300;
/** Characters of the whole summary; and per token of a small window, about a tenth of it. */
const MAX_SUMMARY_CHARS = 12_000;
const CHARS_PER_TOKEN = 0.4;

/** Words about how something is to be done, rather than what: kept as typed. */
const CONDITION_WORDS =
  /\b(?:must|never|always|only|don['’]t|do not|at most|at least|no more than|no less than|without|limits?|budget|deadline|maximum|minimum|except|unless|make sure)\b|不要|不能|不得|不许|必须|必須|务必|只能|只要|最多|至少|别|禁止|除非|确保/i;

/**
 * A summary of older turns, by rules alone: people's requests, shortened, but with every condition as they typed it;
 * the answers, shortened. Goal, finished steps and the plan are in each request anyway; the summary has the notes on
 * the plan's steps and the other plans. An earlier summary is carried over.
 */
export function summarizeTurns(session: Session, old: readonly ChatMessage[], rules: Rules): string {
  const words = MODEL_WORDING[sessionLanguage(session, rules)];
  const most = Math.min(MAX_SUMMARY_CHARS, Math.floor(contextWindowOf(session, rules) * CHARS_PER_TOKEN));
  const lines = fitLines(old.flatMap(summaryLines), most);
  return [words.earlier, ...lines, ...standingFacts(session)].join('\n');
}

type SummaryLine = { worth: number; text: string };

const PERSON_PREFIX = '- person: ';
const MODEL_PREFIX = '- you: ';
/** Senders who may not give orders. */
const OTHER_PREFIX = '- other: ';

function summaryLines(message: ChatMessage): SummaryLine[] {
  if (message.role === 'user')
    return isDaemonBlock(message.content)
      ? message.content.split('\n').flatMap(earlierSummaryLines)
      : [requestLine(message.content)];
  if (message.role === 'tool' && message.by === 'person') return [requestLine(message.content)];
  if (message.role !== 'assistant' || message.tool_calls || !message.content) return [];
  return [{ worth: 0, text: MODEL_PREFIX + truncate(oneLine(message.content), MAX_ANSWER_LINE) }];
}

/** A line of an earlier summary. */
function earlierSummaryLines(text: string): SummaryLine[] {
  if (text.startsWith(MODEL_PREFIX) || text.startsWith(OTHER_PREFIX)) return [{ worth: 0, text }];
  return text.startsWith(PERSON_PREFIX) ? [{ worth: CONDITION_WORDS.test(text) ? 2 : 1, text }] : [];
}

/** In the daemon's note on a message; only the name of a template may come before it. */
const SENDER_NOTE = /^(?:template [^;]*; )?(from (?:"(?:[^"\\]|\\.)*"|[^;,]*))/;

function requestLine(message: string): SummaryLine {
  const { note, text: content, isData } = parseUserMessage(message);
  const sender = SENDER_NOTE.exec(note)?.[1] ?? '';
  if (isData) return { worth: 0, text: `${OTHER_PREFIX}(${sender}) ${truncate(oneLine(content), MAX_REQUEST_LINE)}` };
  const start = truncate(oneLine(content), MAX_REQUEST_LINE);
  const conditions = content
    .split('\n')
    .flatMap(splitSentences)
    .filter((sentence) => CONDITION_WORDS.test(sentence) && sentence.length <= MAX_CONDITION)
    .map(oneLine)
    .filter((sentence) => !start.includes(sentence));
  const text = [
    PERSON_PREFIX + (sender && `(${sender}) `) + start,
    ...conditions.map((sentence) => `“${sentence}”`),
  ].join(' ');
  return { worth: CONDITION_WORDS.test(text) ? 2 : 1, text };
}

/**
 * As many lines as fit: the oldest answers are dropped first, then the oldest requests, those with a condition last.
 */
function fitLines(lines: SummaryLine[], most: number): string[] {
  let size = lines.reduce((sum, line) => sum + line.text.length + 1, 0);
  const gone = new Set<SummaryLine>();
  for (const worth of [0, 1, 2])
    for (const line of lines) {
      if (size <= most) break;
      if (line.worth !== worth) continue;
      gone.add(line);
      size -= line.text.length + 1;
    }
  return lines.filter((line) => !gone.has(line)).map((line) => line.text);
}

/** What people wrote down and no block of the daemon repeats. Rebuilt each time, so that it is up to date. */
function standingFacts(session: Session): string[] {
  const notes = (activePlan(session)?.steps ?? []).flatMap((step) =>
    step.notes && (step.status === 'pending' || step.status === 'running')
      ? [`* ${step.id}, notes: ${truncate(oneLine(step.notes), MAX_REQUEST_LINE)}`]
      : [],
  );
  const named = session.limitsByPerson ?? {};
  const limits = Object.keys(named).length > 0 ? [`* limits: ${JSON.stringify(named)}`] : [];
  const plans = Object.values(session.shelvedPlans).map(
    (plan) =>
      `* ${plan.id}, paused: ${truncate(oneLine(plan.goal), 200)} (${countCompletedSteps(plan)}/${plan.steps.length})`,
  );
  return [...notes, ...limits, ...plans.slice(-5)];
}

const oneLine = (text: string): string => text.replace(/\s+/g, ' ').trim();
