import { EXTEND_FACTOR, type Rules } from '../protocol/config.ts';
import type { FullLimits } from '../protocol/limits.ts';
import { depthOf } from './child-name.ts';
import type { Child, Session } from './session.ts';

export const isBusy = (child: Child | undefined): boolean => child?.state === 'working' || child?.state === 'halting';

/** Whether a limit is extended instead of pausing the run. What a child may spend is its parent's to extend. */
export const extendsLimit = ({ name }: Session, { onLimit }: Rules): boolean =>
  onLimit === 'extend' && depthOf(name) === 0;

/** Iterations the run may still spend; with `extend`, up to its ceiling. */
function left(session: Session, rules: Rules): number {
  const { run } = session;
  const factor = extendsLimit(session, rules) ? EXTEND_FACTOR : 1;
  return run ? Math.max(0, run.limits.iterations * factor - run.spent.iterations) : 0;
}

/** What children at work may still spend of a budget. Budgets are the root's: nothing is given twice. */
function promised({ children }: Session, of: 'iterations' | 'tokens' | 'cost' | 'minutes'): number {
  return Object.values(children).reduce((sum, child) => sum + (isBusy(child) ? (child.given?.[of] ?? 0) : 0), 0);
}

/** Iterations that are neither spent nor promised to a child. */
export const free = (session: Session, rules: Rules): number =>
  Math.max(0, left(session, rules) - promised(session, 'iterations'));

/** What is neither spent nor promised of a budget that may have no limit; null: it has none. */
function unspent(session: Session, of: 'tokens' | 'cost' | 'minutes'): number | null {
  const { run } = session;
  const limit = run?.limits[of] ?? null;
  if (run === null || limit === null) return null;
  const spent = of === 'minutes' ? run.ms / MINUTE_MS : (run.spent[of] ?? 0);
  return limit - spent - promised(session, of);
}

const MINUTE_MS = 60_000;

/** Whether a child may be given anything now: no budget is all spent or promised. */
export const hasFree = (session: Session, rules: Rules): boolean =>
  free(session, rules) > 0 && (['tokens', 'cost', 'minutes'] as const).every((of) => (unspent(session, of) ?? 1) > 0);

/** What one of so many children may spend of what is free. */
export function share(session: Session, rules: Rules, among: number): Partial<FullLimits> {
  const { run } = session;
  if (!run) return {};
  const part = (of: 'tokens' | 'cost' | 'minutes') => {
    const rest = unspent(session, of);
    return rest === null ? null : rest / Math.max(1, among);
  };
  const [tokens, cost, minutes] = [part('tokens'), part('cost'), part('minutes')];
  return {
    ...run.limits,
    iterations: Math.max(1, Math.floor(free(session, rules) / Math.max(1, among))),
    tokens: tokens === null ? null : Math.max(1, Math.floor(tokens)),
    cost: cost === null ? null : Math.max(0.000001, cost),
    // No child is told to go on for less than a second again and again.
    minutes: minutes === null ? null : Math.max(1 / 60, minutes),
  };
}
