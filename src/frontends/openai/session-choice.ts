import { sha256 } from '../../base/sha256.ts';
import { attempt } from '../../base/user-error.ts';
import type { Client, MessageProgress } from '../../client/index.ts';
import { parseResponseId } from './answer-formats.ts';
import {
  CHAT_PREFIX,
  type ConversationIds,
  conversationIds,
  messageImages,
  messageText,
  sessionNameOf,
} from './chat-identity.ts';
import { findReply } from './follow-answer.ts';
import { type ChosenSession, folderNameOf, runGoesOn } from './openai-answer.ts';
import type { OpenAiRequest } from './openai-requests.ts';
import { OpenAiProblem } from './openai-requests.ts';

/** The model name of agentd as a whole; `agentd/<session>` is one of its sessions. */
export const MODEL = 'agentd';
/** Prefix of sessions made for a single answer and removed after it. */
export const SIDE_PREFIX = 'side-';
/** Headers with the id of the chat, as sent by Open WebUI, opencode and Codex. */
const FRONTEND_HEADERS = ['x-openwebui-chat-id', 'x-session-id', 'session-id'];
/** SDKs retry within this time when an answer did not arrive completely. */
const RETRY_WITHIN_MS = 120_000;

export type Asked = { request: OpenAiRequest; header: (name: string) => string | undefined };

/** Finds the session of a request, in the order of docs/openai.md. Throws OpenAiProblem if there is none. */
export async function chooseSession(client: Client, asked: Asked): Promise<ChosenSession> {
  const { request } = asked;
  const named = namedSession(client, asked);
  const ids = conversationIds(request.turns, request.previous ?? '');
  const key = named ? named.key : await sessionOfHistory(client, asked, ids);
  const session = folderNameOf(client, key) ?? key;
  const sent = await sentMessages(client, session, CHAT_PREFIX);
  if (named?.by === 'frontend' && isSideCall(request, sent, ids)) {
    const own = sessionNameOf(ids.now, SIDE_PREFIX);
    const isKnown = (await sentMessages(client, own, ids.now)).length > 0;
    const text = messageText(request.turns, false);
    return { session: own, id: ids.now, text, images: [], isKnown, isSide: true };
  }
  const id = messageIdOf(ids.now, sent, asked);
  const isContinued = ids.answered.some((prefix) => sent.some((one) => one.id.startsWith(prefix)));
  const isKnown = sent.some((one) => one.id === id);
  const [text, images] = [messageText(request.turns, isContinued), messageImages(request.turns, isContinued)];
  return { session, id, text, images, isKnown, isSide: false };
}

/** `frontend`: named by a front end that sends the whole chat each time, and requests titles under the same id. */
function namedSession(client: Client, { request, header }: Asked): { key: string; by: 'name' | 'frontend' } | null {
  const ofModel = sessionOfModel(request.model);
  const own = header('x-agentd-session');
  if (own) return { key: decode(own), by: 'name' };
  for (const name of FRONTEND_HEADERS) {
    const key = header(name);
    if (key) return { key, by: 'frontend' };
  }
  const { previous, conversation, metadata, user } = request;
  if (previous !== null) return { key: sessionOfResponse(client, previous), by: 'name' };
  const key = conversation ?? (metadata['session'] || null) ?? user ?? ofModel;
  return key === null ? null : { key, by: 'name' };
}

/** The session in `agentd/<session>`; null for `agentd`. */
function sessionOfModel(model: string): string | null {
  if (model === MODEL) return null;
  if (model.startsWith(`${MODEL}/`) && model.length > MODEL.length + 1) return model.slice(MODEL.length + 1);
  throw new OpenAiProblem(
    404,
    { wanted: `the model ${MODEL} or ${MODEL}/<session>`, came: JSON.stringify(model), todo: 'See GET /v1/models.' },
    { param: 'model', code: 'model_not_found' },
  );
}

function sessionOfResponse(client: Client, id: string): string {
  const place = parseResponseId(id);
  if (place && folderNameOf(client, place.session) !== undefined) return place.session;
  throw new OpenAiProblem(
    400,
    {
      wanted: 'the id of a response of this server',
      came: JSON.stringify(id),
      todo: 'Leave it out to start a new session.',
    },
    { param: 'previous_response_id', code: 'previous_response_not_found' },
  );
}

/** Session names are percent-encoded in headers, which hold ASCII only. */
function decode(value: string): string {
  return attempt(() => decodeURIComponent(value)) ?? value;
}

export const sentMessages = async (client: Client, key: string, prefix: string): Promise<MessageProgress[]> =>
  folderNameOf(client, key) === undefined ? [] : client.sentMessages(key, prefix);

const idempotencySuffix = ({ header }: Pick<Asked, 'header'>): string | undefined => {
  const key = header('idempotency-key');
  return key === undefined ? undefined : `k${sha256(key).slice(0, 12)}`;
};

/**
 * The message id of a request. An equal request at the same point of the conversation keeps the id of the earlier one
 * while its reply is undelivered or if an SDK says that it retries. Otherwise it gets a new id, since people do say the
 * same thing more than once.
 */
function messageIdOf(prefix: string, sent: readonly MessageProgress[], { header }: Pick<Asked, 'header'>): string {
  const key = idempotencySuffix({ header });
  if (key !== undefined) return `${prefix}-${key}`;
  const numbered = sent.flatMap((one) => {
    const number = one.id.startsWith(prefix) ? /^(?:-(\d+))?$/.exec(one.id.slice(prefix.length)) : null;
    return number ? [{ one, number: Number(number[1] ?? 1) }] : [];
  });
  const last = numbered.reduce<(typeof numbered)[number] | undefined>(
    (newest, next) => (newest && newest.number > next.number ? newest : next),
    undefined,
  );
  if (!last) return prefix;
  const isRetried = Number(header('x-stainless-retry-count') ?? 0) > 0;
  const isSame = last.one.state !== 'read' || (isRetried && Date.now() - last.one.readAt < RETRY_WITHIN_MS);
  return isSame ? last.one.id : `${prefix}-${last.number + 1}`;
}

/**
 * The session that has this conversation so far, or that an earlier copy of this request began. Otherwise a new name:
 * a hash of the conversation, followed by the idempotency key of the request, or by a number if the name is taken.
 */
async function sessionOfHistory(client: Client, asked: Asked, ids: ConversationIds): Promise<string> {
  const names = client.sessions();
  for (const session of ids.answered.flatMap((id) => namedAfter(id, names)))
    if (await continuesHistory(client, session, asked, ids)) return session;
  const name = sessionNameOf(ids.now);
  const key = idempotencySuffix(asked);
  if (key !== undefined) return `${name}-${key}`;
  // Only the newest can have an undelivered reply: until a reply is delivered, equal requests share one session.
  const newest = namedAfter(ids.now, names).find((one) => numberOf(one) > 0);
  if (newest === undefined) return name;
  const sent = await client.sentMessages(newest, ids.now);
  const isSame = sent.some(({ id }) => id === messageIdOf(ids.now, sent, asked));
  return isSame ? newest : `${name}-${numberOf(newest) + 1}`;
}

/** Sessions of conversations that begin with the same text: the newest first, those with an idempotency key last. */
const namedAfter = (id: string, names: readonly string[]): string[] =>
  names
    .filter((name) => name.replace(/^(chat-[0-9a-f]+)-k?[0-9a-f]+$/, '$1') === sessionNameOf(id))
    .sort((one, other) => numberOf(other) - numberOf(one));

/** 1 for the first session of its name; 0 for one with an idempotency key. */
const numberOf = (name: string): number => {
  const [, suffix] = /^chat-[0-9a-f]+-(k?[0-9a-f]+)$/.exec(name) ?? [];
  return suffix === undefined ? 1 : suffix.startsWith('k') ? 0 : Number(suffix);
};

/** Whether the newest message of the session is this conversation's previous one, equally answered, or its new one. */
async function continuesHistory(client: Client, session: string, asked: Asked, ids: ConversationIds): Promise<boolean> {
  const sent = await client.sentMessages(session, CHAT_PREFIX);
  const [newest, previous] = [sent.at(-1), ids.answered.at(-1)];
  if (!newest || previous === undefined) return false;
  const isRepeated = newest.id === messageIdOf(ids.now, sent, asked);
  const before = sent.findLast(({ id }) => id.startsWith(previous));
  if (!before || (!isRepeated && newest !== before)) return false;
  const reply = await findReply(client, session, before.name);
  if (!reply || reply.status === 'joined') return true;
  const answer = normalizeSpace(asked.request.turns.findLast(({ role }) => role === 'assistant')?.text ?? '');
  return [reply.text, runGoesOn(session)].some((text) => answer.includes(normalizeSpace(text)));
}

const normalizeSpace = (text: string): string => text.replace(/\s+/g, ' ').trim();

const SIDE_WORDS =
  /\b(?:generate|create|write|provide|suggest|output|come up with)\b[^\n]{0,80}\b(?:titles?|tags?|follow-?up|(?:search )?queries|emoji)\b/i;
const SIDE_WORDS_WITHIN = 1000;

/**
 * Front ends request titles, tags and the like under the id of the chat. Such a request offers no tools, contains no
 * answers, and does not begin as the chat does. Before the first message of the chat, its wording decides.
 */
function isSideCall(
  { hasTools, turns }: OpenAiRequest,
  sent: readonly MessageProgress[],
  { begins }: ConversationIds,
): boolean {
  if (hasTools || turns.some(({ role }) => role === 'assistant')) return false;
  if (sent.length > 0) return !sent.some(({ id }) => id.startsWith(begins));
  const texts = turns.filter(({ role }) => role === 'system').concat(turns.slice(-1));
  return texts.some(({ text }) => SIDE_WORDS.test(text.slice(0, SIDE_WORDS_WITHIN)));
}
