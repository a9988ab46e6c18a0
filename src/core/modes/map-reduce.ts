import type { Rules } from '../../protocol/config.ts';
import type { EventBody } from '../../protocol/event.ts';
import type { Plan, Step } from '../../protocol/plan.ts';
import { isLost, isWhole, namedParts, partsOf, wholeAtWork, wholeOf } from '../parts/family.ts';
import { parting } from '../parts/parting.ts';
import { executorOf } from '../planner/agents.ts';
import { planFirst } from '../planner/consulting.ts';
import { summing } from '../planner/summing.ts';
import { activePlan } from '../session.ts';
import { ready } from '../steps.ts';
import { linear } from './linear.ts';
import { MAP_REDUCE_PLAN } from './map-reduce-wording.ts';
import type { Counsel, Policy } from './policy.ts';

/** One try and three more, after 1, 2 and 3 seconds (JManus). */
const ATTEMPTS = 4;
/** Characters of outcomes put together at once, for each token of the window: a tenth of it in Latin scripts, less than half in others. */
const PER_TOKEN = 0.4;
/** JManus' own limit, where the window is small. */
const LEAST_BATCH = 2500;

/**
 * Prepare, map, reduce, finish: a step with `each` is done once for each part, each time by a child session, as many at once as
 * may be; a step with `gather` puts together what came out, in batches, again by children; the steps around them are worked on here,
 * one after the other (the phases of JManus' plans, as steps that people can read and change).
 */
export const mapReduce: Policy = {
  ...linear,
  emerges: false,
  needsWork: true,
  together: true,
  slides: true,
  attempts: ATTEMPTS,
  pauseS: 1,
  declare: () => [],
  choose(session) {
    const whole = wholeAtWork(session.plan);
    return ready(session.plan?.steps ?? []).find((step) => !whole || step.parent === whole.id);
  },
  delegates: ({ plan }, step, rules) =>
    !isWhole(step) && (wholeOf(plan, step) !== undefined || executorOf(step, rules).agent !== undefined),
  counsel(session, rules) {
    const plan = activePlan(session);
    if (!plan) return inPhases(planFirst(session, rules), rules);
    const ends = parting(session, plan) ?? summing(session, rules);
    return ends && 'rest' in ends ? { rest: { ...ends.rest, text: withWarnings(ends.rest.text ?? '', plan) } } : ends;
  },
  asks: { plan: MAP_REDUCE_PLAN },
};

/** A plan as it begins: every step waits for the one before it, so that a phase begins when the one before it has ended. */
function inPhases(counsel: Counsel | null, rules: Rules): Counsel | null {
  if (!counsel || !('record' in counsel)) return counsel;
  const batch_chars = Math.max(LEAST_BATCH, Math.floor(rules.contextWindow * PER_TOKEN));
  const record = counsel.record.map(
    (event): EventBody =>
      event.type === 'plan.started' ? { ...event, steps: phased(event.steps ?? [], batch_chars) } : event,
  );
  return { record };
}

function phased(steps: readonly Step[], batch_chars: number): Step[] {
  const split = new Set(steps.flatMap((step) => (step.each ? [step.id] : [])));
  let before: string | undefined;
  return steps.map(({ parent: _, ...step }) => {
    const needs = step.needs ?? (before === undefined ? [] : [before]);
    // What has nothing to put together is skipped, and must not take the steps after it along.
    if (!step.gather || split.has(step.gather.from)) before = step.id;
    return {
      ...step,
      ...(needs.length > 0 && { needs }),
      ...(step.gather && { gather: { ...step.gather, batch_chars: step.gather.batch_chars ?? batch_chars } }),
    };
  });
}

/** The reply names what is missing, whatever the summary says. */
function withWarnings(text: string, plan: Plan): string {
  const warnings = plan.steps.filter(isWhole).flatMap((whole) => {
    const parts = partsOf(plan, whole.id);
    const lost = parts.filter(isLost);
    if (lost.length > 0) return [`${whole.id}: ${lost.length}/${parts.length} ✗ ${namedParts(lost)}`];
    return parts.length === 0 && whole.error ? [`${whole.id}: ${whole.error}`] : [];
  });
  return [text, ...warnings].filter(Boolean).join('\n\n');
}
