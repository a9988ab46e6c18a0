import { basename } from 'node:path';
import { errorText } from '../../base/user-error.ts';
import type { Client, SentMessage } from '../../client/index.ts';
import { NoSuchSession } from '../../client/sessions/client-errors.ts';
import type { Reply } from '../../protocol/session/reply.ts';
import type { HttpServices } from '../http/common/operation.ts';
import type { DataImage } from './chat-identity.ts';
import { type AnswerItem, collectAnswer, followAnswer, type WholeAnswer } from './follow-answer.ts';
import { OpenAiProblem } from './openai-requests.ts';

/** With more messages than this waiting in an inbox, new requests are refused with 429. */
const MAX_WAITING = 256;
export const secondsNow = (): number => Math.floor(Date.now() / 1000);

/** Sent when a run takes longer than a client waits. Clients send it back as part of the history. */
export const runGoesOn = (session: string): string =>
  `The run continues in the session ${JSON.stringify(session)}. Send "/status" for its progress, or anything else to keep waiting.`;

/** The session and the message that a request becomes. */
export type ChosenSession = {
  /** The name of the session, or the key of one that does not exist yet. */
  session: string;
  /** The message id, the same when a request is repeated. */
  id: string;
  text: string;
  /** Sent instead of the text. */
  command?: string;
  images: DataImage[];
  /** The message was sent before. */
  isKnown: boolean;
  /** The request does not belong to a conversation; its session is removed after the answer. */
  isSide: boolean;
};

/** The message sent for a request, and access to its answer. */
export type OpenAiAnswer = {
  sent: SentMessage;
  /** The conversation up to the reply. Aborting `signal` throws its reason; the run continues. */
  items(signal: AbortSignal): AsyncGenerator<AnswerItem, Reply>;
  /** The complete answer, or a progress summary if the run takes longer than `waitMs`; empty text if `waitMs` is 0. */
  whole(options: { waitMs: number; signal: AbortSignal }): Promise<WholeAnswer>;
  /**
   * Call this when the client has the answer or is gone. If it was delivered, the same request is a new message from
   * now on. A side session (`isSide`) is removed in both cases, once its reply exists.
   */
  finish(isDelivered: boolean): Promise<void>;
};

/** Sends the message for a request, unless it was sent before. */
export async function sendRequest(
  { client, workspace, closing, complain }: HttpServices,
  chosen: ChosenSession,
): Promise<OpenAiAnswer> {
  const { session, isKnown, isSide } = chosen;
  const exists = folderNameOf(client, session) !== undefined;
  if (exists && !isKnown) await checkInbox(client, session);
  const after = exists && !isKnown ? await client.lastSeq(session) : 0;
  const sent = await sendChosen(client, chosen);
  return {
    sent,
    items: (signal) => followAnswer(client, { ...sent, after }, signal),
    async whole({ waitMs, signal }) {
      const collected = await collectAnswer(client, { ...sent, after }, { waitMs, signal });
      if (collected.reply || waitMs === 0) return collected;
      const { summary } = await client.show(sent.session);
      return { ...collected, text: `${summary}\n\n${runGoesOn(sent.session)}` };
    },
    async finish(isDelivered) {
      try {
        if (!isSide && isDelivered) await client.markReplyRead(sent.session, sent.name);
        if (!isSide) return;
        await client.waitForReply(sent.session, sent.name, { signal: closing });
        await workspace.remove(sent.session);
      } catch (error) {
        if (!closing.aborted) complain(`After an answer: ${errorText(error)}`);
      }
    },
  };
}

async function sendChosen(
  client: Client,
  { session, id, text, command, images, isKnown, isSide }: ChosenSession,
): Promise<SentMessage> {
  const options = isSide ? { options: { mode: 'linear' as const, limits: { iterations: 1 } } } : {};
  if (command !== undefined)
    return client.sendOnce(session, { id, command, ...(text !== '' && { text }) }, { mustExist: true });
  if (images.length === 0) return client.sendOnce(session, { id, text, ...options });
  // Its attachments have been moved since. They need no comparison: the id is also a hash of the images' names.
  const earlier = isKnown ? (await client.sentMessages(session, id)).find((one) => one.id === id) : undefined;
  if (earlier) return { session: client.sessionName(session), id, name: earlier.name };
  const attachments: string[] = [];
  for (const { name, bytes } of images)
    attachments.push((await client.upload(session, name, piecesOf(bytes))).attachment);
  return client.sendOnce(session, { id, text, attachments, ...options });
}

async function* piecesOf(bytes: Buffer): AsyncGenerator<Uint8Array> {
  yield bytes;
}

async function checkInbox(client: Client, session: string): Promise<void> {
  if ((await client.show(session)).inbox <= MAX_WAITING) return;
  throw new OpenAiProblem(429, {
    wanted: `at most ${MAX_WAITING} messages that wait`,
    came: `one more for ${JSON.stringify(session)}`,
    todo: 'Send it again later, and see that a daemon runs: agentctl status',
  });
}

/** The folder of the session with this key; undefined if it does not exist yet. */
export function folderNameOf(client: Client, key: string): string | undefined {
  try {
    return basename(client.folder(key));
  } catch (error) {
    if (error instanceof NoSuchSession) return undefined;
    throw error;
  }
}
