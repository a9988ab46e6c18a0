import { getOwn, mapGet, mapSet } from '../../base/collections.ts';
import type { EventOf } from '../../protocol/session/event.ts';
import type { Plan } from '../../protocol/session/plan.ts';
import { RUN_END } from '../../protocol/session/reply.ts';
import { bumpRevision } from '../plan/plan-steps.ts';
import { giveTimeAgain } from '../session/child-session.ts';
import {
  type ApprovalState,
  type ApprovalVerdict,
  type ChildCalls,
  NO_CHILD_CALLS,
  type PendingApproval,
  type Run,
  type TurnCall,
} from '../session/run-state.ts';
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
  return open?.run && !session.run ? resumeRestingRun(decided, open.run, event) : decided;
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

/** The run goes on; its reply goes to the message that answered, if its own has one by now. */
export function resumeRestingRun(
  session: Session,
  run: Run,
  event: Pick<EventOf<'approval.answered'>, 'message' | 'name' | 'at' | 'joins'>,
): Session {
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
  if (runEnd?.message !== message || runEnd.reason !== RUN_END.approval) return session;
  if (!open) return { ...session, childCalls: { ...session.childCalls, queuedBefore: queue } };
  return { ...session, approvals: { ...approvals, open: { ...open, queuedBefore: queue } } };
}

/** The answer to a call was sent to its session. */
export const markAnswered = ({ childCalls }: Session, session: string): ChildCalls => ({
  ...childCalls,
  calls: childCalls.calls.map((call) => (call.session === session ? { ...call, isAnswered: true } : call)),
});

/** The run that waits for a person's approval, of a call of its own or of child sessions; null if none does. */
export const restingRun = ({ run, approvals, childCalls }: Session): Run | null =>
  run ? null : (approvals.open?.run ?? childCalls.run);

/** The session with its run, or the one that waits, as it is now. */
export function withRun(session: Session, run: Run): Session {
  const { approvals, childCalls } = session;
  if (session.run) return { ...session, run };
  if (approvals.open?.run) return { ...session, approvals: { ...approvals, open: { ...approvals.open, run } } };
  return { ...session, childCalls: { ...childCalls, run } };
}

/**
 * The calls of child sessions that wait by now; what was asked and answered about each is kept. The run that waited for
 * them goes on if the event says so, and the time of the children's steps counts from then on.
 */
export function reduceChildCalls(session: Session, event: EventOf<'child.asked'>): Session {
  const { childCalls } = session;
  const calls = event.calls.map((call) => ({ ...call, ...marksOf(childCalls, call) }));
  const isNew = calls.some((call) => !childCalls.calls.some((known) => isSameCall(known, call)));
  const since = isNew ? event.at : childCalls.since;
  const asked = { ...session, childCalls: { ...childCalls, calls, since } };
  if (!event.resumes || session.run || !childCalls.run) return asked;
  return resumeRestingRun(
    { ...asked, childCalls: { ...asked.childCalls, run: null }, children: giveTimeAgain(session.children, event.at) },
    childCalls.run,
    event,
  );
}

type CallIdentity = { session: string; id: number; hash: string };

export const isSameCall = (a: CallIdentity, b: CallIdentity): boolean =>
  a.session === b.session && a.id === b.id && a.hash === b.hash;

function marksOf(
  { calls }: ChildCalls,
  call: CallIdentity,
): Pick<ChildCalls['calls'][number], 'isShown' | 'isAnswered'> {
  const known = calls.find((one) => isSameCall(one, call));
  return { ...(known?.isShown && { isShown: true }), ...(known?.isAnswered && { isAnswered: true }) };
}

/** Whether a run that ends like this ended to ask a person about calls of child sessions. */
export const endsForChildCalls = ({ approvals, childCalls }: Session, event: EventOf<'run.ended'>): boolean =>
  approvals.open === null && event.reason === RUN_END.approval && childCalls.calls.some((call) => !call.isAnswered);

/** The calls after a run has ended: the person was asked about those that wait, or none is asked about any more. */
export function childCallsAfterRun(session: Session, event: EventOf<'run.ended'>): ChildCalls {
  const { childCalls, queue, run } = session;
  if (!endsForChildCalls(session, event)) {
    if (childCalls.calls.length === 0) return NO_CHILD_CALLS;
    const calls = childCalls.calls.map(({ isShown: _, ...call }) => call);
    return { ...childCalls, calls, run: null, queuedBefore: [] };
  }
  const calls = childCalls.calls.map((call) => (call.isAnswered ? call : { ...call, isShown: true as const }));
  return { ...childCalls, calls, run: run ?? childCalls.run, queuedBefore: queue };
}

/** A person takes over the browser, or gives it back. */
export const reduceBrowserHold = (session: Session, event: EventOf<'browser.taken' | 'browser.returned'>): Session =>
  event.type === 'browser.taken'
    ? { ...session, browserHold: { from: event.from ?? null, since: event.at } }
    : { ...session, browserHold: null, notices: noteBrowserUse(session, event.seq) };

/** The model hears once that a person used the browser, however often they did until then. */
const noteBrowserUse = ({ notices }: Session, seq: number): Session['notices'] => [
  ...notices.filter(({ about }) => about !== 'browser'),
  { seq, about: 'browser' },
];
