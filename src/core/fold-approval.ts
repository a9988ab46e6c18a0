import type { EventOf } from '../protocol/event.ts';
import { own } from '../protocol/own.ts';
import type { Plan } from '../protocol/plan.ts';
import { entryOf, withValue } from './keyed.ts';
import type { Approval, Approvals, Call, Message, Run, Session, Verdict } from './session.ts';
import { touched } from './steps.ts';

/** A call is asked about, or it is decided whether it runs. */
export function foldApproval(
  session: Session,
  event: EventOf<'approval.asked'> | EventOf<'approval.answered'>,
): Session {
  return event.type === 'approval.asked' ? asked(session, event) : answered(session, event);
}

function asked(session: Session, event: EventOf<'approval.asked'>): Session {
  const { id, call, name, args, folder, hash, why, shows, always, at, expires_at } = event;
  const open: Approval = {
    ...{ id, call, name, args, hash, why, shows, always, at, expires_at },
    ...(folder !== undefined && { folder }),
    run: null,
    unseen: session.queue,
  };
  return { ...session, approvals: { ...session.approvals, count: id, open } };
}

/** What a call is counted by. */
export const denialKey = ({ name, args }: Pick<Call, 'name' | 'args'>): string => `${name}\n${args}`;

/** The verdict stands until the next one; the run that rested over the call goes on where it was, with its limits and counters. */
function answered(session: Session, event: EventOf<'approval.answered'>): Session {
  const { approvals } = session;
  const open = approvals.open?.call === event.call ? approvals.open : null;
  const about = open ?? ruledOut(session, event);
  if (!about) return session;
  const { decision, by, why, at } = event;
  const verdict: Verdict = { decision, by, why, at };
  const key = denialKey(about);
  const denied =
    decision === 'deny' ? { ...approvals.denied, [key]: (own(approvals.denied, key) ?? 0) + 1 } : approvals.denied;
  const decided = {
    ...session,
    approvals: { ...approvals, open: null, denied, last: { ...about, run: null, verdict } },
  };
  return open?.run && !session.run ? goesOn(decided, open.run, event) : decided;
}

/** A call that a rule denied without asking anybody. */
function ruledOut({ turn, approvals }: Session, { call: key, at }: EventOf<'approval.answered'>): Approval | null {
  if (approvals.last?.call === key) return approvals.last;
  const call = turn?.calls.find((one) => one.key === key);
  const { name = '', args = '' } = call ?? {};
  const asked = { id: 0, call: key, name, args, hash: '', why: '', shows: '', always: null };
  return { ...asked, at, expires_at: at, run: null, unseen: [] };
}

function goesOn(session: Session, run: Run, event: EventOf<'approval.answered'>): Session {
  const { message, name, at } = event;
  const stands =
    name !== undefined && message !== undefined ? withStandIn(session, { id: message, name, at }) : session;
  const owed = entryOf(session.messages, run.message)?.replied === false;
  return {
    ...stands,
    queue: stands.queue.filter((id) => id !== message),
    uncarried: event.joins && message !== undefined ? [...stands.uncarried, message] : stands.uncarried,
    run: owed || message === undefined ? run : { ...run, message },
    rest: null,
    plan: planAtWork(session, at),
  };
}

function planAtWork({ plan, rest }: Session, at: string): Plan | null {
  if (plan?.status !== 'waiting' || rest?.plan !== plan.id) return plan;
  const { reason: _, ...open } = plan;
  return touched({ ...open, status: 'running' }, at);
}

/** What was no message gets a reply like one: what the run comes to is told there. */
export function withStandIn(
  session: Session,
  { id, name, at }: Pick<Message, 'id' | 'name' | 'at'>,
  text = '',
): Session {
  const message: Message = { id, name, at, text, sha256: '', during: false, replied: false };
  return {
    ...session,
    messages: withValue(session.messages, id, message),
    names: withValue(session.names, name, true),
    unanswered: [...session.unanswered, id],
  };
}

export const waitsForApproval = ({ approvals }: Session, event: EventOf<'run.rested'>): boolean =>
  approvals.open !== null && event.reason === 'approval';

/** The run rests, and is kept as it is. */
export const withRun = ({ approvals, run }: Session): Approvals => ({
  ...approvals,
  open: approvals.open && { ...approvals.open, run: run ?? approvals.open.run },
});

/** Denials are counted within a run, from its start or a "continue" on. */
export const anew = ({ approvals }: Session): Approvals => ({ ...approvals, denied: {} });

/** Whoever was told of it by a reply had a chance to read it; what came in until then was written without. */
export function withSeen(session: Session, message: string): Session {
  const { approvals, rest, queue } = session;
  const { open } = approvals;
  if (!open || rest?.message !== message || rest.reason !== 'approval') return session;
  return { ...session, approvals: { ...approvals, open: { ...open, unseen: queue } } };
}
