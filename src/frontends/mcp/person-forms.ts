import type { ElicitRequestFormParams } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { escapeInvisible } from '../../base/strings.ts';
import { UserError } from '../../base/user-error.ts';
import { approvalMessage } from '../../client/actions/messaging.ts';
import type { SentMessage } from '../../client/index.ts';
import type { Reply } from '../../protocol/session/reply.ts';
import { callsForPerson, type McpContext } from './model-messages.ts';

/** What a session asks a person, as it goes to the client and comes back: the answer is for exactly this. */
export const FormSubject = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('approval'), session: z.string(), number: z.int(), hash: z.string() }),
  z.strictObject({ kind: z.literal('question'), session: z.string(), text: z.string() }),
]);
export type FormSubject = z.infer<typeof FormSubject>;

type PersonForm = { subject: FormSubject; form: ElicitRequestFormParams };

/** The form for what a reply asks; null where it asks nothing, or several calls wait at once. */
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
  const message = `${asked.session} asks to run this (${why}; until ${expires_at}):\n\n${tool} ${display}`;
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
 * Sends the person's answer. Null where they gave none that fits the form. Throws UserError where what was asked is
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
    throw new UserError(`${session} does not ask this any more. Call get_session to see how it stands.`);
  return client.send(session, { text, from }, { mustExist: true });
}
