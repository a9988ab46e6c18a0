import type { EventBody, EventOf } from '../../protocol/session/event.ts';
import type { MessageFile, SenderRights } from '../../protocol/session/message.ts';
import type { PlanChange } from '../../protocol/session/plan-edit.ts';
import { commonReach, includesRole, type Role } from '../../protocol/workspace/daemon-files.ts';
import { rootSessionOf } from '../../protocol/workspace/session-names.ts';
import { sessionDepth } from './child-session.ts';
import type { Session } from './session-state.ts';

/** The author of what a message orders, as events name them. */
export function authorOf({
  by,
  from,
  rights,
}: Pick<MessageFile, 'by' | 'from' | 'rights'>): Pick<EventOf<'plan.edited'>, 'by' | 'from' | 'rights'> {
  return { by: by ?? 'person', ...(from !== undefined && { from }), ...(rights && { rights }) };
}

/** The event of an edit that a message orders; none without changes. */
export const editEvents = (sender: Parameters<typeof authorOf>[0], changes: PlanChange[]): EventBody[] =>
  changes.length === 0 ? [] : [{ type: 'plan.edited', ...authorOf(sender), changes, ignored: [] }];

/** Whether a sender has a role; the owner has every one. */
export const hasRole = (rights: SenderRights | undefined, wanted: Role): boolean =>
  rights?.role === undefined || includesRole(rights.role, wanted);

/**
 * Whether a message may give orders: it names no sender, or one of `senders`; without that setting anybody may. A child
 * session accepts orders from its ancestors, which speak for the person.
 */
export function mayGiveOrders(
  session: string,
  from: string | undefined,
  senders: readonly string[] | undefined,
): boolean {
  if (from === undefined || senders === undefined || senders.includes(from)) return true;
  return sessionDepth(session) > 0 && rootSessionOf(from) === rootSessionOf(session);
}

/**
 * The session once these senders have a part in its run, by a message, or in its plan, by an edit: in both, unless the
 * run leaves the plan alone.
 */
export function withSendersReach(
  session: Session,
  part: 'run' | 'plan',
  rights: ReadonlyArray<SenderRights | undefined>,
): Session {
  const { run } = session;
  const more = commonReach(...rights.map((one) => one?.sessions));
  if (more.length === 0) return session;
  const isBeside = run?.besidePlan !== undefined;
  return {
    ...session,
    reach: part === 'plan' || !isBeside ? commonReach(session.reach, more) : session.reach,
    run: run && (part === 'run' || !isBeside) ? { ...run, reach: commonReach(run.reach, more) } : run,
  };
}
