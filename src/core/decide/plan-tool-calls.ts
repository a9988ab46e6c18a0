import { truncate } from '../../base/strings.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import { PLAN_TOOL, PlanToolArgs, parseOwnArgs } from '../../protocol/tool-calls/own-tools.ts';
import { claimStepEvent, filesWrittenInStep } from '../detect/step-claims.ts';
import { newDescription } from '../detect/step-tags.ts';
import { formatPlanSummary } from '../messages/status-report.ts';
import { MODE_POLICIES } from '../modes/mode-choice.ts';
import { findStep, openSteps, runningStep } from '../plan/plan-steps.ts';
import { findCycle, stepGraph } from '../plan/step-graph.ts';
import { isNeedMet } from '../plan/step-readiness.ts';
import { hasLastToolFailed } from '../session/internal-calls.ts';
import type { TurnCall } from '../session/run-state.ts';
import type { Session } from '../session/session-state.ts';
import { missingWork } from './judge-answer.ts';

type PlanCallOutcome = { events: EventBody[]; ok: boolean; text: string };
type EditChanges = Extract<EventBody, { type: 'plan.edited' }>['changes'];

const accept = (text: string, ...events: EventBody[]): PlanCallOutcome => ({ events, ok: true, text });
const refuse = (text: string): PlanCallOutcome => ({ events: [], ok: false, text });

/**
 * The events of a `plan` call. It changes nothing outside the event log, so its effect is decided here and logged as
 * one batch.
 */
export function planCallEvents(session: Session, plan: Plan, call: TurnCall): EventBody[] {
  const { events, ok, text } = executePlanCall(session, plan, call.args);
  return [
    { type: 'tool.started', call: call.key, name: call.name, args: call.args, replay: 'safe' },
    ...events,
    { type: 'tool.finished', call: call.key, ok, output: { text }, ms: 0 },
  ];
}

function executePlanCall(session: Session, plan: Plan, args: string): PlanCallOutcome {
  const read = parseOwnArgs(PLAN_TOOL, PlanToolArgs, args);
  if (typeof read === 'string') return refuse(read);
  switch (read.command) {
    case 'get':
      return accept(formatPlanSummary(plan, 'en'));
    case 'create':
      return createPlan(session, plan, read.steps);
    case 'add_step':
      return addStep(session, plan, read);
    case 'replan':
      return requestReplan(session, plan);
    case 'complete_step':
      return onStep(plan, read.step, (step) => completeStep(session, step, read.result ?? ''));
    case 'mark_step':
      return onStep(plan, read.step, (step) => markStep(plan, step, read));
    case 'update':
      return onStep(plan, read.step, (step) => applyStepUpdate(session, step, read));
    default:
      return read.command satisfies never;
  }
}

function onStep(plan: Plan, name: string | null | undefined, act: (step: Step) => PlanCallOutcome): PlanCallOutcome {
  const step = name ? findStep(plan, name) : runningStep(plan);
  const known = plan.steps.map((one) => one.id).join(', ') || 'none yet';
  if (!step)
    return refuse(
      name ? `There is no step "${name}". Steps: ${known}.` : `No step is running. Name one with "step": ${known}.`,
    );
  return act(step);
}

const isStepOpen = (step: Step): boolean =>
  step.status === 'pending' || step.status === 'running' || step.status === 'blocked';

function completeStep(session: Session, step: Step, result: string): PlanCallOutcome {
  if (step.status === 'completed') return accept(`${step.id} is completed already; nothing changed.`);
  if (!isStepOpen(step)) return refuse(`${step.id} is ${step.status}; only a person can open it again.`);
  if (hasLastToolFailed(session.turn))
    return refuse('A tool call of this answer failed. Fix it first, or use mark_step.');
  const { plan } = session;
  const missingNow = plan && runningStep(plan)?.id === step.id ? missingWork(session, plan, session.turn) : null;
  if (missingNow === 'no_work')
    return refuse(`No tool was used in ${step.id} yet. Do the work first, or use mark_step with status failed.`);
  if (missingNow !== null)
    return refuse(`No tool call of ${step.id} has succeeded. Fix it first, or use mark_step with status failed.`);
  const graph = stepGraph(session.plan?.steps ?? []);
  const missing = (step.needs ?? []).filter((need) => {
    const other = graph.byId.get(need);
    return other === undefined || !isNeedMet(other, graph);
  });
  if (missing.length > 0) return refuse(`${step.id} needs ${missing.join(', ')} first.`);
  if (session.turn?.hasClosedStep || session.claim)
    return refuse('This answer has closed a step already. One answer closes one step; call again in the next.');
  const event = claimStepEvent(step, {
    tier: 'tool',
    evidence: truncate(`complete_step: ${result}`, 200),
    result: truncate(result, 400),
    attachments: runningStep(session.plan)?.id === step.id ? filesWrittenInStep(session) : [],
  });
  const checks =
    (step.done_when ?? []).length > 0 ? 'when its checks pass' : 'unless a later call of this answer fails';
  return accept(`${step.id} is completed ${checks}.`, event);
}

function markStep(plan: Plan, step: Step, { status, reason }: PlanToolArgs): PlanCallOutcome {
  if (!status) return refuse('mark_step needs "status": failed, skipped or blocked.');
  if (!isStepOpen(step)) return refuse(`${step.id} is ${step.status} and stays so.`);
  const why = truncate(reason ?? '', 400);
  if (status === 'skipped')
    return accept(`${step.id} is skipped.${dependentsNote(plan, step)}`, {
      type: 'step.skipped',
      step: step.id,
      reason: why,
      by: 'model',
    });
  return accept(`${step.id} is ${status}.`, {
    type: status === 'failed' ? 'step.failed' : 'step.blocked',
    step: step.id,
    error: why,
    by: 'model',
  });
}

/** Steps that need a skipped step can never be ready, and are skipped with it. */
function dependentsNote(plan: Plan, { id }: Step): string {
  const behind = plan.steps.filter((step) => step.status === 'pending' && step.needs?.includes(id));
  return behind.length > 0 ? ` ${behind.map((step) => step.id).join(', ')} needs it and goes with it.` : '';
}

/** The cycle that these needs would put a step in; undefined if there is none. */
function cycleWith(plan: Plan | null, id: string, needs: string[]): string[] | undefined {
  const cycle = findCycle((plan?.steps ?? []).map((step) => (step.id === id ? { id, needs } : step)));
  return cycle?.includes(id) ? cycle : undefined;
}

/** A model may not reword what a person wrote, nor change a step that has ended. */
function applyStepUpdate(session: Session, step: Step, call: PlanToolArgs): PlanCallOutcome {
  if (!isStepOpen(step)) return refuse(`${step.id} is ${step.status}; a step that has ended cannot be changed.`);
  const given = (['description', 'needs', 'notes', 'done_when'] as const).filter((field) => call[field]);
  const theirs = given.filter((field) => session.editedByPerson.includes(`${step.id}:${field}`));
  if (theirs.length > 0)
    return refuse(
      `${theirs.join(', ')} of ${step.id} was written by a person: propose the change in your answer instead.`,
    );
  const unknown = (call.needs ?? []).filter(
    (id) => id === step.id || !session.plan?.steps.some((one) => one.id === id),
  );
  if (unknown.length > 0)
    return refuse(
      `"needs" cannot name ${unknown.join(', ')}. Steps: ${session.plan?.steps.map((one) => one.id).join(', ')}.`,
    );
  const cycle = call.needs ? cycleWith(session.plan, step.id, call.needs) : undefined;
  if (cycle) return refuse(`"needs" would make a cycle: ${cycle.join(' → ')} would need each other.`);
  const set = {
    ...(call.description && { description: call.description }),
    ...(call.needs && { needs: call.needs }),
    ...(call.done_when && { done_when: call.done_when }),
    ...(call.notes && { notes: call.notes }),
  };
  // A step's notes belong to its description: they go when it changes, unless a person wrote them.
  const stale = call.description && call.description !== step.description && !call.notes && step.notes !== undefined;
  const unset = stale && !session.editedByPerson.includes(`${step.id}:notes`) ? ['notes' as const] : [];
  const changes: EditChanges = Object.keys(set).length > 0 ? [{ what: 'step', step: step.id, set, unset }] : [];
  const events: EventBody[] = [
    ...(changes.length > 0 ? [{ type: 'plan.edited' as const, by: 'model' as const, changes, ignored: [] }] : []),
    ...(call.progress ? [{ type: 'step.progressed' as const, step: step.id, progress: call.progress }] : []),
  ];
  return events.length > 0
    ? accept(`${step.id} is updated.`, ...events)
    : refuse('update needs "description", "needs", "done_when", "notes" or "progress".');
}

/** A plan with steps is not created twice: new steps go through add_step, and the result says so. */
function createPlan(session: Session, plan: Plan, steps: PlanToolArgs['steps']): PlanCallOutcome {
  const wanted = toWantedSteps(steps);
  if (wanted.length === 0) return refuse('create needs "steps": the list of steps.');
  const added = addWantedSteps(session, plan, wanted, false);
  if (plan.steps.length === 0) return addingOutcome(added);
  if (added.events.length + added.skipped.length === 0) return accept('The plan has these steps already.');
  return refuse(
    `${plan.id} already exists and stays as it is. Add to it with add_step ("steps" for several), change a step with update.`,
  );
}

const toWantedSteps = (steps: PlanToolArgs['steps']): WantedStep[] =>
  (steps ?? []).map((step) => (typeof step === 'string' ? { description: step } : step));

function addStep(
  session: Session,
  plan: Plan,
  { steps, description, needs, done_when }: PlanToolArgs,
): PlanCallOutcome {
  const one = description ? [{ description, needs, done_when }] : [];
  const wanted = [...one, ...toWantedSteps(steps)];
  if (wanted.length === 0) return refuse('add_step needs "description", or "steps" for several.');
  return addingOutcome(addWantedSteps(session, plan, wanted, !steps));
}

function addingOutcome({ events, accepted, skipped }: AddedSteps): PlanCallOutcome {
  const left = skipped.length > 0 ? [`Not added: ${skipped.join('; ')}.`] : [];
  if (events.length > 0) return accept([`Added ${accepted.join('; ')}`, ...left].join('\n'), ...events);
  return left.length > 0 ? refuse(left.join('')) : accept('The plan has these steps already.');
}

/** Marks the open steps for replanning once this answer's calls have ended, if the mode replans. */
function requestReplan(session: Session, plan: Plan): PlanCallOutcome {
  const { maxReplans } = MODE_POLICIES[plan.mode];
  if (maxReplans === 0) return refuse(`In the mode ${plan.mode} the plan is not revised: use add_step and mark_step.`);
  if (session.revisions >= maxReplans)
    return refuse(`The plan was revised ${maxReplans} times already, which is the limit: use add_step and mark_step.`);
  return accept('The open steps are being planned again; continue when the new steps are there.');
}

type WantedStep = Exclude<NonNullable<PlanToolArgs['steps']>[number], string>;

/** The result of a request for new steps; each step that was left out is listed by name with a one-word reason. */
type AddedSteps = { events: EventBody[]; accepted: string[]; skipped: string[] };

/**
 * Adds steps by the rules for declared ones: no duplicates, no more than the mode allows, no cycles, no unknown needs.
 * A single step is added whole or refused (`strict`). In a list each step is judged by itself, and one known need is
 * enough to keep it (as in Manus Demo); a refused step uses up no id.
 */
function addWantedSteps(session: Session, plan: Plan, wanted: readonly WantedStep[], strict: boolean): AddedSteps {
  const cycle = findCycle(plan.steps);
  const added: AddedSteps = { events: [], accepted: [], skipped: [] };
  if (cycle) return { ...added, skipped: [`cycle: ${cycle.join(' → ')} need each other; fix that with update first`] };
  const steps = [...plan.steps];
  for (const item of wanted) {
    const id = `step_${session.lastStepNumber + added.events.length + 1}`;
    const step = judgeWantedStep(plan, steps, id, item, strict, added);
    if (!step) continue;
    steps.push(step);
    added.events.push({ type: 'step.added', by: 'model', step });
    added.accepted.push(`${id}: ${step.description}${step.needs ? ` (needs ${step.needs.join(', ')})` : ''}`);
  }
  return added;
}

function judgeWantedStep(
  plan: Plan,
  steps: Step[],
  id: string,
  wantedStep: WantedStep,
  strict: boolean,
  added: AddedSteps,
): Step | null {
  const skip = (why: string): null => {
    added.skipped.push(why);
    return null;
  };
  const named = `"${truncate(wantedStep.description.trim(), 60)}"`;
  const open = openSteps({ ...plan, steps });
  const known = open.map((step) => step.description);
  const description = newDescription(wantedStep.description, known);
  if (wantedStep.description.trim() === '') return skip('empty_description: a step needs a description');
  if (description === undefined) return null;
  const { maxOpenSteps } = MODE_POLICIES[plan.mode];
  if (open.length >= maxOpenSteps)
    return skip(`too_many: ${named}; ${maxOpenSteps} open steps are the most. Merge or close some first`);
  const needs = wantedStep.needs ?? [];
  const lost = needs.filter((need) => !steps.some((step) => step.id === need));
  if (lost.length > 0 && (strict || lost.length === needs.length))
    return skip(
      `unknown_need: Unknown in "needs": ${lost.join(', ')}. Steps: ${steps.map((one) => one.id).join(', ') || 'none yet'}`,
    );
  if (lost.length > 0)
    added.accepted.push(`left out of the needs of ${id}, since there is no such step: ${lost.join(', ')}`);
  const kept = needs.filter((need) => !lost.includes(need));
  const step: Step = {
    id,
    description,
    status: 'pending',
    ...(kept.length > 0 && { needs: kept }),
    ...(wantedStep.done_when && { done_when: wantedStep.done_when }),
  };
  const cycle = findCycle([...steps, step]);
  return cycle ? skip(`cycle: with ${named} the steps ${cycle.join(' → ')} would need each other`) : step;
}
