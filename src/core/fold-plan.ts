import type { EventOf } from '../protocol/event.ts';
import { PLAN_SCHEMA_PATH, type Plan, type Step } from '../protocol/plan.ts';
import { applyChange } from './edit/apply.ts';
import { changesInWords } from './edit/words.ts';
import { highestStepNo } from './fold-run.ts';
import type { Notice, Session } from './session.ts';
import { openSteps, touched, without, withStep, withSteps } from './steps.ts';

type PlanEvent = EventOf<
  | 'plan.started'
  | 'plan.edited'
  | 'plan.ended'
  | 'step.added'
  | 'step.started'
  | 'step.progressed'
  | 'step.claimed'
  | 'step.asked'
  | 'step.completed'
  | 'step.reopened'
>;

export function foldPlan(session: Session, event: PlanEvent): Session {
  if (event.type === 'plan.started')
    return {
      ...session,
      plan: newPlan(session, event),
      closed: [],
      stepNo: 0,
      asked: null,
      patience: 0,
      trail: [],
      handLimits: null,
      next: null,
    };
  const { plan } = session;
  if (!plan) return session;
  switch (event.type) {
    case 'plan.edited':
      return edited(session, plan, event);
    case 'plan.ended':
      return ended(session, plan, event);
    case 'step.added': {
      const declared = session.turn && event.by === 'model' ? [...session.turn.declared, event.step.description] : [];
      return {
        ...session,
        plan: withSteps(plan, [...plan.steps, event.step], event.at),
        stepNo: Math.max(session.stepNo, Number(/^step_(\d{1,9})$/.exec(event.step.id)?.[1] ?? 0)),
        turn: session.turn && { ...session.turn, declared },
      };
    }
    case 'step.started':
      return {
        ...session,
        plan: withStep(plan, event.step, (step) => started(step, session, event.at), event.at),
        asked: null,
        patience: 0,
        trail: [],
        next: null,
      };
    case 'step.progressed':
      return {
        ...session,
        plan: withStep(plan, event.step, (step) => ({ ...step, progress: event.progress }), event.at),
      };
    case 'step.claimed':
      return refused(session, plan, event);
    case 'step.asked':
      return { ...session, asked: event.step, turn: session.turn && { ...session.turn, judged: true } };
    case 'step.completed':
      return completed(session, plan, event);
    case 'step.reopened':
      return reopened(session, plan, event);
    default:
      return event satisfies never;
  }
}

function newPlan(session: Session, event: EventOf<'plan.started'>): Plan {
  return {
    $schema: PLAN_SCHEMA_PATH,
    version: 1,
    id: event.id,
    goal: event.goal,
    mode: event.mode,
    status: 'running',
    steps: [],
    current_step_index: 0,
    // The answer that made the plan is its first iteration.
    iteration_count: session.turn ? 1 : 0,
    limits: event.limits,
    revision: 1,
    created_at: event.at,
    updated_at: event.at,
  };
}

/** A step that begins in the middle of an answer's turn owns that answer; one that follows a closed step begins with the next. */
function started(step: Step, session: Session, at: string): Step {
  const first = session.turn && !session.turn.advanced ? 1 : 0;
  return { ...step, status: 'running', iterations: (step.iterations ?? 0) + first, started_at: step.started_at ?? at };
}

function refused(session: Session, plan: Plan, event: EventOf<'step.claimed'>): Session {
  const iterations = plan.steps.find((step) => step.id === event.step)?.iterations ?? 0;
  const notice: Notice = {
    seq: event.seq,
    about: 'refused',
    step: event.step,
    veto: event.veto,
    evidence: event.evidence,
  };
  return {
    ...session,
    asked: null,
    patience: event.veto === 'tool_failed' ? session.patience : iterations,
    notices: event.veto === 'tool_failed' ? [...session.notices, notice] : session.notices,
    turn: session.turn && { ...session.turn, judged: true },
  };
}

function completed(session: Session, plan: Plan, event: EventOf<'step.completed'>): Session {
  const done = (step: Step): Step => ({
    ...step,
    status: 'completed',
    result: event.result,
    completed_by: event.by,
    evidence: event.evidence,
    completed_at: event.at,
  });
  return {
    ...session,
    plan: withStep(plan, event.step, done, event.at),
    closed: [...session.closed, event.step],
    asked: null,
    patience: 0,
    trail: [],
    next: event.to ?? null,
    run: session.run && { ...session.run, quiet: 0, repeat: { key: '', count: 0, call: '' } },
    turn: session.turn && { ...session.turn, advanced: true },
  };
}

/** The step is open again with its counters as they were; whatever ran instead goes back to pending. */
function reopened(session: Session, plan: Plan, event: EventOf<'step.reopened'>): Session {
  const open = (step: Step): Step => ({
    ...without(step, 'result', 'completed_by', 'evidence', 'completed_at'),
    status: 'running',
  });
  const steps = plan.steps.map((step) =>
    step.id === event.step ? open(step) : step.status === 'running' ? { ...step, status: 'pending' as const } : step,
  );
  const over = plan.status === 'completed' || plan.status === 'failed' || plan.status === 'cancelled';
  const next = over ? { ...plan, status: 'paused' as const, reason: 'reopened' } : plan;
  return {
    ...session,
    plan: withSteps(next, steps, event.at),
    closed: session.closed.filter((id) => id !== event.step),
    asked: null,
    patience: 0,
    trail: [],
    next: null,
    notices: [...session.notices, { seq: event.seq, about: 'reopened', step: event.step, message: event.message }],
    turn: session.turn && { ...session.turn, judged: true },
  };
}

function edited(session: Session, plan: Plan, event: EventOf<'plan.edited'>): Session {
  const after = openAgain(
    event.changes.reduce((so, change) => applyChange(so, change, event.at), plan),
    event,
  );
  const closed = event.changes.flatMap((it) => (it.what === 'status' && it.to === 'completed' ? [it.step] : []));
  const open = new Set(event.changes.flatMap((it) => (it.what === 'status' && it.to !== 'completed' ? [it.step] : [])));
  const limits = event.changes.find((it) => it.what === 'limits');
  return {
    ...session,
    plan: event.changes.length > 0 ? touched(after, event.at) : plan,
    stepNo: Math.max(session.stepNo, highestStepNo(after)),
    closed: [...session.closed.filter((id) => !open.has(id) && !closed.includes(id)), ...closed],
    handLimits: limits?.to ?? session.handLimits,
    run: session.run && limits ? { ...session.run, limits: { ...session.run.limits, ...limits.to } } : session.run,
    notices: [
      ...session.notices,
      ...changesInWords(event.changes).map((text): Notice => ({ seq: event.seq, about: 'edit', text })),
    ],
    planProblem: event.ignored.length > 0 ? event.ignored.join('; ') : null,
  };
}

/** A plan that had ended and has an open step again by hand rests paused: it can be continued. */
function openAgain(plan: Plan, event: EventOf<'plan.edited'>): Plan {
  const over = plan.status === 'completed' || plan.status === 'failed' || plan.status === 'cancelled';
  const opened = event.changes.some((it) => (it.what === 'status' && it.to === 'pending') || it.what === 'added');
  return over && opened && openSteps(plan).length > 0 ? { ...plan, status: 'paused', reason: 'reopened' } : plan;
}

/** A plan that pauses here makes room for another one; any other end leaves it in place until that comes. */
function ended(session: Session, plan: Plan, event: EventOf<'plan.ended'>): Session {
  if (event.plan !== plan.id) return session;
  if (event.status === 'paused') {
    const run = session.run && { ...session.run, beside: undefined, aside: { id: plan.id, goal: plan.goal } };
    return { ...session, run, plan: null, setAside: { ...session.setAside, [plan.id]: plan }, closed: [], stepNo: 0 };
  }
  return { ...session, plan: touched({ ...plan, status: event.status, reason: event.reason }, event.at) };
}
