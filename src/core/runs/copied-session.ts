import type { EventBody } from '../../protocol/session/event.ts';
import { RUN_END } from '../../protocol/session/reply.ts';
import { resolveRules } from '../../protocol/settings/effective-settings.ts';
import { reduceEvent } from '../reducers/reduce-event.ts';
import type { Session } from '../session/session-state.ts';
import { endRunEvents } from './end-run.ts';

type Forked = EventBody & { type: 'session.forked' };

/**
 * The events that end the log of a copied session: that it is a copy, and that its run is paused, so that nothing goes
 * on in two places. A call that waits for approval is withdrawn.
 */
export function copiedSessionEvents(session: Session, forked: Forked): EventBody[] {
  const events: EventBody[] = [forked];
  const after = () => events.reduce(reduceNext, session);
  const { open } = session.approvals;
  if (open) {
    const { call, id } = open;
    const why = 'This session is a copy; ask again if the call is still needed.';
    events.push({ type: 'approval.answered', call, id, decision: 'deny', by: 'withdrawn', why });
  }
  return [...events, ...endRunEvents(after(), resolveRules(), { status: 'paused', reason: RUN_END.asked })];
}

const reduceNext = (session: Session, body: EventBody): Session =>
  reduceEvent(session, { v: 2, seq: session.seq + 1, epoch: 1, at: session.at, ...body });
