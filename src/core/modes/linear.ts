import type { EventBody } from '../../protocol/event.ts';
import { MAX_STEPS, parseStepDeclarations } from '../declarations.ts';
import type { Session, Turn } from '../session.ts';
import { openSteps, ready } from '../steps.ts';
import type { Policy } from './policy.ts';

/**
 * The linear mode: steps are declared as the work goes, and one step is worked on at a time, in order. It calls the model for
 * nothing but the work itself.
 */
export const linear: Policy = {
  emerges: true,
  needsWork: false,
  together: false,
  attempts: 1,
  most: MAX_STEPS,
  replans: 0,

  declare: (session, turn) => declared(session, turn, MAX_STEPS),

  /** The step to work on next: the one the model named, else the first that is ready. */
  choose(session) {
    const free = ready(session.plan?.steps ?? []);
    return free.find((step) => step.id === session.next) ?? free[0];
  },

  delegates: () => false,
  counsel: () => null,
};

/** Steps the answer at hand declares that the plan does not have yet, as long as no more than `most` are open. */
export function declared(session: Session, turn: Turn, most: number): EventBody[] {
  const open = session.plan ? openSteps(session.plan).map((step) => step.description) : [];
  const known = [...new Set([...open, ...turn.declared])];
  const room = most - open.length;
  const fresh = room > 0 ? parseStepDeclarations(turn.text, known, known.length + room) : [];
  return fresh.map((description, n) => ({
    type: 'step.added',
    by: 'model',
    step: { id: `step_${session.stepNo + n + 1}`, description, status: 'pending' },
  }));
}
