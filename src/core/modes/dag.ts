import type { Rules } from '../../protocol/config.ts';
import type { Plan, Step } from '../../protocol/plan.ts';
import type { Language } from '../language.ts';
import { adapting } from '../planner/adapting.ts';
import { PLANNED, planFirst } from '../planner/consulting.ts';
import { fallbackSteps } from '../planner/fallback.ts';
import { ringIn } from '../planner/graph.ts';
import { summing } from '../planner/summing.ts';
import { SAYINGS } from '../sayings.ts';
import { activePlan, type Session } from '../session.ts';
import { sessionLanguage } from '../session-language.ts';
import { settling } from '../settling.ts';
import { openSteps, ready } from '../steps.ts';
import { isGroup, nodesOf, structureOf, undoOf } from '../structure.ts';
import { DAG_ASKS } from './dag-words.ts';
import { linear } from './linear.ts';
import type { Beginning, Counsel, Policy } from './policy.ts';

/** How often the planner is asked between super-steps, in one plan: each super-step costs several calls, so this adds few. */
const ADAPTATIONS = 5;

const BEGINS: Beginning = { ...PLANNED, fallback: (language) => oneByOne(language) };

/**
 * The plan as a graph: all steps that are ready run together, a super-step, each in a child session; the next one begins when all
 * of them have ended. Conditions, steps that undo, groups and adaptation are as in Manus Demo, without its faults.
 */
export const dag: Policy = {
  ...linear,
  emerges: false,
  together: true,
  declare: () => [],
  choose: (session) => ready(session.plan?.steps ?? [])[0],
  delegates: () => true,
  counsel: (session, rules) =>
    planFirst(session, rules, BEGINS) ??
    settled(session) ??
    (isUndoing(session) ? null : adapting(session, rules, ADAPTATIONS)) ??
    stranded(session, rules) ??
    summing(session, rules),
  asks: DAG_ASKS,
  begins: BEGINS,
};

/** Three plain steps are a sequence; without needs they would run at once. */
function oneByOne(language: Language): Step[] {
  return fallbackSteps(language).map((step, n, all) => ({ ...step, ...(n > 0 && { needs: [all[n - 1]?.id ?? ''] }) }));
}

function settled(session: Session): Counsel | null {
  const plan = activePlan(session);
  const events = plan ? settling(plan, session.replaced) : [];
  return events.length > 0 ? { record: events } : null;
}

/** What failed is undone before anything is planned on top of it. */
function isUndoing(session: Session): boolean {
  const { steps } = activePlan(session) ?? { steps: [] };
  return ready(steps).some((step) => undoOf(step, structureOf(steps)) !== undefined);
}

/** Steps are open and none can begin, nor will one by itself: a person has to say what is to be done. */
function stranded(session: Session, rules: Rules): Counsel | null {
  const plan = activePlan(session);
  if (!plan || openSteps(plan).every((step) => isGroup(plan.steps, step.id)) || ready(plan.steps).length > 0)
    return null;
  if (plan.steps.some((step) => step.status === 'running' && !isGroup(plan.steps, step.id))) return null;
  const words = SAYINGS[sessionLanguage(session, rules)];
  const blocked = plan.steps.filter((step) => step.status === 'blocked');
  if (blocked.length > 0) {
    const text = blocked.map(({ description, error }) => `${description}${error ? `: ${error}` : ''}`).join('\n');
    return { rest: { status: 'waiting', reason: 'blocked', text } };
  }
  return { rest: { status: 'waiting', reason: 'stuck', text: words.stranded(knot(plan)) } };
}

/** The steps that wait for each other, else all that wait. */
const knot = (plan: Plan): string =>
  (ringIn(nodesOf(plan.steps)) ?? openSteps(plan).map((step) => step.id)).join(' → ');
