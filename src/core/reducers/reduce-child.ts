import { getOwn } from '../../base/collections.ts';
import type { EventOf } from '../../protocol/session/event.ts';
import { RUN_END } from '../../protocol/session/run-end.ts';
import { updateStep, withExitStatus } from '../plan/plan-steps.ts';
import { type ChildSession, childSessionName, haltSeverity } from '../session/child-session.ts';
import type { Session } from '../session/session-state.ts';

/** A step was given to a child session, the child was sent a message, or it replied. */
export function reduceChild(session: Session, event: EventOf<'child.sent'> | EventOf<'child.replied'>): Session {
  const known = getOwn(session.children, event.step);
  return event.type === 'child.sent' ? childSent(session, known, event) : childReplied(session, known, event);
}

function childSent(session: Session, known: ChildSession | undefined, event: EventOf<'child.sent'>): Session {
  const { step, attempt, message, command, folder = known?.folder } = event;
  // Not the logged name: the session's folder may have been renamed since.
  const generation = childGeneration(session, step);
  const child = childSessionName(session.name, step, generation);
  const halts = haltSeverity(command) >= 0;
  const entry: ChildSession = {
    name: child,
    step,
    generation,
    attempt,
    // A lost child session does not count as an attempt.
    earlierAttempts: (known?.earlierAttempts ?? 0) + (known && isChildLost(known) && attempt > known.attempt ? 1 : 0),
    budget: halts && known ? known.budget : (event.limits ?? null),
    repliedAt: event.at,
    // A stop is answered in addition to the task it stops: the reply that counts is still the task's.
    awaitedMessage: halts && known ? known.awaitedMessage : message,
    messagesSent: (known?.messagesSent ?? 0) + 1,
    state: halts ? 'halting' : 'working',
    reply: null,
    workingSince: halts && known?.workingSince !== undefined ? known.workingSince : event.at,
    ...(folder !== undefined && { folder }),
    ...(halts && command !== undefined && { haltCommand: command }),
    ...(known?.attempt === attempt && { wasToldMore: true as const }),
  };
  const { plan } = session;
  const children = { ...session.children, [step]: entry };
  const generations = {
    ...session.childGenerations,
    [step]: Math.max(generation, getOwn(session.childGenerations, step) ?? 0),
  };
  if (!plan) return { ...session, children, childGenerations: generations };
  const marked = { child, ...(attempt > 1 && { attempts: attempt }) };
  return {
    ...session,
    children,
    childGenerations: generations,
    plan: updateStep(plan, step, (one) => ({ ...one, ...marked }), event.at),
  };
}

/** The number of the plan, counted from 1, that gives a step of this id to a child session. */
export function childGeneration({ children, childGenerations }: Session, step: string): number {
  const known = getOwn(children, step);
  return known ? (known.generation ?? 1) : (getOwn(childGenerations, step) ?? 0) + 1;
}

/** The run pays for what a child spent. */
function childReplied(session: Session, known: ChildSession | undefined, event: EventOf<'child.replied'>): Session {
  if (!known || known.awaitedMessage !== event.message) return session;
  const { run } = session;
  const usage = event.reply.usage;
  const spent = run &&
    usage && {
      iterations: run.spent.iterations + usage.iterations,
      tokens: run.spent.tokens + usage.tokens,
      cost: run.spent.cost === null || usage.cost === null ? null : run.spent.cost + usage.cost,
    };
  const { exit, status } = event.reply;
  // A question that arrived while no run was active has not been put to anybody yet.
  const isFirstReport = known.state === 'working' && (run !== null || status === 'waiting');
  const { plan } = session;
  return {
    ...session,
    children: {
      ...session.children,
      [event.step]: {
        ...known,
        repliedAt: event.at,
        state: isFirstReport ? 'replied' : 'suspended',
        reply: event.reply,
      },
    },
    plan: plan && updateStep(plan, event.step, (step) => withExitStatus(step, exit), event.at),
    run: run && spent ? { ...run, spent, elapsedMs: run.elapsedMs + (usage.ms ?? 0) } : run,
  };
}

/** When a step restarts, its child's reply no longer counts, unless the child can continue where it was. */
export function restartChild(children: Session['children'], step: string): Session['children'] {
  const child = getOwn(children, step);
  if (!child?.reply || child.reply.status === 'paused' || child.reply.status === 'waiting') return children;
  return { ...children, [step]: { ...child, state: 'over', reply: null, earlierAttempts: child.attempt } };
}

const isChildLost = ({ wasToldMore, reply }: ChildSession): boolean =>
  wasToldMore === true && reply?.reason === RUN_END.stateLost;
