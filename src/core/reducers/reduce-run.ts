import { getOwn, mapGet } from '../../base/collections.ts';
import { truncate } from '../../base/strings.ts';
import type { EventOf } from '../../protocol/session/event.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import { type Limits, resolveLimits } from '../../protocol/settings/run-options.ts';
import { commonReach, type SessionReach } from '../../protocol/workspace/daemon-files.ts';
import { requestOfRun, textWithoutCommand } from '../messages/commands.ts';
import { grantedLimits } from '../messages/message-meaning.ts';
import {
  bumpRevision,
  currentStepIndex,
  highestStepNumber,
  replacedFailures,
  undoneSteps,
} from '../plan/plan-steps.ts';
import { reopenWithDependents } from '../plan/step-cascade.ts';
import { moveStep } from '../plan/step-moves.ts';
import { FRESH_PLAN_PROGRESS, type PlanProgress } from '../session/progress-state.ts';
import { NO_WORK_ROUNDS, type Run, type RunEnd } from '../session/run-state.ts';
import { limitsOfMessage } from '../session/session-messages.ts';
import {
  activePlan,
  endsBackgroundJobs,
  isPlanResumable,
  ownLimitsWhenResumed,
  planLeftPaused,
} from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';
import {
  addStandInMessage,
  childCallsAfterRun,
  endsForApproval,
  endsForChildCalls,
  keepRestingRun,
  resetDenials,
} from './reduce-approval.ts';
import { NO_REPEATED_CALL, withoutReopened } from './reduce-step-end.ts';
import { appendStepHistory } from './reduce-turn.ts';

/** A run starts: its message leaves the queue and goes into the next model call. */
export function reduceRunStarted(session: Session, event: EventOf<'run.started'>): Session {
  const run = {
    ...newRun(event, event.mode, event.paused_plan),
    modeReason: event.mode_reason,
    ownModel: mapGet(session.messages, event.message)?.options?.model,
    ownLimits: limitsOfMessage(mapGet(session.messages, event.message)),
    reach: reachOf(session, event.message),
    agent: event.agent,
    folder: event.folder,
  };
  const approvals = resetDenials(session);
  const doubt = event.paused_plan === undefined ? null : session.doubt;
  const over = { turn: null, runEnd: null, question: null, doubt };
  return {
    ...session,
    ...takeMessage(session, event.message),
    promptNonce: event.nonce ?? session.promptNonce,
    run,
    ...over,
    approvals,
  };
}

/** The daemon has chosen the mode of the current run, or a person has set the mode of later runs. */
export function reduceMode(session: Session, event: EventOf<'mode.chosen' | 'mode.set'>): Session {
  if (event.type === 'mode.set') return { ...session, mode: event.mode };
  return { ...session, run: session.run && { ...session.run, mode: event.mode, modeReason: event.mode_reason } };
}

/** A run resumes: same plan, or beside the same paused one; same history, a new budget window. */
export function reduceRunResumed(before: Session, event: EventOf<'run.resumed'>): Session {
  const { message: id, name, at } = event;
  // The request becomes the goal of the plan to come; the model receives it once, as the message it was.
  const asked = mapGet(before.messages, before.runEnd?.message ?? '')?.text;
  const session = name === undefined ? before : addStandInMessage(before, { id, name, at }, asked);
  const back = event.plan === undefined ? undefined : getOwn(session.shelvedPlans, event.plan);
  const plan = back ?? (event.paused_plan === undefined && isPlanResumable(session) ? session.plan : null);
  const { [event.plan ?? '']: _, ...otherPlans } = session.shelvedPlans;
  const { [event.plan ?? '']: work, ...otherProgress } = session.shelvedProgress;
  const progress = back ? { ...FRESH_PLAN_PROGRESS, lastStepNumber: highestStepNumber(back), ...work } : session;
  const run = {
    // A run that ended before it had a plan continues in its mode.
    ...newRun(event, plan?.mode ?? session.runEnd?.mode ?? 'linear', event.paused_plan),
    isResumed: true as const,
    ...(!plan && session.runEnd?.request !== undefined && { request: session.runEnd.request }),
    modeReason: session.runEnd?.modeReason,
    ownModel: mapGet(session.messages, event.message)?.options?.model ?? (back ? undefined : session.runEnd?.ownModel),
    ownLimits: {
      ...ownLimitsWhenResumed(session, mapGet(session.messages, event.message), event.plan),
      ...grantedByWords(session, event),
    },
    reach: commonReach(
      back ? work?.reach : session.runEnd?.reach,
      plan ? progress.reach : [],
      reachOf(session, event.message),
    ),
    agent: session.runEnd?.agent,
    folder: session.runEnd?.folder,
    exitStatus: session.runEnd?.exitStatus ?? null,
  };
  const resumed = plan && reopenPlan(plan, run.limits, event.at, progress);
  return {
    ...session,
    ...takeMessage(session, event.message),
    // The answer to a question is the result of its call, and the model's answer with that call continues where it was.
    ...((session.question || name !== undefined) && { undelivered: session.undelivered }),
    promptNonce: event.nonce ?? session.promptNonce,
    run,
    turn: session.question ? session.turn : null,
    stepHistory: session.question ? session.stepHistory : appendStepHistory(session),
    runEnd: null,
    doubt: null,
    approvals: resetDenials(session),
    plan: resumed ?? session.plan,
    shelvedPlans: back ? otherPlans : session.shelvedPlans,
    // "Continue" resets the stagnation count.
    workRounds: { ...session.workRounds, idleRounds: 0, iterations: 0 },
    ...(back && {
      ...progress,
      workRounds: NO_WORK_ROUNDS,
      shelvedProgress: otherProgress,
      stepHistory: [],
    }),
    ...(plan && { reach: run.reach, limitsByPerson: run.ownLimits }),
    ...(plan && resumed && withoutReopened(progress, plan.steps, resumed.steps)),
  };
}

export function reduceRunEnd(session: Session, event: EventOf<'run.ended'>): Session {
  const { run } = session;
  const own = run ?? session.runEnd;
  const rest: RunEnd = {
    message: event.message,
    status: event.status,
    reason: event.reason,
    text: event.text,
    seq: event.seq,
    at: event.at,
    wasBeside: run ? run.besidePlan !== undefined : planLeftPaused(session) !== undefined,
    plan: run ? (activePlan(session)?.id ?? null) : restingPlanId(session),
    spent: event.spent,
    ...requestLeft(session),
    mode: own?.mode,
    modeReason: own?.modeReason,
    ownModel: own?.ownModel,
    ownLimits: own?.ownLimits ?? {},
    reach: own?.reach ?? [],
    agent: own?.agent,
    folder: own?.folder,
    exitStatus: own?.exitStatus ?? null,
    ...(event.files && { files: event.files }),
  };
  const asks = endsForApproval(session, event) || endsForChildCalls(session, event);
  const status = event.status === 'paused' || event.status === 'waiting' ? event.status : null;
  const plan =
    session.plan &&
    status &&
    !rest.wasBeside &&
    (session.plan.status === 'running' || session.plan.status === 'waiting')
      ? bumpRevision({ ...session.plan, status, reason: planReason(event) }, event.at)
      : session.plan;
  // Only the question to a person outlives the run: the answer is the next message.
  return {
    ...session,
    run: null,
    runEnd: rest,
    plan,
    question: event.question ?? null,
    // Its checks run when the plan continues.
    claim: rest.wasBeside || event.status !== 'done' ? session.claim : null,
    children: asks ? session.children : holdChildren(session),
    jobsEndSeq: endsBackgroundJobs(session.name, event.status) ? event.seq : session.jobsEndSeq,
    approvals: asks ? keepRestingRun(session) : session.approvals,
    childCalls: childCallsAfterRun(session, event),
  };
}

/** Code points of a question shown in `plan.json`. */
const MAX_QUESTION_SHOWN = 500;

const planReason = ({ question, reason }: EventOf<'run.ended'>): string =>
  question ? truncate(question.text, MAX_QUESTION_SHOWN) : reason;

/** A child's reply is used when the run resumes; its question has been put to the person. */
function holdChildren({ children, undelivered, queue }: Session): Session['children'] {
  const undeliveredBefore = [...undelivered, ...queue];
  return Object.fromEntries(
    Object.entries(children).map(([step, child]) => [
      step,
      child.state === 'replied' ? { ...child, state: 'suspended' as const, undeliveredBefore } : child,
    ]),
  );
}

const reachOf = ({ messages }: Session, message: string): SessionReach =>
  commonReach(mapGet(messages, message)?.rights?.sessions);

function newRun(
  event: EventOf<'run.started'> | EventOf<'run.resumed'>,
  mode: Run['mode'],
  pausedPlan: string | undefined,
): Run {
  return {
    message: event.message,
    startedAt: event.at,
    elapsedMs: 0,
    mode,
    modeReason: undefined,
    model: event.model,
    limits: resolveLimits(event.limits),
    besidePlan: pausedPlan,
    spent: { iterations: 0, tokens: 0, cost: 0 },
    idleAnswers: 0,
    repeatedCall: NO_REPEATED_CALL,
    failure: null,
    shelvedPlan: null,
    agent: undefined,
    folder: undefined,
    plannerQuery: null,
    exitStatus: null,
  };
}

/** The request of a run that ended before it had a plan: its message's words go once it has been answered. */
function requestLeft(session: Session): Pick<RunEnd, 'request'> {
  if (!session.run) return session.runEnd?.request === undefined ? {} : { request: session.runEnd.request };
  return activePlan(session) ? {} : { request: requestOfRun(session) };
}

/** The limits that the words of the message granted, as high as its sender may set them. */
function grantedByWords({ messages }: Session, { message, limits }: EventOf<'run.resumed'>): Limits {
  const keys = Object.keys(grantedLimits(mapGet(messages, message))) as Array<keyof Limits>;
  return Object.fromEntries(keys.map((key) => [key, limits[key]]));
}

/** A message without text of its own ("/continue") is taken but not added to the conversation. */
function takeMessage(session: Session, id: string): Pick<Session, 'queue' | 'undelivered'> {
  const message = mapGet(session.messages, id);
  const speaks =
    message !== undefined && (textWithoutCommand(message).trim() !== '' || message.attachments !== undefined);
  return {
    queue: session.queue.filter((other) => other !== id),
    undelivered: speaks ? [...session.undelivered, id] : session.undelivered,
  };
}

/** The id of the plan that has already stopped, when only the way it ended changes. */
function restingPlanId(session: Session): string | null {
  const { plan, runEnd } = session;
  if (planLeftPaused(session) !== undefined) return null;
  return plan?.status === 'paused' || plan?.status === 'waiting' ? plan.id : (runEnd?.plan ?? null);
}

function reopenPlan(
  plan: Plan,
  { iterations, step_iterations }: Run['limits'],
  at: string,
  { editedByPerson, replacedSteps }: Pick<PlanProgress, 'editedByPerson' | 'replacedSteps'>,
): Plan {
  const { reason: _, ...rest } = plan;
  // The obstacle may be gone: "continue" means to try again.
  const over = rest.steps.every((step) => step.status !== 'pending' && step.status !== 'running');
  // A step that a person blocked stays blocked until they change that step.
  const isBlocked = ({ id, status }: Step) => status === 'blocked' && !editedByPerson.includes(`${id}:status`);
  const replaced = replacedFailures(plan, replacedSteps);
  const undone = undoneSteps(plan);
  const again = (step: Step) =>
    isBlocked(step) || (over && (undone.includes(step) || (step.status === 'failed' && !replaced.includes(step.id))));
  const tried = new Set(rest.steps.filter(again).map((step) => step.id));
  const steps = reopenWithDependents(
    rest.steps.map((step) => (tried.has(step.id) ? moveStep(step, 'pending') : step)),
    tried,
    editedByPerson,
  );
  const open = { ...rest, steps, current_step_index: currentStepIndex(steps) };
  return bumpRevision({ ...open, status: 'running', limits: { iterations, step_iterations } }, at);
}
