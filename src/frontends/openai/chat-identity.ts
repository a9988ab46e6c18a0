import { sha256 } from '../../base/sha256.ts';
import type { DataImage } from './data-images.ts';

/** One message of a conversation, as the client has it. Its images are named in its text. */
export type ChatTurn = { role: 'system' | 'user' | 'assistant' | 'tool'; text: string; images?: DataImage[] };

/** Ids of messages that this server sends begin with it, and so do the sessions that it names itself. */
export const CHAT_PREFIX = 'chat-';
/** Digits of the hashes of the first message, and of the whole conversation. */
const DIGITS = { first: 8, all: 20 };

/**
 * The ids that the messages of a conversation get: hashes of the conversation up to them, so that nothing has to be
 * remembered to find it again.
 */
export type ConversationIds = {
  /** What all ids of conversations with the same first words of the user begin with. */
  begins: string;
  /** Of what the user says now. */
  now: string;
  /** Of what was answered before, the newest last. */
  answered: string[];
};

/** The ids of a conversation that ends with what the user says now. `context` is what it goes on from, besides. */
export function conversationIds(turns: readonly ChatTurn[], context = ''): ConversationIds {
  const first = turns.find(({ role }) => role === 'user')?.text ?? '';
  const begins = `${CHAT_PREFIX}${hashOf(first).slice(0, DIGITS.first)}-`;
  const answered: string[] = [];
  let hash = context;
  for (const [at, { role, text }] of turns.entries()) {
    if (role === 'assistant' && at > 0 && turns[at - 1]?.role !== 'assistant') answered.push(hash);
    hash = hashOf(hash, role, text);
  }
  const idOf = (one: string) => `${begins}${one.slice(0, DIGITS.all)}`;
  return { begins, now: idOf(hash), answered: answered.map(idOf) };
}

/** The name of a session that begins with the message of this id. */
export const sessionNameOf = (id: string, prefix = CHAT_PREFIX): string => prefix + id.slice(-DIGITS.all);

/** Clients keep the space around a text as they like. */
const hashOf = (...parts: string[]): string => sha256(JSON.stringify(parts.map((part) => part.trim())));

const CONTEXT_HEAD = 'Context of the program that sent this, as it came (its instructions, and what was said before):';

/**
 * The text of the message: what the user says now, and behind it, quoted, what the session has not received: all of it
 * where it does not know this conversation (`isKnown`). A command is only itself.
 */
export function messageText(turns: readonly ChatTurn[], isKnown: boolean): string {
  const text = turns.at(-1)?.text ?? '';
  if (text.trimStart().startsWith('/')) return text;
  const unseen = unseenTurns(turns, isKnown).filter((turn) => turn.text.trim() !== '');
  return unseen.length === 0 ? text : [text, CONTEXT_HEAD, ...unseen.map(quoted)].join('\n\n');
}

/** The images of the message, and of what is quoted behind it, each once. */
export function messageImages(turns: readonly ChatTurn[], isKnown: boolean): DataImage[] {
  const all = [...turns.slice(-1), ...unseenTurns(turns, isKnown)].flatMap(({ images = [] }) => images);
  return [...new Map(all.map((image) => [image.name, image])).values()];
}

function unseenTurns(turns: readonly ChatTurn[], isKnown: boolean): readonly ChatTurn[] {
  const answered = turns.findLastIndex(({ role }) => role === 'assistant');
  return turns.slice(isKnown ? answered + 1 : 0, -1);
}

const quoted = ({ role, text }: ChatTurn): string =>
  [`[${role}]`, ...text.trim().split('\n')].map((line) => `> ${line}`.trimEnd()).join('\n');
