import { basename } from 'node:path';
import { escapeInvisible } from '../../base/strings.ts';
import { UserError } from '../../base/user-error.ts';
import type { Client, SentMessage } from '../../client/index.ts';
import { isApprovalAnswer } from '../../client/inspect/session-details.ts';
import type { CallForPerson } from './tool-schemas.ts';

/** What the tools of one MCP client work on. */
export type McpContext = {
  client: Client;
  /** Who the client's messages are from. */
  from: string | undefined;
  /** Whether the calling model may allow calls: by `answer_approval`, or in words. */
  answersApprovals: boolean;
};

type ModelMessage = { id?: string | undefined; text?: string | undefined; command?: string };

/** Commands that end the wait for a person without running anything. */
const STOPPING = new Set(['pause', 'stop', 'cancel']);

/**
 * Sends a message of the calling model. Throws UserError for what a session may take as a person's answer to a call
 * that waits, unless the model may give one.
 */
export async function sendForModel(
  { client, from, answersApprovals }: McpContext,
  key: string,
  message: ModelMessage,
  options: { mustExist?: boolean } = {},
): Promise<SentMessage> {
  if (!answersApprovals) await refuseAnswer(client, key, message);
  const { id, ...content } = { ...message, from };
  return id === undefined ? client.send(key, content, options) : client.sendOnce(key, { ...content, id }, options);
}

async function refuseAnswer(client: Client, key: string, message: ModelMessage): Promise<void> {
  if (STOPPING.has(message.command ?? '')) return;
  const waiting = await waitingHere(client, key);
  if (waiting)
    throw new UserError(
      `Nothing was sent: call ${waiting.number} of ${waiting.session} waits for a person, and a message would answer it. A person answers with: agentctl approve ${waiting.session} ${waiting.number}, or deny.`,
    );
  // A call may begin to wait right after the look; with a question open the session is at rest until it is answered.
  if (isApprovalAnswer(message) && !(await asksQuestion(client, key)))
    throw new UserError(
      'Nothing was sent: these words could allow or deny a call that waits for a person. Say in a sentence what you mean.',
    );
}

/** The call of this very session that waits; one of a child session is not answered by a message to its parent. */
async function waitingHere(client: Client, key: string): Promise<CallForPerson | undefined> {
  const known = await ifThere(async () => basename(client.folder(key)));
  if (known === undefined) return undefined;
  return (await callsForPerson(client, known)).find((one) => one.session === known);
}

const asksQuestion = async (client: Client, key: string): Promise<boolean> =>
  (await ifThere(async () => (await client.show(key)).session.question !== null)) ?? false;

/** Undefined where there is no such session: it is made by the first message. */
async function ifThere<T>(look: () => Promise<T>): Promise<T | undefined> {
  try {
    return await look();
  } catch (error) {
    if (error instanceof UserError && error.name === 'NoSuchSession') return undefined;
    throw error;
  }
}

/** The calls of a session, and of those that work for it, that wait for a person. */
export async function callsForPerson(client: Client, session: string): Promise<CallForPerson[]> {
  return (await client.approvalRequests(session)).map(({ session: at, id, hash, tool, shows, why, expires_at }) => ({
    ...{ session: at, number: id, hash, tool, expires_at },
    ...{ shows: escapeInvisible(shows), why: escapeInvisible(why) },
  }));
}
