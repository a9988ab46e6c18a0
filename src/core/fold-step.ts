import type { EventOf } from '../protocol/event.ts';
import { own } from '../protocol/own.ts';
import type { Plan, Step } from '../protocol/plan.ts';
import { clip } from '../protocol/recorded.ts';
import { commandOf } from './commands.ts';
import { begunAnew } from './fold-child.ts';
import { groupAfter, isGroupEvent } from './fold-group.ts';
import { entryOf } from './keyed.ts';
import { isWhole } from './parts/family.ts';
import { counted, splitOf } from './parts/split.ts';
import { bare, revived } from './revived.ts';
import { type Rounds, roundEnded } from './rounds.ts';
import { type Notice, runningStep, type Session } from './session.ts';
import { isSpawned } from './spawn-step.ts';
import { without, withStep, withSteps } from './steps.ts';
import { isGroup } from './structure.ts';

type StepEvent = EventOf<
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

/** What is kept of the step at work beside the plan, as it is when another one begins. */
export const FRESH_STEP = { asked: null, patience: 0, trail: [], failing: {}, next: null } satisfies Partial<Session>;

export function foldStep(session: Session, event: StepEvent): Session {
  const { plan } = session;
  if (!plan) return session;
  if (isGroupEvent(event) && isGroup(plan.steps, event.step))
    return { ...session, plan: withStep(plan, event.step, (group) => groupAfter(group, event), event.at) };
  switch (event.type) {
    case 'step.added':
      return added(session, plan, event);
    case 'step.started':
      return {
        ...session,
        ...(!isSpawned(plan, event.step) && begun(session)),
        ...splitAt(session, plan, event),
        children: begunAnew(session.children, event.step),
        plan: withStep(plan, event.step, (step) => started(step, session, event.at), event.at),
      };
    case 'step.progressed':
      return {
        ...session,
        plan: withStep(plan, event.step, (step) => ({ ...step, progress: event.progress }), event.at),
        // Movement is a sign: the count towards the question begins anew.
        ...(session.run && {
          asked: null,
          patience: plan.steps.find((step) => step.id === event.step)?.iterations ?? 0,
        }),
      };
    case 'step.claimed':
      return event.veto === undefined ? claimed(session, event) : refused(session, plan, event, event.veto);
    case 'step.asked':
      return { ...session, asked: event.step, turn: session.turn && { ...session.turn, judged: true } };
    case 'step.completed':
      return closed(session, plan, event, (step) => completed(step, event));
    case 'step.failed':
      return closed(session, plan, event, (step) => ({
        ...step,
        status: 'failed',
        error: event.error,
        completed_at: event.at,
      }));
    case 'step.skipped':
      return closed(session, plan, event, (step) => ({
        ...step,
        status: 'skipped',
        error: event.reason,
        completed_at: event.at,
      }));
    case 'step.blocked':
      return blocked(session, plan, event);
    case 'step.reopened':
      return event.by === 'daemon' ? again(session, plan, event.step, event) : reopened(session, plan, event);
    default:
      return event satisfies never;
  }
}

/** A step begins in this conversation: what was kept of the one before is let go, and what the planner said has been taken up. */
function begun(session: Session): Partial<Session> {
  return {
    ...FRESH_STEP,
    run: session.run && { ...session.run, consult: null },
    rounds: { ...session.rounds, iterations: session.turn && !session.turn.advanced ? 1 : 0 },
  };
}

function splitAt(session: Session, plan: Plan, event: EventOf<'step.started'>): Partial<Session> {
  const step = plan.steps.find((one) => one.id === event.step);
  return step && isWhole(step) ? { split: splitOf(session, plan, step, event.seq) } : {};
}

/** A part stands behind the step it is a part of and those of its parts that are there; any other step at the end. */
function joined(steps: readonly Step[], step: Step): Step[] {
  const last = steps.findLastIndex(
    ({ id, parent }) => step.parent !== undefined && (id === step.parent || parent === step.parent),
  );
  return last < 0 ? [...steps, step] : [...steps.slice(0, last + 1), step, ...steps.slice(last + 1)];
}

function added(session: Session, plan: Plan, event: EventOf<'step.added'>): Session {
  const declared = session.turn && event.by === 'model' ? [...session.turn.declared, event.step.description] : [];
  return {
    ...session,
    plan: withSteps(plan, joined(plan.steps, event.step), event.at),
    stepNo: Math.max(session.stepNo, Number(/^step_(\d{1,9})$/.exec(event.step.id)?.[1] ?? 0)),
    turn: session.turn && { ...session.turn, declared },
    split: counted(session.split, event),
  };
}

/** A step that begins in the middle of an answer's turn owns that answer; one that follows a closed step begins with the next. */
function started(step: Step, session: Session, at: string): Step {
  const first = session.turn && !session.turn.advanced && step.call === undefined ? 1 : 0;
  return {
    // What an earlier try failed of is worth knowing while it is tried again.
    ...((step.attempts ?? 1) > 1 ? step : without(step, 'error')),
    status: 'running',
    iterations: (step.iterations ?? 0) + first,
    started_at: step.started_at ?? at,
  };
}

/** A claim of a step with checks stands until they have been tried. */
function claimed(session: Session, event: EventOf<'step.claimed'>): Session {
  const { step, tier, evidence, result = '', to, attachments = [] } = event;
  return { ...session, claim: { seq: event.seq, step, tier, evidence, result, to, attachments, checks: [] } };
}

/** A claim that was not believed: a failing tool or check is told to the model, "not done" restarts the count of the step. */
function refused(session: Session, plan: Plan, event: EventOf<'step.claimed'>, veto: string): Session {
  const iterations = plan.steps.find((step) => step.id === event.step)?.iterations ?? 0;
  const told = veto === 'tool_failed' || veto === 'check_failed' || veto === 'no_work';
  const notice: Notice = { seq: event.seq, about: 'refused', step: event.step, veto, evidence: event.evidence };
  return {
    ...session,
    claim: null,
    children: childRefused(session, event),
    asked: null,
    patience: told ? session.patience : iterations,
    notices: told ? [...session.notices, notice] : session.notices,
    turn: session.turn && {
      ...session.turn,
      judged: true,
      refused: told ? { step: event.step, evidence: event.evidence } : null,
    },
  };
}

/** What a child did and its step's checks refuse is as if the child had failed: it is tried again, or the step fails. */
function childRefused({ children }: Session, event: EventOf<'step.claimed'>): Session['children'] {
  const child = own(children, event.step);
  if (event.tier !== 'child' || !child?.reply) return children;
  return { ...children, [event.step]: { ...child, reply: { ...child.reply, status: 'failed', text: event.evidence } } };
}

function completed(step: Step, event: EventOf<'step.completed'>): Step {
  const { result, by, evidence, attachments } = event;
  return {
    ...without(step, 'error'),
    status: 'completed',
    result,
    completed_by: by,
    evidence,
    completed_at: event.at,
    ...(attachments && attachments.length > 0 && { attachments }),
  };
}

/** One answer closes one step. Where it was another than the one at work, that one goes on as it was. */
function closed(
  session: Session,
  plan: Plan,
  event: EventOf<'step.completed'> | EventOf<'step.failed'> | EventOf<'step.skipped'>,
  change: (step: Step) => Step,
): Session {
  const current = runningStep(plan);
  const spawned = isSpawned(plan, event.step);
  const own = !spawned && (current === undefined || current.id === event.step);
  return {
    ...session,
    ...(own && FRESH_STEP),
    rounds: roundsAfter(session.rounds, current?.id === event.step, event.type === 'step.completed'),
    next: event.type === 'step.completed' ? (event.to ?? null) : null,
    claim: null,
    plan: withStep(plan, event.step, change, event.at),
    // What was skipped because of another step comes back with that one.
    closed:
      event.type === 'step.skipped' && event.by === 'daemon'
        ? session.closed
        : [...session.closed.filter((id) => id !== event.step), event.step],
    run: session.run && { ...session.run, quiet: 0, repeat: { key: '', count: 0, call: '' } },
    turn: session.turn && !spawned ? { ...session.turn, advanced: true } : session.turn,
  };
}

function roundsAfter(rounds: Rounds, own: boolean, completed: boolean): Rounds {
  if (own) return roundEnded(rounds, completed);
  return completed ? { ...rounds, quiet: 0 } : rounds;
}

/** A person has to give what is missing; what the daemon gives up, or holds back because of another step, asks nobody. */
function blocked(session: Session, plan: Plan, event: EventOf<'step.blocked'>): Session {
  const asks = event.by !== 'daemon';
  return {
    ...session,
    claim: null,
    theirs: notTheirs(session, event.step),
    plan: withStep(
      plan,
      event.step,
      (step) => ({ ...without(step, 'completed_at'), status: 'blocked', error: event.error }),
      event.at,
    ),
    turn: session.turn && asks ? { ...session.turn, judged: true, blocked: true } : session.turn,
  };
}

/** What a person once set of the step's status is over. */
const notTheirs = ({ theirs }: Session, step: string): string[] => theirs.filter((one) => one !== `${step}:status`);

/** A failed step waits for its next try, and the model is told why. */
function again(session: Session, plan: Plan, id: string, { seq, at }: StepEvent): Session {
  const failed = plan.steps.find((step) => step.id === id);
  if (!failed) return session;
  const attempt = (failed.attempts ?? 1) + 1;
  return {
    ...session,
    plan: withStep(
      plan,
      id,
      (step) => ({ ...without(step, 'completed_at'), status: 'pending', attempts: attempt }),
      at,
    ),
    closed: session.closed.filter((one) => one !== id),
    notices: [...session.notices, { seq, about: 'again', step: id, attempt, error: failed.error ?? '' }],
  };
}

/** The step is open again with its counters as they were; whatever ran instead here goes back to pending. */
function reopened(session: Session, plan: Plan, event: EventOf<'step.reopened'>): Session {
  const here = runningStep(plan);
  // What a child session works on goes on there.
  const displaced = here && !own(session.children, here.id) ? here.id : undefined;
  const opened = plan.steps.map((step): Step => {
    if (step.id === event.step) return { ...bare(step), status: 'running' };
    return step.id === displaced ? waiting(step) : step;
  });
  const steps = revived(opened, new Set([event.step]));
  const over = plan.status === 'completed' || plan.status === 'failed' || plan.status === 'cancelled';
  const next = over ? { ...plan, status: 'paused' as const, reason: 'reopened' } : plan;
  return {
    ...session,
    ...FRESH_STEP,
    // It was thought to be done once already: the question comes after as many iterations again.
    patience: steps.find((step) => step.id === event.step)?.iterations ?? 0,
    claim: null,
    theirs: notTheirs(session, event.step),
    children: begunAnew(session.children, event.step),
    plan: withSteps(next, steps, event.at),
    closed: session.closed.filter((id) => id !== event.step),
    notices: [
      ...session.notices,
      { seq: event.seq, about: 'reopened', step: event.step, said: saidIn(session, event) },
    ],
    turn: session.turn && { ...session.turn, judged: true },
  };
}

/** The person's words: their message is answered, and its text let go, before the model is told. */
function saidIn({ messages }: Session, { message }: EventOf<'step.reopened'>): string {
  const known = message === undefined ? undefined : entryOf(messages, message);
  if (!known) return '';
  const order = commandOf(known);
  const said = order === null ? known.text : order.name === 'undo' ? order.rest : '';
  return clip(said.trim(), 500);
}

/** A step that had only been begun is as if it had not. */
function waiting(step: Step): Step {
  return { ...((step.iterations ?? 0) === 0 ? without(step, 'iterations', 'started_at') : step), status: 'pending' };
}
