import { getOwn } from '../../base/collections.ts';
import { truncate } from '../../base/strings.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import { type Reply, RUN_END } from '../../protocol/session/reply.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { textOfJsonAnswer } from '../detect/answer-reading.ts';
import { claimStepEvent } from '../detect/step-claims.ts';
import { readStatusTags } from '../detect/step-tags.ts';
import { currentPolicy, MODE_POLICIES } from '../modes/mode-choice.ts';
import { isBeingWorkedOn, runningStep } from '../plan/plan-steps.ts';
import { startStepEvents } from '../plan/step-cascade.ts';
import { rollbackStepAround, stepGraph } from '../plan/step-graph.ts';
import { readySteps } from '../plan/step-readiness.ts';
import type { Decision, DueEvents } from '../runs/decision.ts';
import { checkLimits, endRunEvents } from '../runs/end-run.ts';
import { type ChildSession, haltSeverity, isChildBusy, whyNoChildren } from '../session/child-session.ts';
import { activePlan } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';
import { askAboutChildCalls } from './child-calls.ts';
import {
  type ChildSend,
  continueWithAnswer,
  countConcurrentSpawns,
  freeIterations,
  hasFreeBudget,
  messageToChild,
  sendTask,
  shareBudget,
} from './child-messages.ts';

/**
 * What delegated steps need next: a child's reply processed, a child sent its task, its answer or "continue", more
 * steps started, or waiting. Null if no step is delegated or about to be, unless the session's own has taken too long.
 */
export function decideDelegation(session: Session, rules: Rules): Decision | null {
  const plan = activePlan(session);
  if (!plan || !session.run) return null;
  const policy = MODE_POLICIES[plan.mode];
  const stray = haltStrayChild(session, plan);
  if (stray) return stray;
  const given = plan.steps.filter(
    (step) => isBeingWorkedOn(plan, step) && (step.call !== undefined || policy.isDelegated(session, step, rules)),
  );
  const more = () => beginChildSteps(session, rules, plan, given);
  // A power cut may have left the start of a super-step half logged: it is completed as long as no child works on it.
  const isFresh = given.every(({ id }) => (getOwn(session.children, id)?.state ?? 'over') === 'over');
  const together = isFresh && !policy.isRolling ? more() : [];
  if (together.length > 0) return { do: 'record', events: together };
  const { now, later } = nextForSteps(session, rules, given);
  if (now) return now;
  const joining = policy.isRolling ? more() : [];
  if (joining.length > 0) return { do: 'record', events: joining };
  if (later || given.length === 0) return later ?? lateStep(session, plan);
  // Whether or not others are working: once the shared budget is spent, the run ends.
  const spent = checkLimits(session, rules);
  if (spent) return { do: 'record', events: endRunEvents(session, rules, spent) };
  return askAboutChildCalls(session, rules) ?? { do: 'idle', ...stepTimeout(session, given) };
}

/**
 * What to do for one of these steps now; else the message that is due next. People's words are passed on before the run
 * ends for another child: they answer an earlier question.
 */
function nextForSteps(session: Session, rules: Rules, given: readonly Step[]): { now?: Decision; later?: ChildSend } {
  const among = countBudgetSharers(session, given);
  const pauses: ChildSend[] = [];
  const suspendedSteps = given.filter(({ id }) => getOwn(session.children, id)?.state === 'suspended');
  for (const step of [...suspendedSteps, ...given.filter((one) => !suspendedSteps.includes(one))]) {
    const next = nextForStep(session, rules, step, among);
    if (next?.do === 'send' && next.notBefore !== null) pauses.push(next);
    else if (next) return { now: next };
  }
  const [later] = pauses.sort((a, b) => ((a.notBefore ?? '') < (b.notBefore ?? '') ? -1 : 1));
  return later ? { later } : {};
}

/** Steps that share the free budget: those no child works on yet, and those that calls will ask for. */
function countBudgetSharers(session: Session, given: readonly Step[]): number {
  const idle = given.filter((step) => !isChildBusy(getOwn(session.children, step.id)));
  const spawning = idle.some((step) => step.call !== undefined) ? countConcurrentSpawns(session) - given.length : 0;
  return idle.length + Math.max(0, spawning);
}

function nextForStep(session: Session, rules: Rules, step: Step, among: number): Decision | null {
  const child = getOwn(session.children, step.id);
  if (!child || child.state === 'over' || (child.isOutdated && !isChildBusy(child)))
    return hasFreeBudget(session, rules) ? sendTask(session, rules, step, { child, among }) : null;
  return isChildBusy(child) ? null : decideOnReply(session, rules, step, { child, among });
}

const MINUTE_MS = 60_000;

/** When the first of these steps times out, and the events logged then: only that step fails. */
function stepTimeout({ run, children }: Session, given: readonly Step[]): { due?: DueEvents } {
  const minutes = run?.limits.step_minutes ?? null;
  if (minutes === null) return {};
  const [first, ...others] = given
    .flatMap(({ id }) => {
      const child = getOwn(children, id);
      return child?.state === 'working' && child.workingSince !== undefined
        ? [{ id, since: Date.parse(child.workingSince) }]
        : [];
    })
    .sort((a, b) => a.since - b.since);
  if (!first) return {};
  const endOf = ({ since }: { since: number }) => new Date(since + minutes * MINUTE_MS).toISOString();
  const [at, later] = [endOf(first), others.map(endOf)];
  return { due: { at, later, events: [tookTooLong(first.id, minutes)] } };
}

/** The end of a step of the session itself whose calls have taken too long. */
function lateStep({ run, stepMs = 0 }: Session, plan: Plan): Decision | null {
  const step = runningStep(plan);
  const minutes = run?.limits.step_minutes ?? null;
  const isLate = step && minutes !== null && stepMs > minutes * MINUTE_MS;
  return isLate ? { do: 'record', events: [tookTooLong(step.id, minutes)] } : null;
}

const tookTooLong = (step: string, minutes: number): EventBody => ({
  type: 'step.failed',
  step,
  error: `timed out: it took longer than limits.step_minutes (${minutes}), which is ${Math.round(minutes * 60)} s`,
  by: 'daemon',
});

type ChildContext = { child: ChildSession; among: number };

/** Processes a child's reply: its step is done or failed, is tried again, continues, or asks the person. */
function decideOnReply(session: Session, rules: Rules, step: Step, { child, among }: ChildContext): Decision | null {
  const { reply } = child;
  if (!reply) return null;
  // A child that lost its state, with its folder or its event log, is given its task again.
  if (child.wasToldMore && reply.reason === RUN_END.stateLost)
    return hasFreeBudget(session, rules) ? sendTask(session, rules, step, { child, among }) : null;
  switch (reply.status) {
    case 'done': {
      const given = endInReply(step, reply);
      if (given?.type === 'step.failed') return retryChild(session, rules, step, { child, among, end: given });
      return { do: 'record', events: [given ?? completedByChild(step, child)] };
    }
    case 'waiting':
      return child.state === 'suspended'
        ? continueChild(session, rules, { child, among })
        : endRunForChildren(session, rules, 'waiting');
    case 'paused':
      return child.state === 'suspended' || reply.reason === RUN_END.limit
        ? continueChild(session, rules, { child, among })
        : endRunForChildren(session, rules, 'paused');
    default:
      // "Continue" means that what ended in the meantime is to be tried again.
      return child.state === 'suspended'
        ? continueChild(session, rules, { child, among })
        : retryChild(session, rules, step, { child, among });
  }
}

/** A child resumes where it stopped, with people's messages to it; without a budget it waits for one. */
function continueChild(session: Session, rules: Rules, { child, among }: ChildContext): Decision | null {
  return hasFreeBudget(session, rules) ? continueWithAnswer(session, child, shareBudget(session, rules, among)) : null;
}

type RetryContext = ChildContext & { end?: EventBody };

/**
 * The next attempt of a step whose child failed; its end if it was cancelled or has no attempts left. Without a budget
 * it waits for one.
 */
function retryChild(session: Session, rules: Rules, step: Step, { child, among, end }: RetryContext): Decision | null {
  const { maxAttempts, retryDelaySeconds } = currentPolicy(session);
  const tries = child.attempt - child.earlierAttempts;
  if (child.reply?.status === 'cancelled' || tries >= maxAttempts) {
    const error = truncate(`${child.name}: ${child.reply?.text ?? ''}`, 400);
    return { do: 'record', events: [end ?? { type: 'step.failed', step: step.id, by: 'daemon', error }] };
  }
  if (!hasFreeBudget(session, rules)) return null;
  const notBefore =
    retryDelaySeconds === undefined
      ? null
      : new Date(Date.parse(child.repliedAt) + tries * retryDelaySeconds * 1000).toISOString();
  return sendTask(session, rules, step, { child, among, notBefore });
}

/**
 * A child whose run had no steps of its own may still report that this one cannot be done, is left out, or what is
 * missing.
 */
function endInReply(step: Step, { text, plan }: Reply): EventBody | undefined {
  const tags = readStatusTags(textOfJsonAnswer(text));
  const tag = tags.find((one) => one.kind === 'failed' || one.kind === 'blocked');
  if (tag?.kind === 'failed' || tag?.kind === 'blocked') {
    const type = tag.kind === 'failed' ? 'step.failed' : 'step.blocked';
    return { type, step: step.id, error: truncate(tag.reason, 400), by: 'model' };
  }
  // Where it completed steps of its own, it has left out no more than one of those.
  const skip = (plan?.completed ?? 0) === 0 ? tags.find((one) => one.kind === 'skipped') : undefined;
  if (skip?.kind !== 'skipped') return undefined;
  return { type: 'step.skipped', step: step.id, reason: truncate(skip.reason, 400), by: 'model' };
}

function completedByChild(step: Step, { name, reply }: ChildSession): EventBody {
  return claimStepEvent(step, {
    tier: 'child',
    evidence: `${name} answered`,
    result: truncate(reply?.text.trim() ?? '', 2000),
    attachments: [...(reply?.attachments ?? [])],
    ...(reply?.proof && { proof: reply.proof }),
  });
}

/** Reports every child that waits (or is paused) in one reply; the next message goes to each of them. */
function endRunForChildren(session: Session, rules: Rules, status: 'waiting' | 'paused'): Decision {
  const others = Object.values(session.children).filter((it) => it.state === 'replied' && it.reply?.status === status);
  const text = others.map(({ name, reply }) => `${name}: ${reply?.text ?? ''}`).join('\n\n');
  const why = { status, reason: status === 'waiting' ? RUN_END.question : RUN_END.child, text };
  return { do: 'record', events: endRunEvents(session, rules, why) };
}

/** A child whose step is no longer its to work on, or was changed meanwhile, is told to end. */
function haltStrayChild(session: Session, plan: Plan): Decision | null {
  const stray = Object.values(session.children).find(
    (child) =>
      child.state === 'working' &&
      (child.isOutdated || !plan.steps.some((step) => step.id === child.step && step.status === 'running')),
  );
  return stray ? messageToChild(session, stray, { command: 'cancel' }) : null;
}

/**
 * A run that has ended does not leave children working: they receive the order to pause, stop or end as it did. A
 * child that was sent something milder is sent the new order. While a run waits, only those without a step end.
 */
export function haltChildren(session: Session): Decision | null {
  const { runEnd: at, plan } = session;
  if (session.run || !at || !plan) return null;
  if (at.status === 'waiting') return haltStrayChild(session, plan);
  const command = at.status !== 'paused' ? 'cancel' : at.reason === RUN_END.stopped ? 'stop' : 'pause';
  const child = Object.values(session.children).find(
    (one) => isChildBusy(one) && haltSeverity(one.haltCommand) < haltSeverity(command),
  );
  return child ? messageToChild(session, child, { command }) : null;
}

/**
 * Steps that child sessions start now, as many as may run at once. `given` are already delegated: in a rolling mode the
 * others join as they end; in any other mode they have started together, and no child works on them yet.
 */
function beginChildSteps(session: Session, rules: Rules, plan: Plan, given: readonly Step[]): EventBody[] {
  const { chooseStep, isDelegated, runsInParallel, isRolling } = MODE_POLICIES[plan.mode];
  const first = chooseStep(session);
  const atWork = plan.steps.filter((step) => isBeingWorkedOn(plan, step));
  const joins = runsInParallel && [...given, ...(first ? [first] : [])].every((step) => !isRollbackStep(plan, step));
  if (!first || atWork.length > given.length || (given.length > 0 && !joins)) return [];
  if (!isDelegated(session, first, rules)) return [];
  // The budget is spent: nothing starts that would be cut short at once.
  if (checkLimits(session, rules)) return [];
  const why = whyNoChildren(session.name);
  if (why !== undefined)
    return [
      { type: 'step.started', step: first.id },
      { type: 'step.failed', step: first.id, by: 'daemon', error: why },
    ];
  const events = stepsToStart(session, rules, plan, { first, given, isRolling }).flatMap((step) =>
    startStepEvents(plan, step),
  );
  // Two steps of one group start it only once.
  return events.filter((event, n) => events.findIndex((one) => isSameStart(one, event)) === n);
}

type StartContext = { first: Step; given: readonly Step[]; isRolling: boolean | undefined };

function stepsToStart(session: Session, rules: Rules, plan: Plan, { first, given, isRolling }: StartContext): Step[] {
  const { isDelegated, runsInParallel } = MODE_POLICIES[plan.mode];
  if (!runsInParallel) return [first];
  const width = (session.run?.limits.steps ?? 1) - given.length;
  const room = isRolling ? Math.min(width, freeIterations(session, rules)) : width;
  return readySteps(plan.steps)
    .filter((step) => isDelegated(session, step, rules))
    .slice(0, Math.max(0, room));
}

const isRollbackStep = (plan: Plan, step: Step): boolean =>
  rollbackStepAround(step, stepGraph(plan.steps)) !== undefined;

const isSameStart = (a: EventBody, b: EventBody): boolean =>
  a.type === 'step.started' && b.type === 'step.started' && a.step === b.step;
