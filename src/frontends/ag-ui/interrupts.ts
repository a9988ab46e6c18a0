import { z } from 'zod';
import { escapeInvisible } from '../../base/strings.ts';
import type { ApprovalRequest, Client } from '../../client/index.ts';
import { NoSuchSession } from '../../client/sessions/client-errors.ts';
import type { UserQuestion } from '../../protocol/session/reply.ts';
import { HttpProblem } from '../http/common/http-problem.ts';

/** A question or approval that a session waits for, in AG-UI's form. The id covers the question or the call's hash. */
export type Interrupt = {
  id: string;
  reason: 'tool_call' | 'confirmation' | 'input_required';
  message: string;
  toolCallId?: string;
  responseSchema: Record<string, unknown>;
  expiresAt?: string;
  metadata?: { agentd: Pick<ApprovalRequest, 'session' | 'id' | 'hash' | 'why' | 'always'> };
};

/** An answer to an interrupt. */
export const ResumeEntry = z.looseObject({
  interruptId: z.string(),
  status: z.enum(['resolved', 'cancelled']),
  payload: z.unknown().optional(),
});
export type ResumeEntry = z.infer<typeof ResumeEntry>;

/**
 * What the session is waiting for: an answer to its question or call, or to calls of child sessions.
 * Empty if the session does not exist yet.
 */
export async function openInterrupts(client: Client, key: string): Promise<Interrupt[]> {
  try {
    const { name, session, standing, asked } = await client.show(key);
    const { run, question, runEnd, approvals, children, childCalls } = session;
    if (run || childCalls.run) {
      const calls = Object.keys(children).length > 0 ? await client.approvalRequests(name) : [];
      return calls.filter((one) => one.session !== name).map((one) => approvalInterrupt(one, null));
    }
    if (asked && approvals.open) return [approvalInterrupt(asked, approvals.open.call)];
    if (standing !== 'waiting' || runEnd?.status !== 'waiting') return [];
    const id = question ? `question-${question.call}` : `waiting-${runEnd.message}`;
    const message = escapeInvisible(question?.text ?? runEnd.text);
    return [{ id, reason: 'input_required', message, responseSchema: answerSchema(question) }];
  } catch (error) {
    if (error instanceof NoSuchSession) return [];
    throw error;
  }
}

/** Whether the session's run waits for answers to calls of child sessions: messages to it answer them. */
export async function isAskingForChildren(client: Client, key: string): Promise<boolean> {
  try {
    return (await client.show(key)).session.childCalls.run !== null;
  } catch (error) {
    if (error instanceof NoSuchSession) return false;
    throw error;
  }
}

/** `call`: its id in this conversation; null for a call of a child session. */
function approvalInterrupt(asked: ApprovalRequest, call: string | null): Interrupt {
  const { session, id, hash, tool, display, why, always, expires_at } = asked;
  const rule = always === null ? {} : { always: { type: 'boolean', description: `Allow ${always} from now on.` } };
  return {
    id: `approval-${id}-${hash}${call === null ? `-${session}` : ''}`,
    ...(call === null ? { reason: 'confirmation' } : { reason: 'tool_call', toolCallId: call }),
    message: escapeInvisible(`May this run${call === null ? ` in ${session}` : ''} (${why})?\n\n${tool} ${display}`),
    expiresAt: expires_at,
    responseSchema: { type: 'object', properties: { approved: { type: 'boolean' }, ...rule }, required: ['approved'] },
    metadata: { agentd: { session, id, hash, why, always } },
  };
}

function answerSchema(question: UserQuestion | null): Record<string, unknown> {
  const choices = (question?.choices ?? []).map(escapeInvisible);
  const listed = choices.map((choice, at) => `${at + 1}: ${choice}`).join('; ');
  const offered = listed === '' ? {} : { description: `A choice or your own words. ${listed}`, examples: choices };
  return { type: 'object', properties: { answer: { type: 'string', minLength: 1, ...offered } }, required: ['answer'] };
}

const Decision = z.object({ approved: z.boolean(), always: z.boolean().optional() });
const Words = z.union([z.string(), z.object({ answer: z.string() }).transform(({ answer }) => answer)]);

/**
 * The message for an answer, always the same for the same answer; `child`: the session whose call it answers, in a
 * message to its root. The caller checks that `interruptId` is that of an open interrupt. Throws a problem for an
 * invalid payload.
 */
export function answerMessage(
  { interruptId, status, payload }: ResumeEntry,
  child?: string,
): { text: string } | { command: string } {
  // Declined to answer: the call is not run, and the session stays paused until somebody continues it.
  if (status === 'cancelled') return { command: 'pause' };
  const [, number] = APPROVAL_ID.exec(interruptId) ?? [];
  if (number !== undefined) {
    const decision = Decision.safeParse(payload).data;
    if (!decision) throw unfitting('{"approved": true} or {"approved": false}', payload);
    const { approved, always } = decision;
    const call = child === undefined ? number : `${child} ${number}`;
    return { command: approved ? `approve ${call}${always ? ' always' : ''}` : `deny ${call}` };
  }
  const text = Words.safeParse(payload).data?.trim();
  if (!text) throw unfitting('{"answer": "some words"}', payload);
  return { text };
}

/** The command that denies the call of an interrupt; undefined if it is about none. */
export function denialOf({ interruptId }: ResumeEntry): string | undefined {
  const [, number] = APPROVAL_ID.exec(interruptId) ?? [];
  return number === undefined ? undefined : `deny ${number}`;
}

const APPROVAL_ID = /^approval-(\d+)-[0-9a-f]{64}(?:-(.+))?$/;

/** The child session whose call this answers; undefined for other answers. */
export const childOf = ({ interruptId }: ResumeEntry): string | undefined => APPROVAL_ID.exec(interruptId)?.[2];

const unfitting = (wanted: string, payload: unknown): HttpProblem =>
  new HttpProblem(400, {
    wanted: `the payload ${wanted}`,
    came: payload === undefined ? 'none' : JSON.stringify(payload),
    todo: 'responseSchema of the interrupt says it. To leave it unanswered, send the status "cancelled".',
  });
