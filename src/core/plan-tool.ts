import type { EventBody } from '../protocol/event.ts';
import type { Plan, Step } from '../protocol/plan.ts';
import { PLAN_TOOL, PlanCall } from '../protocol/plan-call.ts';
import { clip } from '../protocol/recorded.ts';
import { claimOf, lastToolFailed } from './claim.ts';
import { idle } from './judge.ts';
import { POLICIES } from './modes/index.ts';
import { type Added, adding, type Wanted } from './plan-adding.ts';
import { ringIn } from './planner/graph.ts';
import { filesOf } from './result.ts';
import { type Call, runningStep, type Session } from './session.ts';
import { stepNamed } from './steps.ts';
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
      return create(session, plan, read.steps);
    case 'add_step':
      return addStep(session, plan, read);
    case 'replan':
      return replan(session, plan);
    case 'complete_step':
      return withStep(plan, read.step, (step) => complete(session, step, read.result ?? ''));
    case 'mark_step':
      return withStep(plan, read.step, (step) => mark(plan, step, read));
    case 'update':
      return withStep(plan, read.step, (step) => update(session, step, read));
    default:
      return read.command satisfies never;
  }
}

/** The arguments by the schema, or what is wrong with them and what there is, so that they can be mended. */
function readCall(args: string): PlanCall | string {
  let given: unknown;
  try {
    given = JSON.parse(args);
  } catch {
    return `The arguments are not JSON: ${clip(args, 80)}`;
  }
  const parsed = PlanCall.safeParse(given);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  const command = typeof given === 'object' && given !== null && 'command' in given ? given.command : undefined;
  const came = typeof command === 'string' ? ` "${clip(command, 40)}"` : '';
  return `The arguments do not fit${came}: ${issue?.path.join('.') || 'the object'}: ${issue?.message}. Commands: ${PlanCall.shape.command.options.join(', ')}.`;
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

function mark(plan: Plan, step: Step, { status, reason }: PlanCall): Outcome {
  if (!status) return refused('mark_step wants "status": failed, skipped or blocked.');
  if (!isOpen(step)) return refused(`${step.id} is ${step.status} and stays so.`);
  const why = clip(reason ?? '', 400);
  if (status === 'skipped')
    return said(`${step.id} is skipped.${goesWith(plan, step)}`, {
      type: 'step.skipped',
      step: step.id,
      reason: why,
      by: 'model',
    });
  return said(`${step.id} is ${status}.`, {
    type: status === 'failed' ? 'step.failed' : 'step.blocked',
    step: step.id,
    error: why,
    by: 'model',
  });
}

/** What needs a skipped step will never be ready, and is skipped with it. */
function goesWith(plan: Plan, { id }: Step): string {
  const behind = plan.steps.filter((step) => step.status === 'pending' && step.needs?.includes(id));
  return behind.length > 0 ? ` ${behind.map((step) => step.id).join(', ')} needs it and goes with it.` : '';
}

/** The ring a step would be in with these needs. */
function ringWith(plan: Plan | null, id: string, needs: string[]): string[] | undefined {
  const ring = ringIn((plan?.steps ?? []).map((step) => (step.id === id ? { id, needs } : step)));
  return ring?.includes(id) ? ring : undefined;
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
  const ring = call.needs ? ringWith(session.plan, step.id, call.needs) : undefined;
  if (ring) return refused(`"needs" would make a ring (cycle): ${ring.join(' → ')} would need each other.`);
  const set = {
    ...(call.description && { description: call.description }),
    ...(call.needs && { needs: call.needs }),
    ...(call.done_when && { done_when: call.done_when }),
    ...(call.notes && { notes: call.notes }),
  };
  // Notes are about the words they stand beside: they go with those, unless a person wrote them.
  const stale = call.description && call.description !== step.description && !call.notes && step.notes !== undefined;
  const unset = stale && !session.theirs.includes(`${step.id}:notes`) ? ['notes' as const] : [];
  const changes: Changes = Object.keys(set).length > 0 ? [{ what: 'step', step: step.id, set, unset }] : [];
  const events: EventBody[] = [
    ...(changes.length > 0 ? [{ type: 'plan.edited' as const, by: 'model' as const, changes, ignored: [] }] : []),
    ...(call.progress ? [{ type: 'step.progressed' as const, step: step.id, progress: call.progress }] : []),
  ];
  return events.length > 0
    ? said(`${step.id} is updated.`, ...events)
    : refused('update wants "description", "needs", "done_when", "notes" or "progress".');
}

/** A plan that has steps is not made a second time: what is new goes through add_step, which says so. */
function create(session: Session, plan: Plan, steps: PlanCall['steps']): Outcome {
  const wanted = spelled(steps);
  if (wanted.length === 0) return refused('create wants "steps": the list of what is to be done.');
  const added = adding(session, plan, wanted, false);
  if (plan.steps.length === 0) return outcomeOf(added);
  if (added.events.length + added.skipped.length === 0) return said('The plan has these steps already.');
  return refused(
    `${plan.id} is there already and stays as it is. Add to it with add_step ("steps" for several), change a step with update.`,
  );
}

const spelled = (steps: PlanCall['steps']): Wanted[] =>
  (steps ?? []).map((step) => (typeof step === 'string' ? { description: step } : step));

function addStep(session: Session, plan: Plan, { steps, description, needs, done_when }: PlanCall): Outcome {
  const one = description ? [{ description, needs, done_when }] : [];
  const wanted = [...one, ...spelled(steps)];
  if (wanted.length === 0) return refused('add_step wants "description", or "steps" for several.');
  return outcomeOf(adding(session, plan, wanted, !steps));
}

function outcomeOf({ events, told, skipped }: Added): Outcome {
  const left = skipped.length > 0 ? [`Not added: ${skipped.join('; ')}.`] : [];
  if (events.length > 0) return said([`Added ${told.join('; ')}`, ...left].join('\n'), ...events);
  return left.length > 0 ? refused(left.join('')) : said('The plan has these steps already.');
}

/** What is open is planned anew once this answer's calls have ended, where the mode does that. */
function replan(session: Session, plan: Plan): Outcome {
  const { replans } = POLICIES[plan.mode];
  if (replans === 0) return refused(`In the mode ${plan.mode} nothing is planned anew: use add_step and mark_step.`);
  if (session.revisions >= replans)
    return refused(`The plan was made anew ${replans} times already, and no oftener: use add_step and mark_step.`);
  return said('What is open is planned anew; go on when the new steps are there.');
}
