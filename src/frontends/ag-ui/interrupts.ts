import { z } from 'zod';
import { escapeInvisible } from '../../base/strings.ts';
import type { ApprovalRequest, Client } from '../../client/index.ts';
import { NoSuchSession } from '../../client/sessions/client-errors.ts';
import type { UserQuestion } from '../../protocol/session/reply.ts';
import { HttpProblem } from '../http/common/http-problem.ts';

/** What a session waits for, as AG-UI has it. The id is that of exactly this question, or call with this hash. */
export type Interrupt = {
  id: string;
  reason: 'tool_call' | 'input_required';
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

/** What the session waits for by now; null where it waits for nothing, or is not there yet. */
export async function openInterrupt(client: Client, key: string): Promise<Interrupt | null> {
  try {
    const { session, standing, asked } = await client.show(key);
    const { run, question, runEnd, approvals } = session;
    if (run) return null;
    if (asked && approvals.open) return approvalInterrupt(asked, approvals.open.call);
    if (standing !== 'waiting' || runEnd?.status !== 'waiting') return null;
    const id = question ? `question-${question.call}` : `waiting-${runEnd.message}`;
    const message = escapeInvisible(question?.text ?? runEnd.text);
    return { id, reason: 'input_required', message, responseSchema: answerSchema(question) };
  } catch (error) {
    if (error instanceof NoSuchSession) return null;
    throw error;
  }
}

function approvalInterrupt(asked: ApprovalRequest, call: string): Interrupt {
  const { session, id, hash, tool, display, why, always, expires_at } = asked;
  const rule = always === null ? {} : { always: { type: 'boolean', description: `Allow ${always} from now on.` } };
  return {
    ...{ id: approvalId(asked), reason: 'tool_call', toolCallId: call, expiresAt: expires_at },
    message: escapeInvisible(`May this run (${why})?\n\n${tool} ${display}`),
    responseSchema: {
      type: 'object',
      properties: { approved: { type: 'boolean' }, ...rule },
      required: ['approved'],
    },
    metadata: { agentd: { session, id, hash, why, always } },
  };
}

function answerSchema(question: UserQuestion | null): Record<string, unknown> {
  const choices = (question?.choices ?? []).map(escapeInvisible);
  const listed = choices.map((choice, at) => `${at + 1}: ${choice}`).join('; ');
  const offered = listed === '' ? {} : { description: `A choice or your own words. ${listed}`, examples: choices };
  return {
    type: 'object',
    properties: { answer: { type: 'string', minLength: 1, ...offered } },
    required: ['answer'],
  };
}

const Decision = z.object({ approved: z.boolean(), always: z.boolean().optional() });
const Words = z.union([z.string(), z.object({ answer: z.string() }).transform(({ answer }) => answer)]);

/**
 * The message that an answer is, the same each time it is sent. What it answers is in its id, for which the caller sees
 * to it that it is that of an open interrupt. Throws a problem for a payload that does not fit.
 */
export function answerMessage({ interruptId, status, payload }: ResumeEntry): { text: string } | { command: string } {
  // Nobody answers: nothing is run, and the session goes on when somebody says so.
  if (status === 'cancelled') return { command: 'pause' };
  const [, number] = APPROVAL_ID.exec(interruptId) ?? [];
  if (number !== undefined) {
    const decision = Decision.safeParse(payload).data;
    if (!decision) throw unfitting('{"approved": true} or {"approved": false}', payload);
    const { approved, always } = decision;
    return { command: approved ? `approve ${number}${always ? ' always' : ''}` : `deny ${number}` };
  }
  const text = Words.safeParse(payload).data?.trim();
  if (!text) throw unfitting('{"answer": "some words"}', payload);
  return { text };
}

const approvalId = ({ id, hash }: Pick<ApprovalRequest, 'id' | 'hash'>): string => `approval-${id}-${hash}`;
const APPROVAL_ID = /^approval-(\d+)-[0-9a-f]{64}$/;

const unfitting = (wanted: string, payload: unknown): HttpProblem =>
  new HttpProblem(400, {
    wanted: `the payload ${wanted}`,
    came: payload === undefined ? 'none' : JSON.stringify(payload),
    todo: 'responseSchema of the interrupt says it. To leave it unanswered, send the status "cancelled".',
  });
