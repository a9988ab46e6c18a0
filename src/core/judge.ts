import type { EventBody } from '../protocol/event.ts';
import type { Plan, Step } from '../protocol/plan.ts';
import { PLAN_TOOL } from '../protocol/plan-call.ts';
import { clip } from '../protocol/recorded.ts';
import { claimOf, lastToolFailed } from './claim.ts';
import { taggedLines, tagsOf } from './completion/brackets.ts';
import { detectStepCompletion, type Verdict } from './completion/index.ts';
import { isClaim, isMarkerWord } from './completion/markers.ts';
import { vetoOf } from './completion/vetoes.ts';
import { POLICIES } from './modes/index.ts';
import { filesOf, resultOf } from './result.ts';
import { activePlan, runningStep, type Session, type Turn } from './session.ts';
import { readSigns, type Sign } from './signs.ts';
import { stepNamed } from './steps.ts';
import { unwrapped } from './text/unwrapped.ts';

/**
 * What the answer at hand means for the plan, once its calls have ended: a step is closed, claimed, refused, blocked or asked
 * about, or nothing. One answer closes one step at most, and is judged once.
 */
export function judge(session: Session): EventBody[] {
  const plan = activePlan(session);
  const step = runningStep(plan);
  const { turn } = session;
  if (!plan || !step || !turn || turn.advanced || turn.judged || session.claim) return [];
  const text = unwrapped(turn.text);
  const signs = readSigns(text);
  const open = vetoOf(taggedLines(text), false)?.veto === 'not_done';
  // A person may have closed the step the model was asked about: then the answer speaks of that one, unless it names another.
  const own = turn.step === null || turn.step === step.id;
  const progress = own ? progressed(step, signs) : [];
  if (progress.length > 0) return progress;
  const said = open ? [] : ended(session, plan, turn, signs, own ? step : undefined);
  return said.length > 0 || !own ? said : byTiers(session, plan, step, turn);
}

function progressed(step: Step, signs: readonly Sign[]): EventBody[] {
  const sign = signs.findLast((one) => one.kind === 'progress');
  if (sign?.kind !== 'progress') return [];
  const { current, total } = sign;
  return step.progress?.current === current && step.progress.total === total
    ? []
    : [{ type: 'step.progressed', step: step.id, progress: { current, total } }];
}

/** Ends a model says in so many words: failed, skipped, blocked; or done, of a step it names. */
function ended(session: Session, plan: Plan, turn: Turn, signs: readonly Sign[], step: Step | undefined): EventBody[] {
  for (const sign of step ? signs : []) {
    const id = step?.id ?? '';
    if (sign.kind === 'failed') return [{ type: 'step.failed', step: id, error: clip(sign.reason, 400), by: 'model' }];
    if (sign.kind === 'skipped')
      return [{ type: 'step.skipped', step: id, reason: clip(sign.reason, 400), by: 'model' }];
    // A model that goes on calling tools is not stuck yet.
    if (sign.kind === 'blocked' && turn.calls.length === 0)
      return [{ type: 'step.blocked', step: id, error: clip(sign.reason, 400), by: 'model' }];
  }
  const named = signs.flatMap((sign) => (sign.kind === 'done' ? (stepNamed(plan, sign.step) ?? []) : []));
  const open = named.find((one) => one.status === 'pending' || one.status === 'running');
  if (!open) return [];
  const evidence = clip(turn.text, 200);
  if (lastToolFailed(turn))
    return [{ type: 'step.claimed', step: open.id, tier: 'marker', evidence, veto: 'tool_failed' }];
  if (open === step && idle(session, plan, turn)) return [unworked(open, evidence)];
  return [
    claimOf(open, {
      tier: 'marker',
      evidence,
      result: resultOf(turn, open),
      attachments: open === step ? filesOf(session) : [],
    }),
  ];
}

function byTiers(session: Session, plan: Plan, step: Step, turn: Turn): EventBody[] {
  const waited = Math.max(0, (step.iterations ?? 0) - 1 - session.patience);
  const verdict = verdictOn(session, plan, step, turn, waited);
  if (verdict.veto !== undefined) return refusal(session, step, turn, verdict);
  if (verdict.tier === 'marker' && isEcho(session, plan, step, turn)) return [];
  // The question costs a line in the next call, so it comes at the plain limit, also where there is movement; sooner where there is none.
  const limit =
    (session.run?.repeat.count ?? 0) >= 2 ? Math.ceil(plan.limits.step_iterations / 2) : plan.limits.step_iterations;
  const late = verdict.tier === 'timeout' || waited >= limit;
  if (!verdict.done && !late) return [];
  if (verdict.tier === 'transition' && unreported(session, plan, turn)) return [];
  const assumed = verdict.tier === 'timeout' || !verdict.done;
  if (assumed && session.asked !== step.id)
    return [{ type: 'step.asked', step: step.id, iterations: step.iterations ?? 0 }];
  const writes = turn.calls.find((call) => call.ok && (call.name === 'write_file' || call.name === 'edit_file'));
  if (assumed && writes)
    return [
      {
        type: 'step.claimed',
        step: step.id,
        tier: 'timeout',
        evidence: `still writing ${writes.main}`,
        veto: 'moving',
      },
    ];
  if (idle(session, plan, turn)) return [unworked(step, verdict.evidence ?? turn.text)];
  const to = verdict.advanceTo === undefined ? undefined : plan.steps[verdict.advanceTo];
  return [
    claimOf(step, {
      tier: assumed ? 'timeout' : (verdict.tier ?? 'timeout'),
      evidence: clip(verdict.evidence ?? '', 200),
      result: resultOf(turn, step),
      markers: markersIn(turn.text),
      attachments: filesOf(session),
      ...(to && to.id !== step.id && to.status === 'pending' && { to: to.id }),
    }),
  ];
}

function verdictOn(session: Session, plan: Plan, step: Step, turn: Turn, waited: number): Verdict {
  return detectStepCompletion(turn.text, {
    iterationInStep: waited,
    stepIterations: plan.limits.step_iterations,
    lastToolFailed: lastToolFailed(turn),
    stepDescription: step.description,
    steps: plan.steps.map((one) => one.description),
    stepIndex: plan.steps.indexOf(step),
    tools: turn.calls.map((call) => call.name),
    args: turn.calls.map((call) => call.main),
    toolsInStep: session.trail.map((trace) => trace.tools),
    argsInStep: session.trail.map((trace) => trace.args),
    textsInStep: session.trail.map((trace) => trace.text),
    final: turn.calls.length === 0,
    userTurn: turn.userTurn,
    markersInRun: plan.steps.some((one) => one.completed_by === 'marker' || one.completed_by === 'tool'),
  });
}

/** Talk about the step that the tool has just closed, before anything was done for the one at work, closes nothing more. */
function isEcho(session: Session, plan: Plan, step: Step, turn: Turn): boolean {
  const last = plan.steps.find((one) => one.id === session.closed.at(-1));
  return last?.completed_by === 'tool' && turn.calls.length === 0 && (step.iterations ?? 0) <= 1;
}

/** A claim beside a failing tool is put on record and told to the model; "not done" after a question restarts the count. */
function refusal(session: Session, step: Step, turn: Turn, verdict: Verdict): EventBody[] {
  const { veto } = verdict;
  if (veto === undefined) return [];
  const claims = veto === 'tool_failed' && markersIn(turn.text) > 0;
  const answers = veto !== 'tool_failed' && session.asked === step.id;
  if (!claims && !answers) return [];
  const evidence = clip(verdict.evidence ?? turn.text, 200);
  return [{ type: 'step.claimed', step: step.id, tier: claims ? 'marker' : 'timeout', evidence, veto }];
}

/** In a mode that wants work shown: nothing but the plan's own tool ran in this step. */
export function idle(session: Session, plan: Plan, turn: Turn | null): boolean {
  if (!POLICIES[plan.mode].needsWork) return false;
  const used = [...session.trail.flatMap((trace) => trace.tools), ...(turn?.calls ?? []).map((call) => call.name)];
  return used.every((name) => name === PLAN_TOOL.name);
}

/** In such a mode mere talk that reads like an end is asked for a report first; said again, it is taken at its word. */
function unreported({ run }: Session, plan: Plan, turn: Turn): boolean {
  return POLICIES[plan.mode].needsWork && turn.calls.length === 0 && (run?.quiet ?? 0) < 2;
}

function unworked(step: Step, evidence: string): EventBody {
  return { type: 'step.claimed', step: step.id, tier: 'marker', evidence: clip(evidence, 200), veto: 'no_work' };
}

function markersIn(text: string): number {
  return tagsOf(taggedLines(unwrapped(text))).filter((tag) => isMarkerWord(tag.inside) && isClaim(tag)).length;
}
