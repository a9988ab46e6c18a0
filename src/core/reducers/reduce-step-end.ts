import { getOwn, mapGet } from '../../base/collections.ts';
import { truncate } from '../../base/strings.ts';
import type { EventOf } from '../../protocol/session/event.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import { parseCommand } from '../messages/commands.ts';
import { omitFields, replaceSteps, runningStep, updateStep } from '../plan/plan-steps.ts';
import { reopenWithDependents } from '../plan/step-cascade.ts';
import { groupsAround, isGroup } from '../plan/step-graph.ts';
import { moveStep } from '../plan/step-moves.ts';
import { causeInReason } from '../plan/step-readiness.ts';
import { isSpawnedStep } from '../session/internal-calls.ts';
import { FRESH_STEP_PROGRESS } from '../session/progress-state.ts';
import { endRound, type Run, type Turn, type WorkRounds } from '../session/run-state.ts';
import type { Session } from '../session/session-state.ts';
import { restartChild } from './reduce-child.ts';

export type GroupEvent = EventOf<'step.started' | 'step.completed' | 'step.failed' | 'step.skipped' | 'step.reopened'>;

export const isGroupEvent = (event: { type: string }): event is GroupEvent => GROUP_EVENT_TYPES.has(event.type);
const GROUP_EVENT_TYPES = new Set(['step.started', 'step.completed', 'step.failed', 'step.skipped', 'step.reopened']);

/** Before the first call of a step. */
export const NO_REPEATED_CALL: Run['repeatedCall'] = { counts: {}, count: 0, call: '' };

/** A group starts and ends with its steps, and what was skipped because of it is open again when it is. */
export function reduceGroup(session: Session, plan: Plan, event: GroupEvent): Session {
  const after = updateStep(plan, event.step, (group) => applyToGroup(group, event), event.at);
  if (event.type !== 'step.reopened') return { ...session, plan: after };
  const steps = reopenWithDependents(after.steps, new Set([event.step]), session.editedByPerson);
  return { ...session, plan: { ...after, steps }, ...withoutReopened(session, plan.steps, steps) };
}

type EndedSteps = Pick<Session, 'closedSteps' | 'replacedSteps' | 'revisedFor' | 'reviewedSteps' | 'editedByPerson'>;

/** What is remembered of how steps ended, without the steps that are open again: only how they end next counts. */
export function withoutReopened(
  ended: EndedSteps,
  before: readonly Step[],
  after: readonly Step[],
): Partial<EndedSteps> {
  const wasOpen = new Set(before.flatMap((step) => (isOpen(step) ? [step.id] : [])));
  const again = new Set(after.flatMap((step) => (isOpen(step) && !wasOpen.has(step.id) ? [step.id] : [])));
  if (again.size === 0) return {};
  const others = (ids: readonly string[]) => ids.filter((id) => !again.has(id));
  return {
    closedSteps: others(ended.closedSteps),
    replacedSteps: others(ended.replacedSteps),
    revisedFor: others(ended.revisedFor),
    reviewedSteps: others(ended.reviewedSteps),
    editedByPerson: clearPersonStatus(ended, again),
  };
}

const isOpen = ({ status }: Step): boolean => status === 'pending' || status === 'running';

/** The current step does not end with its group. */
export const applyToGroup = (group: Step, event: GroupEvent): Step =>
  event.type === 'step.started' || event.type === 'step.reopened'
    ? moveStep(group, 'running', { at: event.at })
    : endedStep(group, event);

/** A step as one of these events ends it. */
export function endedStep(step: Step, event: EventOf<'step.completed' | 'step.failed' | 'step.skipped'>): Step {
  const { at } = event;
  switch (event.type) {
    case 'step.completed': {
      const { by, evidence } = event;
      const attachments = event.attachments?.length ? event.attachments : undefined;
      const result = by === 'parts' && event.result === '' ? undefined : event.result;
      return moveStep(step, 'completed', { at, result, completed_by: by, evidence, proof: event.proof, attachments });
    }
    case 'step.failed':
      return moveStep(step, 'failed', { at, error: event.error });
    case 'step.skipped':
      return moveStep(step, 'skipped', {
        at,
        error: event.reason,
        because: event.because ?? (event.by === 'daemon' ? causeInReason(event.reason) : undefined),
        completed_by: event.by === 'model' ? 'marker' : undefined,
      });
    default:
      return event satisfies never;
  }
}

export type StepLogEvent = EventOf<
  | 'step.added'
  | 'step.started'
  | 'step.progressed'
  | 'step.claimed'
  | 'step.asked'
  | 'step.completed'
  | 'step.failed'
  | 'step.blocked'
  | 'step.skipped'
  | 'step.reopened'
>;

/** One answer closes one step. If that is not the current step, the current step continues as it was. */
export function stepClosed(
  session: Session,
  plan: Plan,
  event: EventOf<'step.completed'> | EventOf<'step.failed'> | EventOf<'step.skipped'>,
): Session {
  const current = runningStep(plan);
  const spawned = isSpawnedStep(plan, event.step);
  const own = !spawned && (current === undefined || current.id === event.step);
  return {
    ...session,
    ...(own && FRESH_STEP_PROGRESS),
    workRounds: roundsAfterClose(session.workRounds, current?.id === event.step, event.type === 'step.completed'),
    announcedStep: event.type === 'step.completed' ? (event.next_step ?? null) : null,
    claim: null,
    plan: updateStep(plan, event.step, (step) => endedStep(step, event), event.at),
    // Steps skipped because of another step are reopened with it.
    closedSteps:
      event.type === 'step.skipped' && event.by === 'daemon'
        ? session.closedSteps
        : [...session.closedSteps.filter((id) => id !== event.step), event.step],
    run: session.run && { ...session.run, idleAnswers: 0, repeatedCall: NO_REPEATED_CALL },
    turn: session.turn && !spawned ? { ...session.turn, hasClosedStep: true } : session.turn,
  };
}

function roundsAfterClose(rounds: WorkRounds, own: boolean, completed: boolean): WorkRounds {
  if (own) return endRound(rounds, completed);
  return completed ? { ...rounds, idleRounds: 0 } : rounds;
}

/**
 * A person has to supply what is missing; a step that the daemon gives up, or holds back because of another step, asks
 * nobody.
 */
export function stepBlocked(session: Session, plan: Plan, event: EventOf<'step.blocked'>): Session {
  const asks = event.by !== 'daemon';
  const because = event.because ?? (asks ? undefined : causeInReason(event.error));
  return {
    ...session,
    claim: null,
    editedByPerson: clearPersonStatus(session, new Set([event.step])),
    plan: updateStep(
      plan,
      event.step,
      (step) => moveStep(step, 'blocked', { at: event.at, error: event.error, because }),
      event.at,
    ),
    turn: session.turn && asks ? { ...session.turn, isJudged: true, isBlocked: true } : session.turn,
  };
}

/** A failed step waits for its next attempt, and the reason is reported to the model. */
export function stepRetried(session: Session, plan: Plan, id: string, { seq, at }: StepLogEvent): Session {
  const failed = plan.steps.find((step) => step.id === id);
  if (!failed) return session;
  const attempt = (failed.attempts ?? 1) + 1;
  return {
    ...session,
    plan: updateStep(plan, id, (step) => moveStep(step, 'pending', { attempts: attempt }), at),
    closedSteps: session.closedSteps.filter((one) => one !== id),
    notices: [...session.notices, { seq, about: 'again', step: id, attempt, error: failed.error ?? '' }],
  };
}

/**
 * A person has opened a step again: it has its counters as they were, and its groups are open with it. A step that was
 * running in its place goes back to pending.
 */
export function stepReopened(session: Session, plan: Plan, event: EventOf<'step.reopened'>): Session {
  const here = isGroup(plan.steps, event.step) ? undefined : runningStep(plan);
  // A step a child session works on continues there.
  const displaced = here && (getOwn(session.children, here.id)?.state ?? 'over') === 'over' ? here.id : undefined;
  const opened = plan.steps.map((step): Step => {
    if (step.id === event.step) return moveStep(step, 'running');
    return step.id === displaced ? moveStep(step.iterations ? step : notStarted(step), 'pending') : step;
  });
  const groups = groupsAround(plan.steps, event.step).map(({ id }) => id);
  const editedByPerson = clearPersonStatus(session, new Set([event.step, ...groups]));
  const steps = reopenWithDependents(opened, new Set([event.step]), editedByPerson);
  const over = plan.status === 'completed' || plan.status === 'failed' || plan.status === 'cancelled';
  const next = over ? { ...plan, status: 'paused' as const, reason: 'reopened' } : plan;
  return {
    ...session,
    ...FRESH_STEP_PROGRESS,
    // The model claimed it was done once before: the question comes after as many iterations again.
    graceIterations: steps.find((step) => step.id === event.step)?.iterations ?? 0,
    claim: null,
    editedByPerson,
    ...withoutReopened({ ...session, editedByPerson }, plan.steps, steps),
    children: restartChild(session.children, event.step),
    plan: replaceSteps(next, steps, event.at),
    // "Continue" now means this plan, whatever was asked beside it.
    runEnd: session.runEnd && { ...session.runEnd, wasBeside: false },
    notices: [
      ...session.notices,
      { seq: event.seq, about: 'reopened', step: event.step, said: reopeningWords(session, event) },
    ],
    turn: judgedIfAbout(session.turn, [event.step]),
    // A summary, or a change of the plan, was written without it.
    run: session.run && { ...session.run, plannerQuery: null },
  };
}

/** An answer about a step that a person has opened again since says nothing about it any more. */
export const judgedIfAbout = (turn: Turn | null, opened: readonly string[]): Turn | null =>
  turn && (turn.step === null ? opened.length > 0 : opened.includes(turn.step)) ? { ...turn, isJudged: true } : turn;

/** Forgets the statuses a person set on the steps. */
const clearPersonStatus = (
  { editedByPerson }: Pick<Session, 'editedByPerson'>,
  steps: ReadonlySet<string>,
): string[] => {
  const statuses = new Set([...steps].map((step) => `${step}:status`));
  return editedByPerson.filter((one) => !statuses.has(one));
};

/** The person's words: their message is answered, and its text dropped, before the model sees it. */
function reopeningWords({ messages }: Session, { message }: EventOf<'step.reopened'>): string {
  const known = message === undefined ? undefined : mapGet(messages, message);
  if (!known) return '';
  const command = parseCommand(known);
  const comment = command === null ? known.text : command.name === 'undo' ? command.rest : '';
  return truncate(comment.trim(), 500);
}

const notStarted = (step: Step): Step => omitFields(step, 'iterations', 'started_at');
