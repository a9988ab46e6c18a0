import { isFailedOrBlocked } from '../../src/core/plan/fan-out.ts';
import { reduceEvent } from '../../src/core/reducers/reduce-event.ts';
import { emptySession } from '../../src/core/session/session-state.ts';
import type { Event } from '../../src/protocol/session/event.ts';
import type { Step } from '../../src/protocol/session/plan.ts';
import type { PlanChange } from '../../src/protocol/session/plan-edit.ts';

const ENDS = ['completed', 'failed', 'skipped'];

/** Ended steps that were changed by an event that is not a reason for it, as text. */
export function changedEnds({ name, events }: { name: string; events: readonly Event[] }): string[] {
  const wrong: string[] = [];
  let session = emptySession(name);
  for (const event of events) {
    const before = session.plan;
    session = reduceEvent(session, event);
    const after = session.plan;
    if (!before || !after || before === after || before.id !== after.id) continue;
    for (const step of before.steps) {
      if (!ENDS.includes(step.status)) continue;
      const now = after.steps.find(({ id }) => id === step.id);
      if (what(step) !== (now && what(now)) && !hasClosed(event, step, before.steps))
        wrong.push(
          `${step.id}, which was ${step.status}, was changed by event ${event.seq}, ${event.type}: ${now && what(now)}`,
        );
    }
  }
  return wrong;
}

const what = ({ status, description, result }: Step): string => JSON.stringify({ status, description, result });

/**
 * Whether the event is a reason for this step to change. Reopening a step also reopens its groups, and the steps that
 * were skipped because of it.
 */
function hasClosed(event: Event, { id, status }: Step, steps: readonly Step[]): boolean {
  switch (event.type) {
    case 'plan.edited':
    case 'plan.revised':
      return event.changes.some(
        (change) =>
          isAbout(change, id) ||
          // A step that a person opens opens its groups; what they complete can open what was skipped because of it.
          (change.what === 'status' && (status !== 'completed' || lineOf(change.step, steps).includes(id))),
      );
    case 'step.reopened':
      return status !== 'completed' || lineOf(event.step, steps).includes(id);
    case 'step.added':
      return event.step.parent === id;
    // "Continue" retries failed and blocked steps, and their rollback steps.
    case 'run.resumed':
      return (
        status !== 'completed' ||
        steps.filter(isFailedOrBlocked).some((one) => one.rollback === id || lineOf(one.id, steps).includes(id))
      );
    case 'step.started':
    case 'step.completed':
    case 'step.failed':
    case 'step.blocked':
    case 'step.skipped':
      return event.step === id;
    default:
      return false;
  }
}

const isAbout = (change: PlanChange, id: string): boolean => 'step' in change && change.step === id;

/** A step and its groups, up to the outermost. A hand edit may have made a cycle of groups. */
function lineOf(id: string, steps: readonly Step[]): string[] {
  const line = [id];
  for (;;) {
    const parent = steps.find((step) => step.id === line.at(-1))?.parent;
    if (parent === undefined || line.includes(parent)) return line;
    line.push(parent);
  }
}
