import type { EventOf } from '../protocol/event.ts';
import { own } from '../protocol/own.ts';
import { LOST } from '../protocol/reply.ts';
import { childName } from './child-name.ts';
import type { Child, Session } from './session.ts';
import { withExit, withStep } from './steps.ts';

/** A step is given to a child session, the child is told something, or it has answered. */
export function foldChild(session: Session, event: EventOf<'child.sent'> | EventOf<'child.replied'>): Session {
  const known = own(session.children, event.step);
  return event.type === 'child.sent' ? sent(session, known, event) : replied(session, known, event);
}

function sent(session: Session, known: Child | undefined, event: EventOf<'child.sent'>): Session {
  const { step, attempt, message, command, folder = known?.folder } = event;
  // Not the recorded name: the family's folders may have been renamed since.
  const generation = generationOf(session, step);
  const child = childName(session.name, step, generation);
  const halts = haltRank(command) >= 0;
  const entry: Child = {
    child,
    step,
    generation,
    attempt,
    // What the session had lost was no try of its own.
    before: (known?.before ?? 0) + (known && isLost(known) && attempt > known.attempt ? 1 : 0),
    given: halts && known ? known.given : (event.limits ?? null),
    at: event.at,
    // A stop is answered beside the task it stops: the reply that counts is still the task's.
    awaiting: halts && known ? known.awaiting : message,
    sent: (known?.sent ?? 0) + 1,
    state: halts ? 'halting' : 'working',
    reply: null,
    since: halts && known?.since !== undefined ? known.since : event.at,
    ...(folder !== undefined && { folder }),
    ...(halts && command !== undefined && { halted: command }),
    ...(known?.attempt === attempt && { told: true as const }),
  };
  const { plan } = session;
  const children = { ...session.children, [step]: entry };
  const generations = { ...session.generations, [step]: Math.max(generation, own(session.generations, step) ?? 0) };
  if (!plan) return { ...session, children, generations };
  const marked = { child, ...(attempt > 1 && { attempts: attempt }) };
  return { ...session, children, generations, plan: withStep(plan, step, (one) => ({ ...one, ...marked }), event.at) };
}

/** The how-manieth plan this is that gives a step of that name to a child session. */
export function generationOf({ children, generations }: Session, step: string): number {
  const known = own(children, step);
  return known ? (known.generation ?? 1) : (own(generations, step) ?? 0) + 1;
}

/** What a child spent is spent by the run. */
function replied(session: Session, known: Child | undefined, event: EventOf<'child.replied'>): Session {
  if (!known || known.awaiting !== event.message) return session;
  const { run } = session;
  const usage = event.reply.usage;
  const spent = run &&
    usage && {
      iterations: run.spent.iterations + usage.iterations,
      tokens: run.spent.tokens + usage.tokens,
      cost: run.spent.cost === null || usage.cost === null ? null : run.spent.cost + usage.cost,
    };
  const { exit, status } = event.reply;
  // A question that came while the run was at rest has not been put to anybody yet.
  const heard = known.state === 'working' && (run !== null || status === 'waiting');
  const { plan } = session;
  return {
    ...session,
    children: {
      ...session.children,
      [event.step]: { ...known, at: event.at, state: heard ? 'replied' : 'held', reply: event.reply },
    },
    plan: plan && withStep(plan, event.step, (step) => withExit(step, exit), event.at),
    run: run && spent ? { ...run, spent, ms: run.ms + (usage.ms ?? 0) } : run,
  };
}

/** What a child answered to a step that begins again counts no longer, unless that can go on where it is. */
export function begunAnew(children: Session['children'], step: string): Session['children'] {
  const child = own(children, step);
  if (!child?.reply || child.reply.status === 'paused' || child.reply.status === 'waiting') return children;
  return { ...children, [step]: { ...child, state: 'over', reply: null, before: child.attempt } };
}

const isLost = ({ told, reply }: Child): boolean => told === true && reply?.reason === LOST;

/** Words that halt a child, from the mildest on. */
const HALTS: readonly string[] = ['pause', 'stop', 'cancel'];

/** How much a child was told to halt; -1: not at all. */
export const haltRank = (command: string | undefined): number => HALTS.indexOf(command ?? '');
