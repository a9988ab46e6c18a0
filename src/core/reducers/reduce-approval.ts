import { getOwn, mapGet, mapSet } from '../../base/collections.ts';
import type { EventOf } from '../../protocol/session/event.ts';
import type { Plan } from '../../protocol/session/plan.ts';
import { RUN_END } from '../../protocol/session/reply.ts';
import { bumpRevision } from '../plan/plan-steps.ts';
import type { ApprovalState, ApprovalVerdict, PendingApproval, Run, TurnCall } from '../session/run-state.ts';
import type { Message } from '../session/session-messages.ts';
import type { Session } from '../session/session-state.ts';

/** A call needs approval, or has been allowed or denied. */
export function reduceApproval(
  session: Session,
  event: EventOf<'approval.asked'> | EventOf<'approval.answered'>,
): Session {
  return event.type === 'approval.asked' ? approvalAsked(session, event) : approvalAnswered(session, event);
}

function approvalAsked(session: Session, event: EventOf<'approval.asked'>): Session {
  const { id, call, name, args, folder, hash, why, display, always, at, expires_at } = event;
  const open: PendingApproval = {
    ...{ id, call, name, args, hash, why, display, always, at, expires_at },
    ...(folder !== undefined && { folder }),
    run: null,
    queuedBefore: session.queue,
  };
  return { ...session, approvals: { ...session.approvals, lastId: id, open } };
}

/** The key under which denials of a call are counted. */
export const denialKey = ({ name, args }: Pick<TurnCall, 'name' | 'args'>): string => `${name}\n${args}`;

/**
 * The verdict holds until the next one; the run that ended over the call resumes where it was, with its limits and
 * counters.
 */
function approvalAnswered(session: Session, event: EventOf<'approval.answered'>): Session {
  const { approvals } = session;
  const open = approvals.open?.call === event.call ? approvals.open : null;
  const about = open ?? approvalDeniedByRule(session, event);
  if (!about) return session;
  const { decision, by, why, at } = event;
  const verdict: ApprovalVerdict = { decision, by, why, at };
  const key = denialKey(about);
  const denied =
    decision === 'deny'
      ? { ...approvals.denials, [key]: (getOwn(approvals.denials, key) ?? 0) + 1 }
      : approvals.denials;
  const decided = {
    ...session,
    approvals: { ...approvals, open: null, denials: denied, lastDecided: { ...about, run: null, verdict } },
  };
  return open?.run && !session.run ? resumeBlockedRun(decided, open.run, event) : decided;
}

/** A call that a rule denied without asking anybody. */
function approvalDeniedByRule(
  { turn, approvals }: Session,
  { call: key, at }: EventOf<'approval.answered'>,
): PendingApproval | null {
  if (approvals.lastDecided?.call === key) return approvals.lastDecided;
  const call = turn?.calls.find((one) => one.key === key);
  const { name = '', args = '' } = call ?? {};
  const asked = { id: 0, call: key, name, args, hash: '', why: '', display: '', always: null };
  return { ...asked, at, expires_at: at, run: null, queuedBefore: [] };
}

function resumeBlockedRun(session: Session, run: Run, event: EventOf<'approval.answered'>): Session {
  const { message, name, at } = event;
  const stands =
    name !== undefined && message !== undefined ? addStandInMessage(session, { id: message, name, at }) : session;
  const owed = mapGet(session.messages, run.message)?.isReplied === false;
  return {
    ...stands,
    queue: stands.queue.filter((id) => id !== message),
    undelivered: event.joins && message !== undefined ? [...stands.undelivered, message] : stands.undelivered,
    run: owed || message === undefined ? run : { ...run, message },
    runEnd: null,
    plan: planAtWorkAgain(session, at),
  };
}

function planAtWorkAgain({ plan, runEnd }: Session, at: string): Plan | null {
  if (plan?.status !== 'waiting' || runEnd?.plan !== plan.id) return plan;
  const { reason: _, ...open } = plan;
  return bumpRevision({ ...open, status: 'running' }, at);
}

/** An answer that was not a message gets a reply like one, which reports how the run ends. */
export function addStandInMessage(
  session: Session,
  { id, name, at }: Pick<Message, 'id' | 'name' | 'at'>,
  text = '',
): Session {
  const message: Message = { id, name, at, text, sha256: '', arrivedDuringRun: false, isReplied: false };
  return {
    ...session,
    messages: mapSet(session.messages, id, message),
    replyNames: mapSet(session.replyNames, name, true),
    unanswered: [...session.unanswered, id],
  };
}

export const endsForApproval = ({ approvals }: Session, event: EventOf<'run.ended'>): boolean =>
  approvals.open !== null && event.reason === RUN_END.approval;

/** Keeps the run that has ended, to resume it after the verdict. */
export const keepRestingRun = ({ approvals, run }: Session): ApprovalState => ({
  ...approvals,
  open: approvals.open && { ...approvals.open, run: run ?? approvals.open.run },
});

/** Denials are counted within a run, from its start or a "continue". */
export const resetDenials = ({ approvals }: Session): ApprovalState => ({ ...approvals, denials: {} });

/**
 * The reply gave its reader a chance to see the question; messages received before it were written without knowing of
 * it.
 */
export function markApprovalSeen(session: Session, message: string): Session {
  const { approvals, runEnd, queue } = session;
  const { open } = approvals;
  if (!open || runEnd?.message !== message || runEnd.reason !== RUN_END.approval) return session;
  return { ...session, approvals: { ...approvals, open: { ...open, queuedBefore: queue } } };
}
