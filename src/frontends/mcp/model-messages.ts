import { escapeInvisible } from '../../base/strings.ts';
import { UserError } from '../../base/user-error.ts';
import type { Client, SentMessage } from '../../client/index.ts';
import { findAnsweredCall } from '../../client/inspect/approval-requests.ts';
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
  const answered = await findAnsweredCall(client, key, message);
  if (answered === 'words')
    throw new UserError(
      'Nothing was sent: these words could allow or deny a call that waits for a person. Say in a sentence what you mean.',
    );
  if (answered)
    throw new UserError(
      `Nothing was sent: call ${answered.id} of ${answered.session} waits for a person, and a message would answer it. A person answers with: agentctl approve ${answered.session} ${answered.id}, or deny.`,
    );
}

/** The calls of a session, and of those that work for it, that wait for a person. */
export async function callsForPerson(client: Client, session: string): Promise<CallForPerson[]> {
  return (await client.approvalRequests(session)).map(({ session: at, id, hash, tool, display, why, expires_at }) => ({
    ...{ session: at, number: id, hash, tool, expires_at },
    ...{ display: escapeInvisible(display), why: escapeInvisible(why) },
  }));
}
