import { listItems, mapGet } from '../../base/collections.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import { type ImageFile, MAX_IMAGE_BYTES } from '../../protocol/session/message.ts';
import {
  daemonBlock,
  daemonNote,
  dataBlock,
  escapeUserText,
  indentContinuation,
} from '../../protocol/session/prompt-tags.ts';
import { ASK_USER_TOOL, PLAN_TOOL, SPAWN_TOOL } from '../../protocol/tool-calls/own-tools.ts';
import { saidMessage, textWithoutCommand } from '../messages/commands.ts';
import { isBareContinue, matchChoice } from '../messages/questions.ts';
import type { CallEnd, ChatMessage, HistoryItem, Message, SaidMessage } from '../session/session-messages.ts';
import type { Session } from '../session/session-state.ts';

type Item<Type> = Extract<HistoryItem, { type: Type }>;

/** Lists grow at their end, and items are immutable: each is written once, however often the conversation is sent. */
const written = new WeakMap<readonly HistoryItem[], ChatMessage[]>();
const messageOf = new WeakMap<HistoryItem, ChatMessage>();

/** The conversation as the model reads it: one message for each item. */
export function chatMessages({ conversation }: Session): readonly ChatMessage[] {
  const items = listItems(conversation);
  const messages = written.get(items) ?? [];
  for (const item of items.slice(messages.length)) {
    const message = messageOf.get(item) ?? toChatMessage(item);
    messageOf.set(item, message);
    messages.push(message);
  }
  written.set(items, messages);
  return messages;
}

function toChatMessage(item: HistoryItem): ChatMessage {
  if ('role' in item) return item;
  switch (item.type) {
    case 'message':
      return toUserMessage(item.message, item.nonce);
    case 'answer':
      return toAssistantMessage(item);
    case 'result':
      return item.isAnswer
        ? { role: 'tool', tool_call_id: item.call, content: answerText(item), by: 'person' }
        : { role: 'tool', tool_call_id: item.call, content: toolResultText(item) };
    case 'images':
      return imagesMessage(item);
    case 'summary':
      return toDaemonMessage(item.text, item.nonce);
    default:
      return item satisfies never;
  }
}

function imagesMessage({ images, nonce }: Item<'images'>): ChatMessage {
  const names = images.map(({ path }) => `work/${path}`).join(', ');
  return { ...toDaemonMessage(indentContinuation(`From the calls above, in this order: ${names}`), nonce), images };
}

/**
 * A message as the model reads it: a person's words as typed, those of a sender who may not give orders as data. What
 * the daemon knows about it stands in a line before it, which no text can forge; its image files are attached.
 */
export function toUserMessage(message: SaidMessage, nonce: string): ChatMessage & { role: 'user' } {
  const { from, as, text, template, attachments = [] } = message;
  const files = attachments.map((path) => `${quoteAmbiguousName(path)}${fileFacts(message, path)}`);
  const facts = [
    // Its steps need not be declared again.
    ...(template === undefined ? [] : [`template ${template}: its steps are in the plan`]),
    ...(from === undefined
      ? []
      : [`from ${quoteAmbiguousName(from)}${as === 'data' ? ', who gives no orders here' : ''}`]),
    ...(files.length > 0 ? [`attached: ${files.join(', ')}`] : []),
  ];
  const note = facts.length > 0 ? daemonNote(nonce, facts.join('; ')) : '';
  const images = imagesOfMessage(message);
  return {
    role: 'user',
    content: note + (as === 'data' ? dataBlock(nonce, text) : escapeUserText(nonce, text)),
    ...(images.length > 0 && { images }),
  };
}

/** Quotes a name that could be read as more than one. */
const quoteAmbiguousName = (name: string): string =>
  /["';,()]|\p{Cc}|^\s|\s$/u.test(name) ? JSON.stringify(name) : name;

/** The images among a message's files that can be shown to a model. */
function imagesOfMessage({ files = [] }: SaidMessage): ImageFile[] {
  return files.flatMap(({ path, bytes, image }) => (image ? [{ path, bytes, ...image }] : []));
}

function fileFacts({ files = [] }: SaidMessage, path: string): string {
  const file = files.find((one) => one.path === path);
  if (!file) return '';
  const large = / image$/.test(file.kind) && file.bytes > MAX_IMAGE_BYTES ? ', too large to be shown' : '';
  return ` (${file.kind}, ${file.bytes} bytes${large})`;
}

/** The daemon's words to the model, in a tag, so that they are not taken for a person's. */
export function toDaemonMessage(text: string, nonce: string): ChatMessage & { role: 'user' } {
  return { role: 'user', content: daemonBlock(nonce, text) };
}

/** The model's answer with its calls. */
function toAssistantMessage(answer: Item<'answer'>): ChatMessage {
  if (answer.calls.length === 0) return { role: 'assistant', content: answer.text };
  const tool_calls = answer.calls.map((call) => ({
    id: call.id,
    type: 'function' as const,
    function: { name: call.name, arguments: call.args },
    ...(call.via !== undefined && { via: call.via }),
    ...(call.provider_fields && { provider_fields: call.provider_fields }),
  }));
  const { provider_fields } = answer;
  return {
    role: 'assistant',
    content: answer.text === '' ? null : answer.text,
    tool_calls,
    ...(provider_fields && { provider_fields }),
  };
}

/** Tools whose results are the daemon's own words, or instructions a person wrote down. */
const TRUSTED_TOOLS: ReadonlySet<string> = new Set([PLAN_TOOL.name, ASK_USER_TOOL.name, 'skill']);

/**
 * The result of a call as the model receives it: a tool's output is data; the daemon's words about the call stand
 * outside it.
 */
function toolResultText({ nonce, tool, began, end }: Item<'result'>): string {
  const output = end.output ?? '';
  if (!('why' in end)) {
    // A call that never started has no output: the daemon says why.
    const isDaemons = !began && tool !== SPAWN_TOOL.name;
    return isDaemons || TRUSTED_TOOLS.has(tool) ? output : dataBlock(nonce, output);
  }
  const note = interruptionNote(end);
  return end.output === undefined ? note : `${note}\n${dataBlock(nonce, output)}`;
}

/** A person's answer to a question is theirs; if the question was closed, the daemon says why. */
function answerText({ end }: Item<'result'>): string {
  const note = 'why' in end ? [interruptionNote(end)] : [];
  return [...note, ...(end.output === undefined ? [] : [end.output])].join('\n');
}

function interruptionNote({ outcome, why }: Extract<CallEnd, { why: string }>): string {
  if (outcome === 'not_started') return `[not run: ${why}]`;
  return `[interrupted: ${why}. This call may or may not have run, in part or in whole; look before you repeat it.]`;
}

/** The result of the question, if the run resumes with a message: that message is its answer, and nothing else. */
export function answerQuestionEvents(session: Session): EventBody[] {
  const { question, run } = session;
  if (!question || !run) return [];
  const message = mapGet(session.messages, run.message);
  const text = message ? answerResultText(message, question.choices, session.promptNonce) : NO_ANSWER;
  const images = message ? imagesOfMessage(saidMessage(message)) : [];
  const shown = images.length > 0 && { images };
  return [{ type: 'tool.finished', call: question.call, ok: true, output: { text }, ms: 0, ...shown }];
}

/** Withdraws the question, since the person did something else. Empty if none is open. */
export function withdrawQuestionEvents({ question }: Session, why: string): EventBody[] {
  if (!question) return [];
  return [
    { type: 'tool.finished', call: question.call, ok: false, output: { text: `No answer was given: ${why}.` }, ms: 0 },
  ];
}

const NO_ANSWER = 'No answer was given; the person said "continue". Decide yourself, or ask again if you cannot.';

/** The text for the model: the person's words, and which choice they mean. */
function answerResultText(message: Message, choices: readonly string[], nonce: string): string {
  const picked = matchChoice(message.text, choices);
  if (picked?.is === 'one')
    return `The person chose ${picked.place + 1}: ${choices[picked.place]}${attachmentsText(message, nonce)}`;
  const text = textWithoutCommand(message).trim();
  if (text === '' && message.attachments === undefined) return NO_ANSWER;
  if (isBareContinue(message)) return `No answer was given; the person said: ${text}`;
  const both = picked
    ? `\n[This is the text of choice ${picked.place + 1}, and the number of choice ${picked.number + 1}: ${choices[picked.number]}.]`
    : choices.length > 0
      ? '\n[The choices were shown numbered from 1, in your order.]'
      : '';
  return `The person answered:\n${toUserMessage(saidMessage(message), nonce).content}${both}`;
}

/** Follows a choice: the files that came with it. */
function attachmentsText(message: Message, nonce: string): string {
  const note = toUserMessage({ ...saidMessage(message), text: '' }, nonce).content.trimEnd();
  return note === '' ? '' : `\n${note}`;
}
