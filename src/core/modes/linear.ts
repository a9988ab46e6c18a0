import type { EventBody } from '../../protocol/session/event.ts';
import { MAX_OPEN_STEPS, parseStepDeclarations } from '../detect/step-tags.ts';
import { openSteps, readySteps } from '../plan/plan-steps.ts';
import type { Turn } from '../session/run-state.ts';
import type { Session } from '../session/session-state.ts';
import type { ModePolicy } from './mode-policy.ts';

/**
 * The linear mode: steps are declared during the work, and one step is worked on at a time, in order. It calls the
 * model only for the work itself.
 */
export const linear: ModePolicy = {
  startsWithWork: true,
  requiresToolUse: false,
  runsInParallel: false,
  maxAttempts: 1,
  maxOpenSteps: MAX_OPEN_STEPS,
  maxReplans: 0,

  declaredSteps: (session, turn) => declaredStepEvents(session, turn, MAX_OPEN_STEPS),

  /** The step to work on next: the one the model named, else the first that is ready. */
  chooseStep(session) {
    const free = readySteps(session.plan?.steps ?? []);
    return free.find((step) => step.id === session.announcedStep) ?? free[0];
  },

  isDelegated: () => false,
  nextAction: () => null,
};

/**
 * Events for steps the current answer declares that are not in the plan yet, as long as no more than `most` are open.
 */
export function declaredStepEvents(session: Session, turn: Turn, most: number): EventBody[] {
  const open = session.plan ? openSteps(session.plan).map((step) => step.description) : [];
  const known = [...new Set([...open, ...turn.declaredSteps])];
  const room = most - open.length;
  const fresh = room > 0 ? parseStepDeclarations(turn.text, known, known.length + room) : [];
  return fresh.map((description, n) => ({
    type: 'step.added',
    by: 'model',
    step: { id: `step_${session.lastStepNumber + n + 1}`, description, status: 'pending' },
  }));
}
