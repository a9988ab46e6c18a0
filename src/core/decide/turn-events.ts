import { mapGet } from '../../base/collections.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { decideDelegation } from '../children/delegate.ts';
import { nextClaimAction } from '../detect/step-claims.ts';
import { parseStepDeclarations } from '../detect/step-tags.ts';
import { requestOfRun } from '../messages/commands.ts';
import { isQuestion, mayRunShelve, shelvingQuestion } from '../messages/message-meaning.ts';
import { REPLY_WORDING } from '../messages/reply-wording.ts';
import { currentPolicy, MODE_POLICIES } from '../modes/mode-choice.ts';
import { shelvePlanEvent } from '../plan/plan-changes.ts';
import { runningStep } from '../plan/plan-steps.ts';
import { cascadeEvents, startStepEvents } from '../plan/step-cascade.ts';
import { sessionAfter } from '../reducers/reduce-event.ts';
import { checkFinished, endRunEvents, interruptCall } from '../runs/end-run.ts';
import { isPlanCall } from '../session/internal-calls.ts';
import { activePlan, newPlanId, sessionLanguage } from '../session/session-queries.ts';
import type { RunEndReason, Session } from '../session/session-state.ts';
import { judgeAnswer } from './judge-answer.ts';
import { planCallEvents } from './plan-tool-calls.ts';

/**
 * The plan events an answer leads to: a plan starts with the first call or declared step of a run, and declared steps
 * are added to it.
 */
export function planEventsOf(session: Session): EventBody[] {
  const { run, turn } = session;
  if (!run || !turn) return [];
  if (!activePlan(session)) {
    if (!beginsPlan(session) || !mayRunShelve(session)) return [];
    const limits = { iterations: run.limits.iterations, step_iterations: run.limits.step_iterations };
    const goal = requestOfRun(session);
    return [
      ...(run.besidePlan ? [shelvePlanEvent(run.besidePlan)] : []),
      { type: 'plan.started', id: newPlanId(session), goal, mode: run.mode, limits },
    ];
  }
  const added = MODE_POLICIES[run.mode].declaredSteps(session, turn);
  return added.length > 0 ? added : turn.hasClosedStep || turn.isBlocked ? [] : chooseStepEvents(session);
}

function beginsPlan(session: Session): boolean {
  const { turn } = session;
  if (!turn || activePlan(session) || !currentPolicy(session).startsWithWork) return false;
  return turn.calls.length > 0 || parseStepDeclarations(turn.text).length > 0;
}

/**
 * The end of a run whose answer would begin a plan in place of the paused one: its person is asked first. A question is
 * answered without a plan.
 */
export function askBeforeShelving(session: Session, rules: Rules): RunEndReason | null {
  const asks = beginsPlan(session) ? shelvingQuestion(session, rules) : null;
  if (asks === null) return null;
  const message = mapGet(session.messages, session.run?.message ?? '');
  // Last, since it reads all words of the message.
  return message && !isQuestion(message) ? asks : null;
}

/** An active plan has a current step as long as one is ready. */
export function chooseStepEvents(session: Session): EventBody[] {
  const plan = activePlan(session);
  if (!plan) return [];
  const cascade = cascadeEvents(plan, session.replacedSteps);
  if (cascade.length > 0) return cascade;
  if (runningStep(plan)) return [];
  const step = MODE_POLICIES[plan.mode].chooseStep(session);
  return step ? startStepEvents(plan, step) : [];
}

/**
 * What the last answer still leads to when its run is about to end, and the session after it. What it says about the
 * plan is done; its calls that have not ended are closed with `why` (a person's order if left out); an answer that ends
 * the run ends it. Nothing new begins.
 */
export function settleTurn(session: Session, rules: Rules, why?: string): { events: EventBody[]; after: Session } {
  const events: EventBody[] = [];
  let after = session;
  for (let next = settlingEvents(after, rules, why); next.length > 0; next = settlingEvents(after, rules, why)) {
    events.push(...next);
    after = sessionAfter(after, next);
  }
  return { events, after };
}

/** The first kind of them; none once the run has ended. */
function settlingEvents(session: Session, rules: Rules, why?: string): EventBody[] {
  if (!session.run) return [];
  const planned = planEventsOf(session);
  if (planned.length > 0) return planned;
  const plan = activePlan(session);
  const open = session.turn?.calls.find((call) => call.state === 'asked' || call.state === 'started');
  if (open && plan && isPlanCall(open)) return planCallEvents(session, plan, open);
  if (open) return interruptCall(session, open, why ?? REPLY_WORDING[sessionLanguage(session, rules)].byPerson);
  const claim = openClaim(session);
  const next = claim && nextClaimAction(session, claim);
  if (next) return next.need === 'record' ? next.events : [];
  const verdict = judgeAnswer(session);
  return verdict.length > 0 ? verdict : endingEvents(session, rules);
}

/** The end of the run that the last answer brings, and what the last answer of a planner leads to. */
function endingEvents(session: Session, rules: Rules): EventBody[] {
  const action = currentPolicy(session).nextAction(session, rules);
  const isAnswered = session.run?.plannerQuery !== null;
  if (action && 'record' in action) return isAnswered ? action.record : [];
  if (action && 'endRun' in action) return isAnswered ? endRunEvents(session, rules, action.endRun) : [];
  const finished = action || decideDelegation(session, rules) ? null : checkFinished(session, rules);
  return finished ? endRunEvents(session, rules, finished) : [];
}

/** The claim whose checks the current run runs; that of a paused plan waits for its own run. */
export const openClaim = (session: Session): Session['claim'] => activePlan(session) && session.claim;
