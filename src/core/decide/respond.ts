import { nearestName } from '../../base/strings.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import { RUN_END } from '../../protocol/session/reply.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { messageKind } from '../messages/message-actions.ts';
import { actionIn, type MessageAction, SESSION_COMMANDS } from '../messages/message-table.ts';
import { replyInWords } from '../messages/replies.ts';
import { withdrawQuestionEvents } from '../prompt/chat-messages.ts';
import { namedShelvedPlan } from '../runs/run-lifecycle.ts';
import { isFromAncestor } from '../session/child-session.ts';
import type { Message } from '../session/session-messages.ts';
import { messageStanding } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';
import { ACTIONS, changeRunEnd, endPlanEvent } from './answers.ts';
import { answerApprovalEvents } from './approval-decisions.ts';
import { settleDoubt } from './human-in-the-loop.ts';

/** The events for a queued message when its turn comes, by its action in the answer table. */
export function respondToMessage(session: Session, message: Message, rules: Rules): EventBody[] {
  const kind = messageKind(session, message);
  if ('forbidden' in kind)
    return replyInWords(session, message, rules, (words) => words.forbidden(kind.forbidden), 'rejected');
  if ('refused' in kind) return replyInWords(session, message, rules, () => kind.refused, 'rejected');
  if ('unknown' in kind) {
    const name = kind.unknown;
    const known = Array.from(SESSION_COMMANDS.values(), ({ usage }) => usage);
    const nearest = nearestName(name.slice(0, 80), [...SESSION_COMMANDS.keys()]);
    return replyInWords(session, message, rules, (words) => words.unknown(name, nearest, known.join(', ')), 'rejected');
  }
  if (kind.kind === 'task' && isFromAncestor(session.name, message.from)) {
    const before = endEarlierTask(session);
    if (before.length > 0) return before;
  }
  const settled = settleDoubt(session, message);
  if (settled.length > 0) return settled;
  const answered = answerApprovalEvents(session, message, kind.kind, rules);
  const action = actionIn(kind.kind, messageStanding(session));
  const halting = answered ? [] : stopAbandonedChildren(session, message, action);
  if (halting.length > 0) return halting;
  return answered ?? ACTIONS[action](session, message, rules);
}

/** A child session that is given a task drops the one it had stopped at, first: the message stays in the queue. */
function endEarlierTask(session: Session): EventBody[] {
  const { plan, runEnd, approvals } = session;
  const status = messageStanding(session);
  if (approvals.open || (status !== 'paused' && status !== 'waiting')) return [];
  return [
    ...withdrawQuestionEvents(session, 'the task was given again'),
    ...(runEnd ? [changeRunEnd(session, runEnd.message, 'cancelled', RUN_END.asked)] : []),
    ...(plan && (plan.status === 'paused' || plan.status === 'waiting') ? [endPlanEvent(plan.id)] : []),
  ];
}

/**
 * Before a message leaves the plan for something else while a child session asks, the others are ordered to stop:
 * nobody would use their results. The message stays in the queue meanwhile.
 */
function stopAbandonedChildren(session: Session, message: Message, action: MessageAction): EventBody[] {
  const leaves =
    action === 'reset' ||
    action === 'start_beside' ||
    (action === 'resume' && namedShelvedPlan(session, message) !== undefined);
  const { runEnd, children } = session;
  if (!leaves || runEnd?.status !== 'waiting') return [];
  if (!Object.values(children).some((child) => child.state === 'working')) return [];
  return [
    ...withdrawQuestionEvents(session, 'the person turned to something else'),
    changeRunEnd(session, runEnd.message, 'paused', RUN_END.stopped),
  ];
}
