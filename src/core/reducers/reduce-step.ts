import { getOwn } from '../../base/collections.ts';
import { truncate } from '../../base/strings.ts';
import type { EventOf } from '../../protocol/session/event.ts';
import { inlineText, isFromOutside } from '../../protocol/session/log-entry.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import { isFanOutStep } from '../plan/fan-out.ts';
import { replaceSteps, updateStep } from '../plan/plan-steps.ts';
import { isGroup } from '../plan/step-graph.ts';
import { moveStep } from '../plan/step-moves.ts';
import { isSpawnedStep } from '../session/internal-calls.ts';
import { FRESH_STEP_PROGRESS } from '../session/progress-state.ts';
import type { Notice } from '../session/run-state.ts';
import type { Session } from '../session/session-state.ts';
import { countAddedPart, restartChild, startFanOut } from './reduce-child.ts';
import {
  isGroupEvent,
  reduceGroup,
  type StepLogEvent,
  stepBlocked,
  stepClosed,
  stepReopened,
  stepRetried,
} from './reduce-step-end.ts';

export function reduceStep(session: Session, event: StepLogEvent): Session {
  const { plan } = session;
  if (!plan) return session;
  const isByPerson = event.type === 'step.reopened' && isFromOutside(event.by);
  if (isGroupEvent(event) && !isByPerson && isGroup(plan.steps, event.step)) return reduceGroup(session, plan, event);
  switch (event.type) {
    case 'step.added':
      return stepAdded(session, plan, event);
    case 'step.started':
      return {
        ...session,
        ...(!isSpawnedStep(plan, event.step) && beginStep(session)),
        ...beginFanOut(session, plan, event),
        children: restartChild(session.children, event.step),
        plan: updateStep(plan, event.step, (step) => startedStep(step, session, event.at), event.at),
      };
    case 'step.progressed':
      return {
        ...session,
        plan: updateStep(plan, event.step, (step) => ({ ...step, progress: event.progress }), event.at),
        // Progress is a signal: the count towards the question restarts.
        ...(session.run && {
          askedIfDone: null,
          graceIterations: plan.steps.find((step) => step.id === event.step)?.iterations ?? 0,
        }),
      };
    case 'step.claimed':
      return event.veto === undefined ? stepClaimed(session, event) : claimRefused(session, plan, event, event.veto);
    case 'step.asked':
      return {
        ...session,
        ...(event.in_doubt ? { askedInDoubt: event.iterations } : { askedIfDone: event.step }),
        turn: session.turn && { ...session.turn, isJudged: true },
      };
    case 'step.completed':
    case 'step.failed':
    case 'step.skipped':
      return stepClosed(session, plan, event);
    case 'step.blocked':
      return stepBlocked(session, plan, event);
    case 'step.reopened':
      return event.by === 'daemon' ? stepRetried(session, plan, event.step, event) : stepReopened(session, plan, event);
    default:
      return event satisfies never;
  }
}

/**
 * A step starts in this conversation: state kept for the previous step is dropped, and the planner's answer has been
 * used.
 */
function beginStep(session: Session): Partial<Session> {
  return {
    ...FRESH_STEP_PROGRESS,
    run: session.run && { ...session.run, plannerQuery: null },
    workRounds: { ...session.workRounds, iterations: session.turn && !session.turn.hasClosedStep ? 1 : 0 },
  };
}

function beginFanOut(session: Session, plan: Plan, event: EventOf<'step.started'>): Partial<Session> {
  const step = plan.steps.find((one) => one.id === event.step);
  return step && isFanOutStep(step) ? { fanOut: startFanOut(session, plan, step, event.seq) } : {};
}

/** An item follows its step and that step's existing items; any other step goes at the end. */
function insertStep(steps: readonly Step[], step: Step): Step[] {
  const last = steps.findLastIndex(
    ({ id, parent }) => step.parent !== undefined && (id === step.parent || parent === step.parent),
  );
  return last < 0 ? [...steps, step] : [...steps.slice(0, last + 1), step, ...steps.slice(last + 1)];
}

function stepAdded(session: Session, plan: Plan, event: EventOf<'step.added'>): Session {
  const declared = session.turn && event.by === 'model' ? [...session.turn.declaredSteps, event.step.description] : [];
  return {
    ...session,
    plan: replaceSteps(plan, insertStep(plan.steps, event.step), event.at),
    lastStepNumber: Math.max(session.lastStepNumber, Number(/^step_(\d{1,9})$/.exec(event.step.id)?.[1] ?? 0)),
    turn: session.turn && { ...session.turn, declaredSteps: declared },
    fanOut: countAddedPart(session.fanOut, event),
  };
}

/** A step started by an answer counts it as its first iteration; after a closed step, the next answer is the first. */
function startedStep(step: Step, session: Session, at: string): Step {
  const first = session.turn && !session.turn.hasClosedStep && step.call === undefined ? 1 : 0;
  return { ...moveStep(step, 'running', { at }), iterations: (step.iterations ?? 0) + first };
}

/** A claim on a step with checks stays open until the checks have run. */
function stepClaimed(session: Session, event: EventOf<'step.claimed'>): Session {
  const { step, tier, evidence, result = '', next_step, attachments = [] } = event;
  return {
    ...session,
    claim: { seq: event.seq, step, tier, evidence, result, nextStep: next_step, attachments, checks: [] },
  };
}

/** A claim that was refused: a failed tool or check is reported to the model, "not done" restarts the step's count. */
function claimRefused(session: Session, plan: Plan, event: EventOf<'step.claimed'>, veto: string): Session {
  const iterations = plan.steps.find((step) => step.id === event.step)?.iterations ?? 0;
  const isReportedBack = veto === 'tool_failed' || veto === 'check_failed' || veto === 'no_work';
  const notice: Notice = { seq: event.seq, about: 'refused', step: event.step, veto, evidence: event.evidence };
  return {
    ...session,
    claim: null,
    children: failRefusedChild(session, event),
    askedIfDone: null,
    graceIterations: isReportedBack ? session.graceIterations : iterations,
    notices: isReportedBack ? [...session.notices, notice] : session.notices,
    turn: session.turn && {
      ...session.turn,
      isJudged: true,
      refusedClaim: isReportedBack ? { step: event.step, veto, evidence: event.evidence } : null,
    },
  };
}

/** If the step's checks refuse a child's work, the child counts as failed: it is tried again, or the step fails. */
function failRefusedChild({ children }: Session, event: EventOf<'step.claimed'>): Session['children'] {
  const child = getOwn(children, event.step);
  if (event.tier !== 'child' || !child?.reply) return children;
  return { ...children, [event.step]: { ...child, reply: { ...child.reply, status: 'failed', text: event.evidence } } };
}

/** A check that starts or ends changes its claim, and nothing in the conversation. */
export function reduceCheck(
  session: Session,
  event: EventOf<'tool.started'> | EventOf<'tool.finished'> | EventOf<'tool.interrupted'>,
): Session {
  const { claim } = session;
  if (!claim) return session;
  const place = Number(/\d+$/.exec(event.call)?.[0]);
  const isVoid =
    event.type === 'tool.interrupted' || (event.type === 'tool.finished' && claim.checks[place]?.isOutdated === true);
  const checks = [...claim.checks];
  // A check that was cut short or changed meanwhile runs again.
  checks[place] = isVoid
    ? undefined
    : event.type === 'tool.finished'
      ? { state: 'ended', ok: event.ok, text: truncate(inlineText(event.output), 600) }
      : { state: 'started', ok: false, text: '' };
  return { ...session, claim: { ...claim, seq: isVoid ? event.seq : claim.seq, checks } };
}
