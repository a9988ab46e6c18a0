import type { EventBody } from '../protocol/event.ts';
import type { Plan, Step } from '../protocol/plan.ts';
import type { PlanCall } from '../protocol/plan-call.ts';
import { clip } from '../protocol/recorded.ts';
import { parseStepDeclarations } from './declarations.ts';
import { POLICIES } from './modes/index.ts';
import { ringIn } from './planner/graph.ts';
import type { Session } from './session.ts';
import { openSteps } from './steps.ts';

export type Wanted = Exclude<NonNullable<PlanCall['steps']>[number], string>;

/** What came of a wish for new steps; each that was left out is told by a reason in one word and by its name. */
export type Added = { events: EventBody[]; told: string[]; skipped: string[] };

/**
 * New steps by the rules of declared ones: none twice, no more than the mode allows, none in a ring, none that needs what is not
 * there. A step that is wanted alone is taken whole or refused (`strict`). Of a list each is judged by itself, and one known need
 * is enough to keep it (as Manus Demo does); a refused step uses up no id.
 */
export function adding(session: Session, plan: Plan, wanted: readonly Wanted[], strict: boolean): Added {
  const ring = ringIn(plan.steps);
  const added: Added = { events: [], told: [], skipped: [] };
  if (ring) return { ...added, skipped: [`cycle: ${ring.join(' → ')} need each other; mend that with update first`] };
  const steps = [...plan.steps];
  for (const wish of wanted) {
    const id = `step_${session.stepNo + added.events.length + 1}`;
    const step = judged(plan, steps, id, wish, strict, added);
    if (!step) continue;
    steps.push(step);
    added.events.push({ type: 'step.added', by: 'model', step });
    added.told.push(`${id}: ${step.description}${step.needs ? ` (needs ${step.needs.join(', ')})` : ''}`);
  }
  return added;
}

function judged(plan: Plan, steps: Step[], id: string, wish: Wanted, strict: boolean, added: Added): Step | null {
  const skip = (why: string): null => {
    added.skipped.push(why);
    return null;
  };
  const named = `"${clip(wish.description.trim(), 60)}"`;
  const open = openSteps({ ...plan, steps });
  const known = open.map((step) => step.description);
  const [description] = parseStepDeclarations(`[Step] ${wish.description.replace(/\s+/g, ' ')}`, known, Infinity);
  if (wish.description.trim() === '') return skip('empty_description: a step wants words');
  if (description === undefined) return null;
  const { most } = POLICIES[plan.mode];
  if (open.length >= most)
    return skip(`too_many: ${named}; ${most} open steps are the most. Merge or close some first`);
  const needs = wish.needs ?? [];
  const lost = needs.filter((need) => !steps.some((step) => step.id === need));
  if (lost.length > 0 && (strict || lost.length === needs.length))
    return skip(
      `unknown_need: Unknown in "needs": ${lost.join(', ')}. Steps: ${steps.map((one) => one.id).join(', ') || 'none yet'}`,
    );
  if (lost.length > 0)
    added.told.push(`left out of the needs of ${id}, since there is no such step: ${lost.join(', ')}`);
  const kept = needs.filter((need) => !lost.includes(need));
  const step: Step = {
    id,
    description,
    status: 'pending',
    ...(kept.length > 0 && { needs: kept }),
    ...(wish.done_when && { done_when: wish.done_when }),
  };
  const ring = ringIn([...steps, step]);
  return ring ? skip(`cycle: with ${named} the steps ${ring.join(' → ')} would need each other in a ring`) : step;
}
