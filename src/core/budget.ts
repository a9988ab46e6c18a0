import { EXTEND_FACTOR, type Rules } from '../protocol/config.ts';
import type { FullLimits } from '../protocol/limits.ts';
import type { Child, Session } from './session.ts';

export const isBusy = (child: Child | undefined): boolean => child?.state === 'working' || child?.state === 'halting';

/** Iterations the run may still spend; with `extend`, up to its ceiling. */
function left({ run }: Session, { onLimit }: Rules): number {
  const factor = onLimit === 'extend' ? EXTEND_FACTOR : 1;
  return run ? Math.max(0, run.limits.iterations * factor - run.spent.iterations) : 0;
}

/** What children at work may still spend of a budget. Budgets are the root's: nothing is given twice. */
function promised({ children }: Session, of: 'iterations' | 'tokens' | 'cost'): number {
  return Object.values(children).reduce((sum, child) => sum + (isBusy(child) ? (child.given?.[of] ?? 0) : 0), 0);
}

/** Iterations that are neither spent nor promised to a child. */
export const free = (session: Session, rules: Rules): number =>
  Math.max(0, left(session, rules) - promised(session, 'iterations'));

/** What one of so many children may spend of what is free. */
export function share(session: Session, rules: Rules, among: number): Partial<FullLimits> {
  const { run } = session;
  if (!run) return {};
  const { limits, spent } = run;
  const part = (of: 'tokens' | 'cost') =>
    limits[of] === null ? null : (limits[of] - (spent[of] ?? 0) - promised(session, of)) / Math.max(1, among);
  const [tokens, cost] = [part('tokens'), part('cost')];
  return {
    ...limits,
    iterations: Math.max(1, Math.floor(free(session, rules) / Math.max(1, among))),
    tokens: tokens === null ? null : Math.max(1, Math.floor(tokens)),
    cost: cost === null ? null : Math.max(0.000001, cost),
  };
}
