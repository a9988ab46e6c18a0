import type { Rules } from '../protocol/config.ts';
import type { EventBody } from '../protocol/event.ts';
import type { Plan, Step } from '../protocol/plan.ts';
import { free } from './budget.ts';
import { childless } from './child-name.ts';
import { POLICIES } from './modes/index.ts';
import { isWhole } from './parts/family.ts';
import { limitReached } from './rest.ts';
import type { Session } from './session.ts';
import { starting } from './settling.ts';
import { ready } from './steps.ts';
import { isGroup, structureOf, undoOf } from './structure.ts';

/** Worked on by somebody: no group, and no step that has parts. */
export const isAtWork = (plan: Plan, step: Step): boolean =>
  step.status === 'running' && !isWhole(step) && !isGroup(plan.steps, step.id);

/**
 * Steps that child sessions begin with now, as many as may run at once. `given` are with children already: in a mode that slides
 * the others join them as they end; in any other they have begun together and nobody works on them yet.
 */
export function beginning(session: Session, rules: Rules, plan: Plan, given: readonly Step[]): EventBody[] {
  const { choose, delegates, together, slides } = POLICIES[plan.mode];
  const first = choose(session);
  const atWork = plan.steps.filter((step) => isAtWork(plan, step));
  const joins = together && [...given, ...(first ? [first] : [])].every((step) => !isUndo(plan, step));
  if (!first || atWork.length > given.length || (given.length > 0 && !joins)) return [];
  if (!delegates(session, first, rules)) return [];
  // What is spent is spent: nothing begins that would be cut short at once.
  if (limitReached(session, rules)) return [];
  const why = childless(session.name);
  if (why !== undefined)
    return [
      { type: 'step.started', step: first.id },
      { type: 'step.failed', step: first.id, by: 'daemon', error: why },
    ];
  const events = chosenOf(session, rules, plan, { first, given, slides }).flatMap((step) => starting(plan, step));
  // Two parts of one group begin it once.
  return events.filter((event, n) => events.findIndex((one) => sameStart(one, event)) === n);
}

type Choice = { first: Step; given: readonly Step[]; slides: boolean | undefined };

function chosenOf(session: Session, rules: Rules, plan: Plan, { first, given, slides }: Choice): Step[] {
  const { delegates, together } = POLICIES[plan.mode];
  if (!together) return [first];
  const width = (session.run?.limits.steps ?? 1) - given.length;
  const room = slides ? Math.min(width, free(session, rules)) : width;
  return ready(plan.steps)
    .filter((step) => delegates(session, step, rules))
    .slice(0, Math.max(0, room));
}

const isUndo = (plan: Plan, step: Step): boolean => undoOf(step, structureOf(plan.steps)) !== undefined;

const sameStart = (a: EventBody, b: EventBody): boolean =>
  a.type === 'step.started' && b.type === 'step.started' && a.step === b.step;
