import type { Mode } from '../../protocol/message.ts';
import { activePlan, type Session } from '../session.ts';
import { auto } from './auto.ts';
import { dag } from './dag.ts';
import { linear } from './linear.ts';
import { mapReduce } from './map-reduce.ts';
import { planAct } from './plan-act.ts';
import type { Policy } from './policy.ts';
import { todo } from './todo.ts';

export const POLICIES: Readonly<Record<Mode, Policy>> = {
  linear,
  'plan-act': planAct,
  todo,
  dag,
  'map-reduce': mapReduce,
  auto,
};

/** The mode of the plan at work, else of the run that has none yet. */
export function policyOf(session: Session): Policy {
  return POLICIES[activePlan(session)?.mode ?? session.run?.mode ?? 'linear'];
}
