import type { EventBody } from '../../protocol/event.ts';
import type { Plan, Step } from '../../protocol/plan.ts';
import { nobodyFor } from '../planner/agents.ts';
import { planFirst } from '../planner/consulting.ts';
import { wholeTask } from '../planner/fallback.ts';
import { summing } from '../planner/summing.ts';
import { standsStill } from '../rounds.ts';
import { activePlan, type Session } from '../session.ts';
import { AT_ONCE } from '../settling.ts';
import { standstill } from '../standstill.ts';
import { openSteps, ready } from '../steps.ts';
import { declared, linear } from './linear.ts';
import { planAct } from './plan-act.ts';
import type { Policy } from './policy.ts';
import { TODO_ASKS, TODO_TELLS } from './todo-words.ts';

/** Open items, and the share of them at which the model is asked to merge or close some (both as in Manus Demo). */
const MOST = 20;
const CROWDED = 0.8;

/**
 * A list that grows as the work goes: one to three first items, the first ready one is worked on, what is discovered is added
 * and what is not needed is closed. A failed item is tried again and then blocked, and so is what needs it; work that completes
 * nothing for long rests with a diagnosis; the answer at the end tells the failures too.
 */
export const todo: Policy = {
  ...linear,
  emerges: false,
  attempts: 3,
  most: MOST,
  crowded: MOST * CROWDED,
  begins: { tries: 2, first: 3, fallback: wholeTask },
  declare: (session, turn) => declared(session, turn, MOST),
  choose: (session) => ready(session.plan?.steps ?? [])[0],
  delegates: planAct.delegates,
  asks: TODO_ASKS,
  tells: TODO_TELLS,
  counsel(session, rules) {
    const first = planFirst(session, rules, todo.begins);
    const plan = activePlan(session);
    // A model that is stuck has asked the person: the run waits, with everything as it is.
    if (first || !plan || session.turn?.blocked) return first;
    const again = afterFailure(session, plan);
    const settled = again ? [again] : heldBack(plan);
    if (settled.length > 0) return { record: settled.slice(0, AT_ONCE) };
    if (openSteps(plan).length > 0 && standsStill(session.rounds)) return { rest: standstill(session, plan, rules) };
    return nobodyFor(session, rules, todo.choose(session)) ?? summing(session, rules);
  },
};

/** A failed item is tried again while it has tries left, then blocked. What a person calls failed stays so. */
function afterFailure({ theirs }: Session, plan: Plan): EventBody | null {
  const failed = plan.steps.find((step) => step.status === 'failed' && !theirs.includes(`${step.id}:status`));
  if (!failed) return null;
  if ((failed.attempts ?? 1) < triesOf(plan, failed)) return { type: 'step.reopened', step: failed.id, by: 'daemon' };
  return { type: 'step.blocked', step: failed.id, error: failed.error ?? '', by: 'daemon' };
}

/** The one item of a list that was never planned is tried once: a second try would find no better plan. */
const triesOf = (plan: Plan, { id }: Step): number =>
  plan.planned_by?.startsWith('fallback') && id === 'step_1' ? 1 : todo.attempts;

/** What needs an item that will never be completed is never begun, nor what needs that in turn. */
function heldBack({ steps }: Plan): EventBody[] {
  const lost = new Map(
    steps.flatMap(({ id, status }) => (status === 'blocked' || status === 'failed' ? [[id, status]] : [])),
  );
  return steps.flatMap(({ id, status, needs = [] }): EventBody[] => {
    const need = status === 'pending' ? needs.find((one) => lost.has(one)) : undefined;
    if (need === undefined) return [];
    const error = `needs ${need}, which is ${lost.get(need)}`;
    lost.set(id, 'blocked');
    return [{ type: 'step.blocked', step: id, error, by: 'daemon' }];
  });
}
