import type { EventBody } from '../protocol/event.ts';
import type { Plan, Step } from '../protocol/plan.ts';
import { PLAN_TOOL, PlanCall } from '../protocol/plan-call.ts';
import { clip } from '../protocol/recorded.ts';
import { lastToolFailed } from './claim.ts';
import { parseStepDeclarations } from './declarations.ts';
import { claimOf, idle } from './judge.ts';
import { filesOf } from './result.ts';
import { type Call, runningStep, type Session } from './session.ts';
import { openSteps, stepNamed } from './steps.ts';
import { planSummary } from './summary.ts';

type Outcome = { events: EventBody[]; ok: boolean; text: string };
type Changes = Extract<EventBody, { type: 'plan.edited' }>['changes'];

const said = (text: string, ...events: EventBody[]): Outcome => ({ events, ok: true, text });
const refused = (text: string): Outcome => ({ events: [], ok: false, text });

export const isPlanCall = (call: Call): boolean => call.name === PLAN_TOOL.name;

/** A call of the `plan` tool: it touches nothing but the record, so what it does is decided here and recorded as one piece. */
export function planCall(session: Session, plan: Plan, call: Call): EventBody[] {
  const { events, ok, text } = outcome(session, plan, call.args);
  return [
    { type: 'tool.started', call: call.key, name: call.name, args: call.args, replay: 'safe' },
    ...events,
    { type: 'tool.finished', call: call.key, ok, output: { text }, ms: 0 },
  ];
}

function outcome(session: Session, plan: Plan, args: string): Outcome {
  const read = readCall(args);
  if (typeof read === 'string') return refused(read);
  switch (read.command) {
    case 'get':
      return said(planSummary(plan, 'en'));
    case 'create':
      return added(session, plan, read.steps ?? []);
    case 'add_step':
      return read.description
        ? added(session, plan, [{ description: read.description, needs: read.needs, done_when: read.done_when }])
        : refused('add_step wants "description".');
    case 'complete_step':
      return withStep(plan, read.step, (step) => complete(session, step, read.result ?? ''));
    case 'mark_step':
      return withStep(plan, read.step, (step) => mark(step, read));
    case 'update':
      return withStep(plan, read.step, (step) => update(session, step, read));
    default:
      return read.command satisfies never;
  }
}

function readCall(args: string): PlanCall | string {
  try {
    const parsed = PlanCall.safeParse(JSON.parse(args));
    if (parsed.success) return parsed.data;
    const issue = parsed.error.issues[0];
    return `The arguments do not fit: ${issue?.path.join('.') || 'the object'}: ${issue?.message}`;
  } catch {
    return `The arguments are not JSON: ${clip(args, 80)}`;
  }
}

function withStep(plan: Plan, name: string | null | undefined, act: (step: Step) => Outcome): Outcome {
  const step = name ? stepNamed(plan, name) : runningStep(plan);
  const known = plan.steps.map((one) => one.id).join(', ') || 'none yet';
  if (!step)
    return refused(
      name ? `There is no step "${name}". Steps: ${known}.` : `No step is at work. Name one with "step": ${known}.`,
    );
  return act(step);
}

const isOpen = (step: Step): boolean =>
  step.status === 'pending' || step.status === 'running' || step.status === 'blocked';

function complete(session: Session, step: Step, result: string): Outcome {
  if (step.status === 'completed') return said(`${step.id} is completed already; nothing changed.`);
  if (!isOpen(step)) return refused(`${step.id} is ${step.status}; only a person can open it again.`);
  if (lastToolFailed(session.turn))
    return refused('A tool call of this answer failed. Mend it first, or use mark_step.');
  if (session.plan && runningStep(session.plan)?.id === step.id && idle(session, session.plan, session.turn))
    return refused(`No tool was used in ${step.id} yet. Do the work first, or use mark_step with status failed.`);
  const missing = (step.needs ?? []).filter(
    (need) => session.plan?.steps.find((one) => one.id === need)?.status !== 'completed',
  );
  if (missing.length > 0) return refused(`${step.id} needs ${missing.join(', ')} first.`);
  if (session.turn?.advanced || session.claim)
    return refused('This answer has closed a step already. One answer closes one step; call again in the next.');
  const event = claimOf(step, {
    tier: 'tool',
    evidence: clip(`complete_step: ${result}`, 200),
    result: clip(result, 400),
    attachments: runningStep(session.plan)?.id === step.id ? filesOf(session) : [],
  });
  const checks =
    (step.done_when ?? []).length > 0 ? 'when its checks pass' : 'unless a later call of this answer fails';
  return said(`${step.id} is completed ${checks}.`, event);
}

function mark(step: Step, { status, reason }: PlanCall): Outcome {
  if (!status) return refused('mark_step wants "status": failed, skipped or blocked.');
  if (!isOpen(step)) return refused(`${step.id} is ${step.status} and stays so.`);
  const why = clip(reason ?? '', 400);
  if (status === 'skipped')
    return said(`${step.id} is skipped.`, { type: 'step.skipped', step: step.id, reason: why, by: 'model' });
  return said(`${step.id} is ${status}.`, {
    type: status === 'failed' ? 'step.failed' : 'step.blocked',
    step: step.id,
    error: why,
    by: 'model',
  });
}

/** A model may not reword what a person wrote, nor touch what has ended. */
function update(session: Session, step: Step, call: PlanCall): Outcome {
  if (!isOpen(step)) return refused(`${step.id} is ${step.status}; what has ended is not changed.`);
  const given = (['description', 'needs', 'notes', 'done_when'] as const).filter((field) => call[field]);
  const theirs = given.filter((field) => session.theirs.includes(`${step.id}:${field}`));
  if (theirs.length > 0)
    return refused(
      `${theirs.join(', ')} of ${step.id} was written by a person: propose the change in your answer instead.`,
    );
  const unknown = (call.needs ?? []).filter(
    (id) => id === step.id || !session.plan?.steps.some((one) => one.id === id),
  );
  if (unknown.length > 0)
    return refused(
      `"needs" cannot name ${unknown.join(', ')}. Steps: ${session.plan?.steps.map((one) => one.id).join(', ')}.`,
    );
  const set = {
    ...(call.description && { description: call.description }),
    ...(call.needs && { needs: call.needs }),
    ...(call.done_when && { done_when: call.done_when }),
    ...(call.notes && { notes: call.notes }),
  };
  const changes: Changes = Object.keys(set).length > 0 ? [{ what: 'step', step: step.id, set, unset: [] }] : [];
  const events: EventBody[] = [
    ...(changes.length > 0 ? [{ type: 'plan.edited' as const, by: 'model' as const, changes, ignored: [] }] : []),
    ...(call.progress ? [{ type: 'step.progressed' as const, step: step.id, progress: call.progress }] : []),
  ];
  return events.length > 0
    ? said(`${step.id} is updated.`, ...events)
    : refused('update wants "description", "needs", "done_when", "notes" or "progress".');
}

const declaration = (description: string): string => `[Step] ${description.replace(/\s+/g, ' ')}`;

/** New steps by the rules of declared ones: no step twice, fifty at most. */
function added(session: Session, plan: Plan, steps: NonNullable<PlanCall['steps']>): Outcome {
  const open = openSteps(plan).map((step) => step.description);
  const asked = steps.map((step) => (typeof step === 'string' ? { description: step } : step));
  const fresh = parseStepDeclarations(asked.map((step) => declaration(step.description)).join('\n'), open);
  const known = new Set(plan.steps.map((step) => step.id));
  const events = fresh.map((description, n): EventBody => {
    const { needs, done_when } = {
      needs: null,
      done_when: null,
      ...asked.find((step) => parseStepDeclarations(declaration(step.description))[0] === description),
    };
    const id = `step_${session.stepNo + n + 1}`;
    known.add(id);
    return {
      type: 'step.added',
      by: 'model',
      step: { id, description, status: 'pending', ...(needs && { needs }), ...(done_when && { done_when }) },
    };
  });
  const dangling = asked.flatMap((step) => ('needs' in step ? (step.needs ?? []) : [])).filter((id) => !known.has(id));
  if (dangling.length > 0)
    return refused(`Unknown in "needs": ${dangling.join(', ')}. Steps: ${[...known].join(', ') || 'none yet'}.`);
  const ids = events.flatMap((event) =>
    event.type === 'step.added' ? [`${event.step.id}: ${event.step.description}`] : [],
  );
  return said(ids.length > 0 ? `Added ${ids.join('; ')}` : 'The plan has these steps already.', ...events);
}
