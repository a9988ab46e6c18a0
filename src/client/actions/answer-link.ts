import { createHmac, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';
import { legible } from '../../base/strings.ts';
import { UserError } from '../../base/user-error.ts';
import { readableName } from '../../protocol/workspace/session-names.ts';
import type { Client } from '../index.ts';
import type { ApprovalRequest } from '../inspect/approval-requests.ts';
import { NoSuchApproval, NoSuchSession } from '../sessions/client-errors.ts';
import { approvalMessage } from './messaging.ts';

/** What a link is for: one call of one session, until it expires. */
const LinkedCall = z.strictObject({
  session: z.string(),
  id: z.int().min(1),
  hash: z.string(),
  until: z.iso.datetime(),
});
type LinkedCall = z.infer<typeof LinkedCall>;

/** The path of the page that shows a call and takes its answer. */
export const ANSWER_PATH = '/answer/';

/**
 * The text of a link to a waiting call, signed with the access token of the workspace: a new token makes all links
 * void. Who has it can see and answer that one call, and nothing else.
 */
export function signAnswerLink(token: string, call: LinkedCall): string {
  const content = Buffer.from(JSON.stringify(call)).toString('base64url');
  return `${content}.${signatureOf(token, content)}`;
}

const signatureOf = (token: string, content: string): string =>
  createHmac('sha256', token).update(`answer ${content}`).digest('base64url');

/** What became of the call of a link. */
export type AnswerState =
  | { is: 'waiting'; call: ApprovalRequest }
  /** `by`: who was first. */
  | { is: 'answered'; session: string; decision: 'allow' | 'deny'; by: string }
  | { is: 'gone'; why: string };

/** Looks at the call of a link. Uses nothing up, so programs may look as often as they like. */
export async function lookAtAnswerLink(client: Client, text: string): Promise<AnswerState> {
  const linked = await readLink(client, text);
  if (!linked) return { is: 'gone', why: 'This link is not complete, or not of this workspace.' };
  if (Date.parse(linked.until) < Date.now()) return { is: 'gone', why: 'This link has expired.' };
  try {
    const answered = await findAnswer(client, linked);
    if (answered) return answered;
    const call = await client.approvalRequest(linked.session, linked.id);
    if (call.hash === linked.hash) return { is: 'waiting', call };
    return { is: 'gone', why: 'Another call waits now.' };
  } catch (error) {
    if (error instanceof NoSuchApproval || error instanceof NoSuchSession)
      return { is: 'gone', why: 'This call does not wait any more.' };
    throw error;
  }
}

/** Answers the call of a link, unless that was done. Returns what became of it. */
export async function answerByLink(client: Client, text: string, decision: 'allow' | 'deny'): Promise<AnswerState> {
  const state = await lookAtAnswerLink(client, text);
  if (state.is !== 'waiting') return state;
  const { call } = state;
  const message = approvalMessage(call, call.hash, decision);
  // The same link sends the same message, however often a button is pressed.
  const id = `link.${call.hash.slice(0, 16)}.${call.id}.${decision}`;
  await client.sendOnce(call.session, { ...message, id, from: LINK_SENDER }, { mustExist: true });
  return { is: 'answered', session: call.session, decision, by: 'you' };
}

/** How an answer by a link is attributed: whoever had the link. */
const LINK_SENDER = 'link';

async function readLink(client: Client, text: string): Promise<LinkedCall | undefined> {
  const [content = '', signature = ''] = text.split('.');
  const wanted = Buffer.from(signatureOf(await client.accessToken(), content));
  const came = Buffer.from(signature);
  if (came.length !== wanted.length || !timingSafeEqual(came, wanted)) return undefined;
  try {
    return LinkedCall.parse(JSON.parse(Buffer.from(content, 'base64url').toString()));
  } catch {
    return undefined;
  }
}

async function findAnswer(client: Client, { session, id }: LinkedCall): Promise<AnswerState | undefined> {
  const senders = new Map<string, string>();
  let found: AnswerState | undefined;
  try {
    for await (const { event } of client.events(session)) {
      if (event.type === 'message.received') senders.set(event.id, event.from ?? 'a person');
      if (event.type !== 'approval.answered' || event.id !== id) continue;
      const by = event.by === 'person' ? (senders.get(event.message ?? '') ?? 'a person') : `the daemon (${event.why})`;
      found = { is: 'answered', session: readableName(session), decision: event.decision, by: legible(by) };
    }
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
  }
  return found;
}
