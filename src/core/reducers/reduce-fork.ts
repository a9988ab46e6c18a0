import { mapGet, mapSet } from '../../base/collections.ts';
import type { EventOf } from '../../protocol/session/event.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import { omitFields } from '../plan/plan-steps.ts';
import { NO_WORK_HISTORY } from '../session/run-state.ts';
import { withoutText } from '../session/session-messages.ts';
import type { Session } from '../session/session-state.ts';

/**
 * The session goes on as a copy: what people were owed, the original gives them, and what it had outside its own folder
 * it does not have.
 */
export function reduceForked(session: Session, { checkpoint, seq }: EventOf<'session.forked'>): Session {
  let { messages } = session;
  for (const id of session.unanswered) {
    const message = mapGet(messages, id);
    if (!message) continue;
    const replied = session.undelivered.includes(id) ? { ...message, isReplied: true } : withoutText(message);
    messages = mapSet(messages, id, replied);
  }
  return {
    ...session,
    messages,
    unanswered: [],
    queue: [],
    unpublishedReplies: {},
    children: {},
    shelvedProgress: Object.fromEntries(
      Object.entries(session.shelvedProgress).map(([id, progress]) => [id, { ...progress, children: {} }]),
    ),
    plan: session.plan && withoutChildren(session.plan),
    shelvedPlans: Object.fromEntries(
      Object.entries(session.shelvedPlans).map(([id, plan]) => [id, withoutChildren(plan)]),
    ),
    browserHold: null,
    jobsEndSeq: seq,
    work: { ...NO_WORK_HISTORY, last: checkpoint ?? session.work.last },
  };
}

const withoutChildren = (plan: Plan): Plan => ({ ...plan, steps: plan.steps.map(withoutChild) });

/** What a child session was working on is open again; what a call had given to one is left out. */
function withoutChild(step: Step): Step {
  if (step.child === undefined) return step;
  const own = omitFields(step, 'child');
  if (step.status !== 'running' && step.status !== 'pending') return own;
  return step.call === undefined
    ? { ...omitFields(own, 'started_at'), status: 'pending' }
    : { ...own, status: 'skipped', error: 'its child session was not copied' };
}
