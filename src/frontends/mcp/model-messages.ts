import type { ElicitRequestFormParams } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { escapeInvisible, formatUtcTime, quoteForShell } from '../../base/strings.ts';
import { UserError } from '../../base/user-error.ts';
import { approvalMessage } from '../../client/actions/messaging.ts';
import type { Client, SentMessage } from '../../client/index.ts';
import { findAnsweredCall } from '../../client/inspect/approval-requests.ts';
import type { Reply } from '../../protocol/session/reply.ts';
import { readableName } from '../../protocol/workspace/session-names.ts';
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
  if (!answered) return;
  const name = readableName(answered.session);
  throw new UserError(
    `Nothing was sent: call ${answered.id} of ${name} waits for a person, and a message would answer it. A person answers with: agentctl approve ${quoteForShell(name)} ${answered.id}, or deny.`,
  );
}

/** The calls of a session, and of those that work for it, that wait for a person. */
export async function callsForPerson(client: Client, session: string): Promise<CallForPerson[]> {
  return (await client.approvalRequests(session)).map(({ session: at, id, hash, tool, display, why, expires_at }) => ({
    ...{ session: at, number: id, hash, tool, expires_at },
    ...{ display: escapeInvisible(display), why: escapeInvisible(why) },
  }));
}

/** What a session asks a person, as it goes to the client and comes back: the answer is for exactly this. */
export const FormSubject = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('approval'), session: z.string(), number: z.int(), hash: z.string() }),
  z.strictObject({ kind: z.literal('question'), session: z.string(), text: z.string() }),
]);
export type FormSubject = z.infer<typeof FormSubject>;

type PersonForm = { subject: FormSubject; form: ElicitRequestFormParams };

/** The form for what a reply asks; null if it asks nothing, or several calls wait at once. */
export async function formFor({ client }: McpContext, reply: Reply): Promise<PersonForm | null> {
  if (reply.status !== 'waiting') return null;
  const { question, session } = reply;
  if (question) {
    const { text, choices } = question;
    const form = { message: escapeInvisible(reply.text), requestedSchema: wordsForm(choices) };
    return { subject: { kind: 'question', session, text }, form };
  }
  const [asked, other] = await callsForPerson(client, session);
  if (!asked || other) return null;
  const { number, hash, tool, display, why, expires_at } = asked;
  const message = `${readableName(asked.session)} asks to run this (${why}; until ${formatUtcTime(expires_at)}):\n\n${tool} ${display}`;
  const subject = { kind: 'approval', session: asked.session, number, hash } as const;
  return { subject, form: { message, requestedSchema: DECISION_FORM } };
}

const DECISION_FORM: ElicitRequestFormParams['requestedSchema'] = {
  type: 'object',
  properties: { decision: { type: 'string', title: 'Decision', enum: ['allow', 'deny'] } },
  required: ['decision'],
};

function wordsForm(choices: readonly string[]): ElicitRequestFormParams['requestedSchema'] {
  const listed = choices.map((choice, at) => `${at + 1}: ${escapeInvisible(choice)}`).join('; ');
  const description = listed === '' ? 'In your own words.' : `A number or your own words. ${listed}`;
  return {
    type: 'object',
    properties: { answer: { type: 'string', title: 'Answer', description, minLength: 1 } },
    required: ['answer'],
  };
}

/** What a client sends back for a form. */
export const FormResponse = z.object({
  action: z.enum(['accept', 'decline', 'cancel']),
  content: z.unknown().optional(),
});

const Decision = z.object({ decision: z.enum(['allow', 'deny']) });
const Words = z.object({ answer: z.string().trim().min(1) });

/**
 * Sends the person's answer. Null if they gave none that fits the form. Throws UserError if what was asked is
 * over: a file, a chat or another client was faster.
 */
export async function sendAnswer(
  { client, from }: McpContext,
  subject: FormSubject,
  { action, content }: z.infer<typeof FormResponse>,
): Promise<SentMessage | null> {
  if (action !== 'accept') return null;
  const { session } = subject;
  if (subject.kind === 'approval') {
    const decision = Decision.safeParse(content).data?.decision;
    if (!decision) return null;
    const asked = await client.approvalRequest(session, subject.number);
    return client.send(session, { ...approvalMessage(asked, subject.hash, decision), from }, { mustExist: true });
  }
  const text = Words.safeParse(content).data?.answer;
  if (text === undefined) return null;
  const { question } = (await client.show(session)).session;
  if (question?.text !== subject.text)
    throw new UserError(`${readableName(session)} does not ask this any more. Call get_session to see how it stands.`);
  return client.send(session, { text, from }, { mustExist: true });
}
