import { IMAGE_TYPES } from '../../base/file-kind.ts';
import { sha256 } from '../../base/sha256.ts';

/** One message of a conversation, as the client sent it. Its text names its images. */
export type ChatTurn = { role: 'system' | 'user' | 'assistant' | 'tool'; text: string; images?: DataImage[] };

/** Prefix of the ids of messages that this server sends, and of the sessions that it names. */
export const CHAT_PREFIX = 'chat-';
/** How many digits are kept of the hash of the first message, and of that of the whole conversation. */
const DIGITS = { first: 8, all: 20 };

/**
 * The message ids of a conversation. Each is a hash of the conversation up to that message, so that a later request
 * finds its session without stored state.
 */
export type ConversationIds = {
  /** Common prefix of the ids of all conversations with the same first user message. */
  begins: string;
  /** The id of the new user message. */
  now: string;
  /** The ids of the messages answered so far, the newest last. */
  answered: string[];
};

/** The ids of a conversation whose last turn is the new user message. `context`: the response it continues, or ''. */
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

/** The name of the session whose first message has this id. */
export const sessionNameOf = (id: string, prefix = CHAT_PREFIX): string => prefix + id.slice(-DIGITS.all);

/** Trims each part, because clients do not preserve surrounding whitespace. */
const hashOf = (...parts: string[]): string => sha256(JSON.stringify(parts.map((part) => part.trim())));

const CONTEXT_HEAD = 'Context of the program that sent this, as it came (its instructions, and what was said before):';

/**
 * The text of the message: the new user message, followed by a quote of the turns that the session has not received
 * (all of them unless `isKnown`). A command is sent without a quote.
 */
export function messageText(turns: readonly ChatTurn[], isKnown: boolean): string {
  const text = turns.at(-1)?.text ?? '';
  if (text.trimStart().startsWith('/')) return text;
  const unseen = unseenTurns(turns, isKnown).filter((turn) => turn.text.trim() !== '');
  return unseen.length === 0 ? text : [text, CONTEXT_HEAD, ...unseen.map(quoted)].join('\n\n');
}

/** The images of the message and of the quoted turns, without duplicates. */
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

/** An image from a message. Its name is a hash of its bytes, so the same image always has the same name. */
export type DataImage = { name: string; bytes: Buffer };

const ENDINGS: Record<(typeof IMAGE_TYPES)[number], string> = {
  'image/png': 'png',
  'image/jpeg': 'jpg',
  'image/gif': 'gif',
  'image/webp': 'webp',
};
const DATA_URL = /^data:([a-z]+\/[\w.+-]+);base64,([A-Za-z0-9+/]+={0,2})$/i;

/** The accepted form of an image, for error messages. */
export const IMAGE_WANTED = `an image as a data: URL in base64 (${IMAGE_TYPES.join(', ')})`;

/** The image in a `data:` URL; undefined for any other URL or an unsupported type. Nothing is ever fetched. */
export function readDataImage(url: string): DataImage | undefined {
  const [, given = '', base64 = ''] = DATA_URL.exec(url) ?? [];
  const type = IMAGE_TYPES.find((one) => one === given.toLowerCase());
  return (
    type && { name: `image-${sha256(base64).slice(0, 12)}.${ENDINGS[type]}`, bytes: Buffer.from(base64, 'base64') }
  );
}
