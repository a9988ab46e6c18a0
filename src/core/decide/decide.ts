import { mapGet } from '../../base/collections.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import { RUN_END } from '../../protocol/session/reply.ts';
import { type Rules, resolveRules } from '../../protocol/settings/effective-settings.ts';
import { resumeForChildCalls } from '../children/child-calls.ts';
import { decideDelegation, haltChildren } from '../children/delegate.ts';
import { decideSpawnCalls } from '../children/spawn-calls.ts';
import { nextClaimAction } from '../detect/step-claims.ts';
import { parseCommand } from '../messages/commands.ts';
import {
  answerableDuringCall,
  emptyJoiningMessage,
  endsRun,
  joiningMessages,
  messageKind,
  messageToInterpret,
  mostUrgentMessage,
  type UrgentMessage,
} from '../messages/message-actions.ts';
import { isBareContinue } from '../messages/questions.ts';
import { currentPolicy } from '../modes/mode-choice.ts';
import { assertLegalTransitions } from '../plan/step-moves.ts';
import { answerQuestionEvents } from '../prompt/chat-messages.ts';
import { compactionEvent } from '../prompt/context-window.ts';
import type { Decision } from '../runs/decision.ts';
import {
  checkFinished,
  checkLimits,
  checkNothingReady,
  checkOutage,
  checkRepeatedCalls,
  endRunEvents,
} from '../runs/end-run.ts';
import { crashRunEnd, deadLetterEvents, resumeAfterSettings, settingsRunEnd } from '../runs/run-lifecycle.ts';
import { sessionDepth } from '../session/child-session.ts';
import { isAskUserCall, isPlanCall, isSpawnCall } from '../session/internal-calls.ts';
import type { StepClaim, TurnCall } from '../session/run-state.ts';
import type { Message } from '../session/session-messages.ts';
import { activePlan, runWait } from '../session/session-queries.ts';
import { CRASH_LIMIT, type RunEndReason, type Session } from '../session/session-state.ts';
import {
  approvalTimeout,
  checkDenials,
  deniedCallEvents,
  endForApprovalEvents,
  waitsForApproval,
} from './approval-decisions.ts';
import { dueCheckpoint, restoreDecision } from './checkpoint-decisions.ts';
import { decideChildCallAnswer } from './child-call-answers.ts';
import { joinedReply, owedReplyEvents, planEndEvent, withRunClosed } from './close-run.ts';
import { askUserEvents, browserLostEvents, outdatedBrowserCallEvents, waitsForBrowser } from './human-in-the-loop.ts';
import { judgeAnswer } from './judge-answer.ts';
import { planCallEvents } from './plan-tool-calls.ts';
import { respondToMessage } from './respond.ts';
import { askBeforeShelving, chooseStepEvents, openClaim, planEventsOf, settleTurn } from './turn-events.ts';

/**
 * Decides what to do next. Pure: no clock, no randomness, no waiting. The same session always gives the same decision,
 * and each event it asks for removes the reason to ask for it, so after a crash at any point the same sequence
 * continues.
 */
export function decide(session: Session, rules: Rules = resolveRules()): Decision {
  const decision = withRunClosed(session, nextDecision(session, rules), rules);
  if (decision.do === 'record') assertLegalTransitions(session.plan, decision.events);
  return decision;
}

function nextDecision(session: Session, rules: Rules): Decision {
  const due = dueCheckpoint(session, rules);
  if (due) return due;
  const unpublished = Object.keys(session.unpublishedReplies)[0];
  if (unpublished !== undefined) return { do: 'publish', message: unpublished };
  // The reply with the question goes out before anything else is handled: messages received until then do not answer
  // it.
  const asked = endForApprovalEvents(session, rules);
  if (asked.length > 0) return { do: 'record', events: asked };
  const deadLetter = deadLetterEvents(session, rules);
  if (deadLetter.length > 0) return { do: 'record', events: heardDeadLetter(session, rules) ?? deadLetter };
  const events = dueEvents(session, rules);
  if (events.length > 0) return { do: 'record', events };
  const doubtful = messageToInterpret(session);
  if (session.run) {
    const settings = decideOnSettings(session, rules);
    return settings ?? (doubtful ? { do: 'interpret', message: doubtful.id } : decideInRun(session, rules));
  }
  // Before the next message, which may drop the plan and its child sessions.
  const halt = haltChildren(session);
  if (halt) return halt;
  const next = nextMessage(session);
  if (next && next === doubtful && rules.settingsFault === null) return { do: 'interpret', message: next.id };
  const answer = next && (decideChildCallAnswer(session, next, rules) ?? restoreDecision(session, next, rules));
  if (answer) return answer;
  const begun = next ? respondToMessage(session, next, rules) : [];
  if (begun.length > 0) return { do: 'record', events: begun };
  const again = [...resumeAfterSettings(session, rules), ...resumeForChildCalls(session)];
  if (again.length > 0) return { do: 'record', events: again };
  return { do: 'idle', ...approvalTimeout(session) };
}

/** What can be done during a call: replies, except that of a run before its last checkpoint, and what needs no run. */
export function decideDuringCall(session: Session, rules: Rules): Decision | null {
  const held = dueCheckpoint(session, rules) && !session.run ? session.runEnd?.message : undefined;
  const unpublished = Object.keys(session.unpublishedReplies).find((message) => message !== held);
  if (unpublished !== undefined) return { do: 'publish', message: unpublished };
  const lost = browserLostEvents(session, rules);
  if (lost.length > 0) return { do: 'record', events: lost };
  const first = answerableDuringCall(session);
  return first ? { do: 'record', events: respondToMessage(session, first.message, rules) } : null;
}

/** Events that follow from the current state: the first kind for which there are any. */
function dueEvents(session: Session, rules: Rules): EventBody[] {
  const end = planEndEvent(session);
  if (end) return [end];
  const lost = browserLostEvents(session, rules);
  if (lost.length > 0) return lost;
  const owed = owedReplyEvents(session, rules);
  if (owed.length > 0) return owed;
  const urgent = mostUrgentMessage(session);
  if (urgent) return urgentEvents(session, urgent, rules);
  const idle = emptyJoiningMessage(session);
  const again = retryNowEvents(session, idle);
  return idle ? [...again, joinedReply(session, idle.id, rules)] : again;
}

/** "Continue" while the model is waited for has it tried at once. `bare`: a message that says only that. */
function retryNowEvents(session: Session, bare: Message | undefined): EventBody[] {
  const last = session.run?.failure?.last;
  if (!last || !runWait(session) || (last.retry_at ?? '') <= session.at) return [];
  const isContinue = (message: Message | undefined) =>
    message !== undefined && (isBareContinue(message) || parseCommand(message)?.name === 'continue');
  const later = joiningMessages(session)
    .map((id) => mapGet(session.messages, id))
    .some((message) => isContinue(message) && Date.parse(message?.at ?? '') > Date.parse(last.at));
  if (!later && !isContinue(bare)) return [];
  const { kind, error, attempt } = last;
  return [{ type: 'model.failed', kind, error, attempt, retry_at: session.at, ms: 0 }];
}

/** A message that ends the run takes effect once what the model has said is in the plan, or has ended the run. */
function urgentEvents(session: Session, urgent: UrgentMessage, rules: Rules): EventBody[] {
  const { message } = urgent;
  if (!endsRun(urgent)) return respondToMessage(session, message, rules);
  const { events, after } = settleTurn(session, rules);
  return after.run ? [...events, ...respondToMessage(after, message, rules)] : events;
}

/** A run without valid settings ends; a child session waits silently for its root, which resumes it. */
function decideOnSettings(session: Session, rules: Rules): Decision | null {
  if (rules.settingsFault === null) return null;
  if (sessionDepth(session.name) > 0) return { do: 'idle' };
  return { do: 'record', events: endHeardRun(session, rules, settingsRunEnd(session, rules, rules.settingsFault)) };
}

/** The run that daemons were lost over ends. Its answer is heard once: it may be what they are lost over. */
function heardDeadLetter(session: Session, rules: Rules): EventBody[] | null {
  const isFirst = session.run !== null && session.crashes.count === CRASH_LIMIT;
  return isFirst ? endHeardRun(session, rules, crashRunEnd(session, rules)) : null;
}

/** Ends the run, unless the last answer has ended it. */
function endHeardRun(session: Session, rules: Rules, why: RunEndReason): EventBody[] {
  const { events, after } = settleTurn(session, rules, why.whyInterrupted);
  return after.run ? [...events, ...endRunEvents(after, rules, why)] : events;
}

const nextMessage = (session: Session): Message | undefined =>
  session.queue.flatMap((id) => mapGet(session.messages, id) ?? []).find((one) => !isBlockedByApproval(session, one));

function isBlockedByApproval(session: Session, message: Message): boolean {
  const kind = messageKind(session, message);
  return waitsForApproval(session, message, 'kind' in kind ? kind.kind : null);
}

/** In a run: finish the current turn, then call the model again, unless there is a reason to end the run. */
function decideInRun(session: Session, rules: Rules): Decision {
  const answered = answerQuestionEvents(session);
  if (answered.length > 0) return { do: 'record', events: answered };
  const asks = askBeforeShelving(session, rules);
  if (asks) return { do: 'record', events: endRunEvents(session, rules, asks) };
  const planned = planEventsOf(session);
  if (planned.length > 0) return { do: 'record', events: planned };
  const denied = (session.turn?.calls ?? []).flatMap((call) => deniedCallEvents(session, call));
  if (denied.length > 0) return { do: 'record', events: denied };
  const outdated = (session.turn?.calls ?? []).flatMap((call) => outdatedBrowserCallEvents(session, call));
  if (outdated.length > 0) return { do: 'record', events: outdated };
  const open = session.turn?.calls.find(
    (call) => !isAskUserCall(call) && (call.state === 'asked' || call.state === 'started'),
  );
  const plan = activePlan(session);
  if (open && plan && isPlanCall(open)) return { do: 'record', events: planCallEvents(session, plan, open) };
  if (open && plan && isSpawnCall(open)) return decideSpawnCalls(session, plan, rules);
  if (open) return waitsForBrowser(session, open) ? { do: 'idle' } : { do: 'act', call: open };
  const question = askUserEvents(session, rules);
  if (question.length > 0) return { do: 'record', events: question };
  const claim = openClaim(session);
  if (claim) return decideClaim(session, claim, rules);
  const verdict = judgeAnswer(session);
  if (verdict.length > 0) return { do: 'record', events: verdict };
  const action = currentPolicy(session).nextAction(session, rules);
  if (action && 'record' in action) return { do: 'record', events: action.record };
  if (action && 'endRun' in action) return { do: 'record', events: endRunEvents(session, rules, action.endRun) };
  if (action && 'act' in action) return actUnlessDenied(session, action.act);
  const given = action ? null : decideDelegation(session, rules);
  if (given && given.do !== 'idle') return given;
  const rest =
    (action || given ? null : checkFinished(session, rules)) ??
    checkRepeatedCalls(session, rules) ??
    checkDenials(session, rules) ??
    checkOutage(session, rules) ??
    checkLimits(session, rules);
  if (rest) return { do: 'record', events: endRunEvents(session, rules, rest) };
  if (given) return given;
  const chosen = action ? [] : chooseStepEvents(session);
  if (chosen.length > 0) return { do: 'record', events: chosen };
  const nothingReady = action ? null : checkNothingReady(session, rules);
  if (nothingReady) return { do: 'record', events: endRunEvents(session, rules, nothingReady) };
  const compacted = compactionEvent(session, rules);
  if (compacted) return { do: 'record', events: [compacted] };
  return {
    do: 'think',
    deliver: [...session.undelivered, ...joiningMessages(session)],
    notBefore: session.run?.failure?.last.retry_at ?? null,
    ...(action && { plannerQuery: action.ask }),
  };
}

/** Runs a call, unless it was denied. */
function actUnlessDenied(session: Session, call: TurnCall): Decision {
  const refused = deniedCallEvents(session, call);
  return refused.length > 0 ? { do: 'record', events: refused } : { do: 'act', call };
}

/** A claim stays open until its checks have run; if a person has to decide, the run waits. */
function decideClaim(session: Session, claim: StepClaim, rules: Rules): Decision {
  const next = nextClaimAction(session, claim);
  if (next.need === 'try') return actUnlessDenied(session, next.call);
  if (next.need === 'record') return { do: 'record', events: next.events };
  return {
    do: 'record',
    events: endRunEvents(session, rules, { status: 'waiting', reason: RUN_END.check, text: next.question }),
  };
}
