import { basename } from 'node:path';
import { errorText } from '../../base/user-error.ts';
import type { Client, SentMessage } from '../../client/index.ts';
import { NoSuchSession } from '../../client/sessions/client-errors.ts';
import type { Reply } from '../../protocol/session/reply.ts';
import type { HttpServices } from '../http/common/operation.ts';
import type { DataImage } from './chat-identity.ts';
import { type AnswerPiece, collectAnswer, followAnswer, type WholeAnswer } from './follow-answer.ts';
import { OpenAiProblem } from './openai-requests.ts';

/** As many messages may wait in an inbox before clients are asked to come later. */
const MAX_WAITING = 256;
/** Reasons of a rest that are the end of what a run may use, as a cut answer is. */
const LIMIT_REASONS = new Set(['limit', 'ceiling']);

export const isCutShort = ({ reason }: Reply): boolean => LIMIT_REASONS.has(reason ?? '');

/** Returned for a run that outlasts the wait of its client. Clients send it back as part of the history. */
export const runGoesOn = (session: string): string =>
  `The run goes on in the session ${JSON.stringify(session)}. Say "/status" to hear how far it is, or anything else to wait on.`;

/** Where a request goes. */
export type ChosenSession = {
  /** The name of the session, or the key of one that is not there yet. */
  session: string;
  /** Of the message: the same for a request that is sent again. */
  id: string;
  text: string;
  /** Instead of the text. */
  command?: string;
  images: DataImage[];
  /** It was sent before. */
  isKnown: boolean;
  /** It is no part of a conversation: its session is removed afterwards. */
  isSide: boolean;
};

/** The message that a request is, sent, and how its answer is had. */
export type OpenAiAnswer = {
  sent: SentMessage;
  /** What happens until the reply. Throws the reason of the signal, which ends only the following. */
  pieces(signal: AbortSignal): AsyncGenerator<AnswerPiece, Reply>;
  /** All of it, or after `waitMs` how far it is; with 0, nothing. */
  whole(options: { waitMs: number; signal: AbortSignal }): Promise<WholeAnswer>;
  /**
   * The client has got the answer, and the same request from now on is another message; or it has gone away before. A
   * session of one answer is removed either way, once that is there.
   */
  finish(isDelivered: boolean): Promise<void>;
};

/** Sends the message that a request is, unless it was sent before. */
export async function sendRequest(
  { client, workspace, closing, complain }: HttpServices,
  chosen: ChosenSession,
): Promise<OpenAiAnswer> {
  const { session, isKnown, isSide } = chosen;
  const isThere = folderNameOf(client, session) !== undefined;
  if (isThere && !isKnown) await checkInbox(client, session);
  const after = isThere && !isKnown ? await client.lastSeq(session) : 0;
  const sent = await sendChosen(client, chosen);
  const pieces = (signal: AbortSignal) => followAnswer(client, { ...sent, after }, signal);
  return {
    sent,
    pieces,
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
  if (command !== undefined) return client.sendOnce(session, { id, command }, { mustExist: true });
  if (images.length === 0) return client.sendOnce(session, { id, text, ...options });
  // What came with it has been moved since, and its id is made from the images as well.
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

/** The folder of the session with this key; undefined where it is not there yet. */
export function folderNameOf(client: Client, key: string): string | undefined {
  try {
    return basename(client.folder(key));
  } catch (error) {
    if (error instanceof NoSuchSession) return undefined;
    throw error;
  }
}
