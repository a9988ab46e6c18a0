import type { EventOf } from '../protocol/event.ts';
import { childName } from './child-name.ts';
import type { Child, Session } from './session.ts';
import { withStep } from './steps.ts';

/** A step is given to a child session, the child is told something, or it has answered. */
export function foldChild(session: Session, event: EventOf<'child.sent'> | EventOf<'child.replied'>): Session {
  const known = session.children[event.step];
  return event.type === 'child.sent' ? sent(session, known, event) : replied(session, known, event);
}

function sent(session: Session, known: Child | undefined, event: EventOf<'child.sent'>): Session {
  const { step, attempt, message, command } = event;
  // Not the recorded name: the family's folders may have been renamed since.
  const child = childName(session.name, step);
  const halts = command !== undefined && HALTS.has(command);
  const entry: Child = {
    child,
    step,
    attempt,
    // A stop is answered beside the task it stops: the reply that counts is still the task's.
    awaiting: halts && known ? known.awaiting : message,
    sent: (known?.sent ?? 0) + 1,
    state: halts ? 'halting' : 'working',
    reply: null,
  };
  const { plan } = session;
  const children = { ...session.children, [step]: entry };
  if (!plan) return { ...session, children };
  const marked = { child, ...(attempt > 1 && { attempts: attempt }) };
  return { ...session, children, plan: withStep(plan, step, (one) => ({ ...one, ...marked }), event.at) };
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
  return {
    ...session,
    children: {
      ...session.children,
      [event.step]: { ...known, state: run && known.state === 'working' ? 'replied' : 'held', reply: event.reply },
    },
    run: run && spent ? { ...run, spent } : run,
  };
}

export const HALTS: ReadonlySet<string> = new Set(['stop', 'pause', 'cancel']);
