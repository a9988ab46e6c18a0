import { mapGet } from '../../base/collections.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import { RUN_END } from '../../protocol/session/reply.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { proofOfRun } from '../detect/step-claims.ts';
import { findReplyAttachments, replyEvent } from '../messages/replies.ts';
import { REPLY_WORDING } from '../messages/reply-wording.ts';
import { currentPolicy } from '../modes/mode-choice.ts';
import { unreachedStepIds } from '../plan/plan-steps.ts';
import { restingRun } from '../reducers/reduce-approval.ts';
import { sessionAfter } from '../reducers/reduce-event.ts';
import type { Decision } from '../runs/decision.ts';
import { endRunEvents } from '../runs/end-run.ts';
import { sessionDepth } from '../session/child-session.ts';
import type { RunEnd } from '../session/run-state.ts';
import { sessionLanguage } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';
import { doubtQuestion } from './human-in-the-loop.ts';

/**
 * A decision that ends a run also ends its plan, if that is over, and commits the replies that are due then: one
 * append. A reply attaches files, so the engine is first asked which of those it offers exist (`rules.filesThere`).
 */
export function withRunClosed(session: Session, decision: Decision, rules: Rules): Decision {
  if (decision.do !== 'record') return decision;
  const end = decision.events.find((event) => event.type === 'run.ended');
  if (!end) return decision;
  const offered = findReplyAttachments(session, end.text);
  if (offered.some((path) => !rules.filesThere?.has(path))) return { do: 'look', files: offered };
  const files = offered.filter((path) => rules.filesThere?.get(path));
  const events = decision.events.map((event) => (event === end && files.length > 0 ? { ...end, files } : event));
  for (let after = sessionAfter(session, events); ; ) {
    const next = afterRunEvents(after, rules);
    if (next.length === 0) return { do: 'record', events };
    events.push(...next);
    after = sessionAfter(after, next);
  }
}

/** The end of a run that would never continue. The reply says so, and the person can continue. */
export function endStalledRun(session: Session, rules: Rules): Decision {
  const text = REPLY_WORDING[sessionLanguage(session, rules)].stalled;
  const events = endRunEvents(session, rules, { status: 'failed', reason: RUN_END.stalled, text });
  return withRunClosed(session, { do: 'record', events }, rules);
}

/** What the end of a run still leads to. Decided with that end, and again if an older log ends between the two. */
function afterRunEvents(session: Session, rules: Rules): EventBody[] {
  if (session.run) return [];
  const planEnd = planEndEvent(session);
  return planEnd ? [planEnd] : owedReplyEvents(session, rules);
}

/** The end of a plan when its run is done, computed from its steps alone. */
export function planEndEvent(session: Session): EventBody | null {
  const { plan, runEnd, run } = session;
  if (run || !plan || plan.status !== 'running' || !runEnd) return null;
  if ((runEnd.status === 'failed' || runEnd.status === 'cancelled') && runEnd.plan === plan.id)
    return { type: 'plan.ended', plan: plan.id, status: runEnd.status, reason: runEnd.reason };
  if (runEnd.status !== 'done') return null;
  const failed = unreachedStepIds(plan, session.replacedSteps);
  if (failed.length > 0)
    return { type: 'plan.ended', plan: plan.id, status: 'failed', reason: `not reached: ${failed.join(', ')}` };
  if (plan.steps.length === 0)
    return { type: 'plan.ended', plan: plan.id, status: 'completed', reason: RUN_END.answered };
  // A person did without all of its steps.
  const status = plan.steps.some((step) => step.status === 'completed') ? 'completed' : 'cancelled';
  return { type: 'plan.ended', plan: plan.id, status, reason: 'all steps are closed' };
}

/** Replies that are due: to the message of an ended run, and to each message that joined a model call. */
export function owedReplyEvents(session: Session, rules: Rules): EventBody[] {
  const language = sessionLanguage(session, rules);
  const { runEnd } = session;
  const message = runEnd && mapGet(session.messages, runEnd.message);
  if (runEnd && message && !message.isReplied && !isWaitingSilently(session)) {
    const usage = runEnd.spent;
    // Its words are in doubt: the run beside the plan has ended, and the plan waits for what they mean.
    const isAsked = session.doubt?.id === message.id && runEnd.reason === RUN_END.unclear;
    return [
      replyEvent(
        session,
        message.id,
        {
          status: isAsked ? 'waiting' : runEnd.status,
          ...(isAsked && { question: doubtQuestion(runEnd.text, language) }),
          text: runEnd.text,
          reason: runEnd.reason,
          usage,
          ...(runEnd.wasBeside && { plan: null }),
          ...(session.question && { question: session.question }),
          attachments: [...(runEnd.files ?? [])],
          ...(session.approvals.open && { approval: session.approvals.open.id }),
          ...childFacts(session, runEnd),
        },
        language,
      ),
    ];
  }
  const dealtWith = new Set([
    ...session.queue,
    ...session.undelivered,
    session.run?.message,
    restingRun(session)?.message,
  ]);
  const joined = session.unanswered.find((id) => !dealtWith.has(id));
  return joined !== undefined ? [joinedReply(session, joined, rules)] : [];
}

/** What a child session tells its parent of its run, beside the words. */
export const childFacts = (session: Session, { exitStatus }: RunEnd): { exit?: number; proof?: string[] } =>
  sessionDepth(session.name) === 0
    ? {}
    : { ...(exitStatus !== null && { exit: exitStatus }), proof: proofOfRun(session) };

/** A child session replies once, when it is done: until then its parent keeps waiting. */
const isWaitingSilently = ({ name, approvals }: Session): boolean => approvals.open !== null && sessionDepth(name) > 0;

export function joinedReply(session: Session, message: string, rules: Rules): EventBody {
  const language = sessionLanguage(session, rules);
  const { joined, notHeard } = REPLY_WORDING[language];
  const text = currentPolicy(session).runsInParallel ? `${joined} ${notHeard}` : joined;
  return replyEvent(session, message, { status: 'joined', text }, language);
}
