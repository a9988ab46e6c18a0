import { EXTEND_FACTOR, type Rules } from '../../protocol/settings/effective-settings.ts';
import type { ResolvedLimits } from '../../protocol/settings/run-options.ts';
import { extendsLimit } from '../runs/end-run.ts';
import { isChildBusy } from '../session/child-session.ts';
import type { Session } from '../session/session-state.ts';

/** Iterations the run may still spend; with `extend`, up to its ceiling. */
function iterationsLeft(session: Session, rules: Rules): number {
  const { run } = session;
  const factor = extendsLimit(session, rules) ? EXTEND_FACTOR : 1;
  return run ? Math.max(0, run.limits.iterations * factor - run.spent.iterations) : 0;
}

/** What working children may still spend of a budget. Budgets belong to the root: nothing is given out twice. */
function promisedToChildren({ children }: Session, of: 'iterations' | 'tokens' | 'cost' | 'minutes'): number {
  return Object.values(children).reduce((sum, child) => sum + (isChildBusy(child) ? (child.budget?.[of] ?? 0) : 0), 0);
}

/** Iterations that are neither spent nor promised to a child. */
export const freeIterations = (session: Session, rules: Rules): number =>
  Math.max(0, iterationsLeft(session, rules) - promisedToChildren(session, 'iterations'));

/** The part of a budget that is neither spent nor promised; null if it has no limit. */
function unspentBudget(session: Session, of: 'tokens' | 'cost' | 'minutes'): number | null {
  const { run } = session;
  const limit = run?.limits[of] ?? null;
  if (run === null || limit === null) return null;
  const spent = of === 'minutes' ? run.elapsedMs / MINUTE_MS : (run.spent[of] ?? 0);
  return limit - spent - promisedToChildren(session, of);
}

const MINUTE_MS = 60_000;

/** Whether a child can be given a budget now: none is fully spent or promised. */
export const hasFreeBudget = (session: Session, rules: Rules): boolean =>
  freeIterations(session, rules) > 0 &&
  (['tokens', 'cost', 'minutes'] as const).every((of) => (unspentBudget(session, of) ?? 1) > 0);

/** The share of each of so many children in the free budget. */
export function shareBudget(session: Session, rules: Rules, among: number): Partial<ResolvedLimits> {
  const { run } = session;
  if (!run) return {};
  const part = (of: 'tokens' | 'cost' | 'minutes') => {
    const rest = unspentBudget(session, of);
    return rest === null ? null : rest / Math.max(1, among);
  };
  const [tokens, cost, minutes] = [part('tokens'), part('cost'), part('minutes')];
  return {
    ...run.limits,
    iterations: Math.max(1, Math.floor(freeIterations(session, rules) / Math.max(1, among))),
    tokens: tokens === null ? null : Math.max(1, Math.floor(tokens)),
    cost: cost === null ? null : Math.max(0.000001, cost),
    // Avoids children that are resumed again and again for less than a second.
    minutes: minutes === null ? null : Math.max(1 / 60, minutes),
  };
}
