import type { Mode } from '../../protocol/settings/run-options.ts';
import { activePlan } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';
import { auto } from './auto.ts';
import { dag } from './dag.ts';
import { linear } from './linear.ts';
import { mapReduce } from './map-reduce.ts';
import type { ModePolicy } from './mode-policy.ts';
import { planAct } from './plan-act.ts';
import { todo } from './todo.ts';

export const MODE_POLICIES: Readonly<Record<Mode, ModePolicy>> = {
  linear,
  'plan-act': planAct,
  todo,
  dag,
  'map-reduce': mapReduce,
  auto,
};

/** The mode of the active plan, else of a run that has none yet. */
export function currentPolicy(session: Session): ModePolicy {
  return MODE_POLICIES[activePlan(session)?.mode ?? session.run?.mode ?? 'linear'];
}
