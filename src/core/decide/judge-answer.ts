import { getOwn } from '../../base/collections.ts';
import { truncate } from '../../base/strings.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import { ASK_USER_TOOL, PLAN_TOOL } from '../../protocol/tool-calls/own-tools.ts';
import { textOfJsonAnswer } from '../detect/answer-reading.ts';
import { isDoneMarker } from '../detect/done-markers.ts';
import { claimStepEvent, filesWrittenInStep, stepResultOf } from '../detect/step-claims.ts';
import { detectStepCompletion, type StepVerdict } from '../detect/step-completion.ts';
import { type CompletionVeto, findVeto, readStatusTags, type StatusTag } from '../detect/step-tags.ts';
import { MODE_POLICIES } from '../modes/mode-choice.ts';
import { findStep, runningStep } from '../plan/plan-steps.ts';
import { hasLastToolFailed } from '../session/internal-calls.ts';
import type { Turn } from '../session/run-state.ts';
import { activePlan } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';
import { findTags, isAssertedTag, linesWithTags } from '../text/bracket-tags.ts';

/**
 * What the current answer means for the plan, once its calls have ended: a step is closed, claimed, refused, blocked or
 * asked about, or nothing happens. One answer closes at most one step and is judged once.
 */
export function judgeAnswer(session: Session): EventBody[] {
  const plan = activePlan(session);
  const { turn } = session;
  const step = plan && judgedStep(plan, turn);
  if (!plan || !step || !turn || turn.hasClosedStep || turn.isJudged || session.claim) return [];
  if (turn.unfinished !== undefined) return [];
  const text = textOfJsonAnswer(turn.text);
  const tags = readStatusTags(text);
  const open = findVeto(linesWithTags(text), false)?.veto === 'not_done';
  // A person may have closed the step the model was asked about: the answer then refers to that step, unless it names
  // another.
  const own = turn.step === null || turn.step === step.id;
  const progress = own ? progressEvents(step, tags) : [];
  if (progress.length > 0) return progress;
  const tagged = open ? [] : endEventsByTag(session, plan, turn, tags, own ? step : undefined);
  return tagged.length > 0 || !own ? tagged : endEventsByTiers(session, plan, step, turn);
}

/** The current step; or the one the model was asked about, if a person has opened another in its place since. */
function judgedStep(plan: Plan, turn: Turn | null): Step | undefined {
  const running = runningStep(plan);
  const asked = plan.steps.find(({ id }) => id === turn?.step);
  return running && asked?.status === 'pending' ? asked : running;
}

function progressEvents(step: Step, tags: readonly StatusTag[]): EventBody[] {
  const tag = tags.findLast((one) => one.kind === 'progress');
  if (tag?.kind !== 'progress') return [];
  const { current, total } = tag;
  return step.progress?.current === current && step.progress.total === total
    ? []
    : [{ type: 'step.progressed', step: step.id, progress: { current, total } }];
}

/** Ends the model states explicitly: failed, skipped or blocked; or done, for a step it names. */
function endEventsByTag(
  session: Session,
  plan: Plan,
  turn: Turn,
  tags: readonly StatusTag[],
  step: Step | undefined,
): EventBody[] {
  for (const tag of step ? tags : []) {
    const id = step?.id ?? '';
    if (tag.kind === 'failed')
      return [{ type: 'step.failed', step: id, error: truncate(tag.reason, 400), by: 'model' }];
    if (tag.kind === 'skipped')
      return [{ type: 'step.skipped', step: id, reason: truncate(tag.reason, 400), by: 'model' }];
    // A model that is still calling tools is not stuck yet.
    if (tag.kind === 'blocked' && turn.calls.length === 0)
      return [{ type: 'step.blocked', step: id, error: truncate(tag.reason, 400), by: 'model' }];
  }
  const named = tags.flatMap((tag) => (tag.kind === 'done' ? (findStep(plan, tag.step) ?? []) : []));
  const open = named.find((one) => one.status === 'pending' || one.status === 'running');
  if (!open) return [];
  const evidence = truncate(turn.text, 200);
  if (hasLastToolFailed(turn))
    return [{ type: 'step.claimed', step: open.id, tier: 'marker', evidence, veto: 'tool_failed' }];
  const unproven = open === step ? unprovenEvents(session, plan, open, turn, evidence) : [];
  if (unproven.length > 0) return unproven;
  return [
    claimStepEvent(open, {
      tier: 'marker',
      evidence,
      result: stepResultOf(turn, open),
      attachments: open === step ? filesWrittenInStep(session) : [],
    }),
  ];
}

function endEventsByTiers(session: Session, plan: Plan, step: Step, turn: Turn): EventBody[] {
  const waited = Math.max(0, (step.iterations ?? 0) - 1 - session.graceIterations);
  const verdict = stepVerdictOn(session, plan, step, turn, waited);
  if (verdict.veto !== undefined) return refusedClaimEvents(session, step, turn, verdict);
  if (verdict.tier === 'marker' && isEchoOfTool(session, plan, step, turn)) return [];
  if (verdict.tier !== 'marker' && step.status !== 'running') return [];
  // The question adds a line to the next call, so it is asked at the step limit even if there is progress, and sooner
  // if there is none.
  const limit =
    (session.run?.repeatedCall.count ?? 0) >= 2
      ? Math.ceil(plan.limits.step_iterations / 2)
      : plan.limits.step_iterations;
  const late = verdict.tier === 'timeout' || waited >= limit;
  if (!verdict.done && !late) return verdict.isInDoubt ? doubtEvents(session, step, turn) : [];
  if (verdict.tier === 'transition' && isUnreported(session, plan, turn)) return [];
  const assumed = verdict.tier === 'timeout' || !verdict.done;
  if (assumed && session.askedIfDone !== step.id)
    return [{ type: 'step.asked', step: step.id, iterations: step.iterations ?? 0 }];
  const writes = turn.calls.find((call) => call.ok && (call.name === 'write_file' || call.name === 'edit_file'));
  if (assumed && writes)
    return [
      {
        type: 'step.claimed',
        step: step.id,
        tier: 'timeout',
        evidence: `still writing ${writes.mainArgument}`,
        veto: 'moving',
      },
    ];
  const unproven = unprovenEvents(session, plan, step, turn, verdict.evidence ?? turn.text);
  if (unproven.length > 0) return unproven;
  const to = verdict.advanceTo === undefined ? undefined : plan.steps[verdict.advanceTo];
  return [
    claimStepEvent(step, {
      tier: assumed ? 'timeout' : (verdict.tier ?? 'timeout'),
      evidence: truncate(verdict.evidence ?? '', 200),
      result: stepResultOf(turn, step),
      markers: countDoneMarkers(turn.text),
      attachments: filesWrittenInStep(session),
      ...(to && to.id !== step.id && to.status === 'pending' && { nextStep: to.id }),
    }),
  ];
}

/** Iterations of a step between two questions whether an answer has finished it. */
export const DOUBT_PAUSE = 4;

/**
 * The model is asked in its next request whether the step is done, at most once in a few answers. An answer without a
 * tool call is followed by a reminder that asks the same.
 */
function doubtEvents({ askedInDoubt, askedIfDone }: Session, step: Step, turn: Turn): EventBody[] {
  const iterations = step.iterations ?? 0;
  const wasAsked = askedIfDone === step.id || (askedInDoubt !== null && iterations - askedInDoubt < DOUBT_PAUSE);
  return wasAsked || turn.calls.length === 0 ? [] : [{ type: 'step.asked', step: step.id, iterations, in_doubt: true }];
}

function stepVerdictOn(session: Session, plan: Plan, step: Step, turn: Turn, waited: number): StepVerdict {
  return detectStepCompletion(turn.text, {
    iterationInStep: waited,
    stepIterations: plan.limits.step_iterations,
    lastToolFailed: hasLastToolFailed(turn),
    stepDescription: step.description,
    steps: plan.steps.map((one) => one.description),
    stepIndex: plan.steps.indexOf(step),
    tools: turn.calls.map((call) => call.name),
    args: turn.calls.map((call) => call.mainArgument),
    toolsInStep: session.stepHistory.map((trace) => trace.tools),
    argsInStep: session.stepHistory.map((trace) => trace.args),
    textsInStep: session.stepHistory.map((trace) => trace.text),
    final: turn.calls.length === 0,
    userTurn: turn.followsPerson,
    markersInRun: plan.steps.some((one) => one.completed_by === 'marker' || one.completed_by === 'tool'),
  });
}

/**
 * Whether the text only repeats what the tool has just closed: it closes nothing more before any work on the current
 * step.
 */
function isEchoOfTool(session: Session, plan: Plan, step: Step, turn: Turn): boolean {
  const last = plan.steps.find((one) => one.id === session.closedSteps.at(-1));
  return last?.completed_by === 'tool' && turn.calls.length === 0 && (step.iterations ?? 0) <= 1;
}

/**
 * A claim next to a failed tool call is logged and reported to the model; "not done" after a question restarts the
 * count.
 */
function refusedClaimEvents(session: Session, step: Step, turn: Turn, verdict: StepVerdict): EventBody[] {
  const { veto } = verdict;
  if (veto === undefined) return [];
  const claims = veto === 'tool_failed' && countDoneMarkers(turn.text) > 0;
  const answers = veto !== 'tool_failed' && session.askedIfDone === step.id;
  if (!claims && !answers) return [];
  const evidence = truncate(verdict.evidence ?? turn.text, 200);
  return [{ type: 'step.claimed', step: step.id, tier: claims ? 'marker' : 'timeout', evidence, veto }];
}

/**
 * What becomes of a claim without any work to show for it; nothing if there is some. A text of the step's own closes it
 * as unproven; so does a claim that is repeated after failed calls, unless the mode requires work.
 */
function unprovenEvents(session: Session, plan: Plan, step: Step, turn: Turn, evidence: string): EventBody[] {
  const veto = missingWork(session, plan, turn);
  if (veto === null) return [];
  const insists =
    !MODE_POLICIES[plan.mode].requiresToolUse && countDoneMarkers(session.stepHistory.at(-1)?.text ?? '') > 0;
  if (turn.step === step.id && countDoneMarkers(turn.text) > 0 && (insists || isTextOfItsOwn(turn.text)))
    return [
      claimStepEvent(step, { tier: 'text', evidence: truncate(evidence, 200), result: stepResultOf(turn, step) }),
    ];
  return [{ type: 'step.claimed', step: step.id, tier: 'marker', evidence: truncate(evidence, 200), veto }];
}

/** Why a claim has no work behind it: none of the calls of this step succeeded, or the mode requires one. */
export function missingWork(
  { stepHistory, toolFailures }: Session,
  plan: Plan,
  turn: Turn | null,
): CompletionVeto | 'no_work' | null {
  const used = [...stepHistory.flatMap((trace) => trace.tools), ...(turn?.calls ?? []).map((call) => call.name)].filter(
    (name) => name !== PLAN_TOOL.name && name !== ASK_USER_TOOL.name,
  );
  if (used.length === 0) return MODE_POLICIES[plan.mode].requiresToolUse ? 'no_work' : null;
  const failed = (name: string) => (getOwn(toolFailures, name) ?? 0) >= used.filter((one) => one === name).length;
  return used.every(failed) ? 'tool_failed' : null;
}

/** A text of this length is what a step was for, rather than a report on it. A Chinese character says more. */
const MIN_TEXT_LENGTH = 200;
const isTextOfItsOwn = (text: string): boolean =>
  text.length + 2 * (text.match(/\p{Script=Han}/gu) ?? []).length >= MIN_TEXT_LENGTH;

/**
 * In modes that require visible work, text that only sounds like an end first prompts a request for a report; if
 * repeated, it is accepted.
 */
function isUnreported({ run }: Session, plan: Plan, turn: Turn): boolean {
  return MODE_POLICIES[plan.mode].requiresToolUse && turn.calls.length === 0 && (run?.idleAnswers ?? 0) < 2;
}

function countDoneMarkers(text: string): number {
  return findTags(linesWithTags(textOfJsonAnswer(text))).filter((tag) => isDoneMarker(tag.inside) && isAssertedTag(tag))
    .length;
}
