import { IMAGE_TYPES } from '../../base/file-kind.ts';
import { sha256 } from '../../base/sha256.ts';

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

/** An image that came in a message, under a name made from its bytes: the same image always has the same. */
export type DataImage = { name: string; bytes: Buffer };

const ENDINGS: Record<(typeof IMAGE_TYPES)[number], string> = {
  'image/png': 'png',
  'image/jpeg': 'jpg',
  'image/gif': 'gif',
  'image/webp': 'webp',
};
const DATA_URL = /^data:([a-z]+\/[\w.+-]+);base64,([A-Za-z0-9+/]+={0,2})$/i;

/** What an image may be given as, for who is told that it was not. */
export const IMAGE_WANTED = `an image as a data: URL in base64 (${IMAGE_TYPES.join(', ')})`;

/** The image of a `data:` URL; undefined where it is none that models are given. Nothing is ever fetched. */
export function readDataImage(url: string): DataImage | undefined {
  const [, given = '', base64 = ''] = DATA_URL.exec(url) ?? [];
  const type = IMAGE_TYPES.find((one) => one === given.toLowerCase());
  return (
    type && { name: `image-${sha256(base64).slice(0, 12)}.${ENDINGS[type]}`, bytes: Buffer.from(base64, 'base64') }
  );
}
