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

/** What children at work may still spend of a budget. Budgets are the root's: nothing is given twice. */
function promisedToChildren({ children }: Session, of: 'iterations' | 'tokens' | 'cost' | 'minutes'): number {
  return Object.values(children).reduce((sum, child) => sum + (isChildBusy(child) ? (child.budget?.[of] ?? 0) : 0), 0);
}

/** Iterations that are neither spent nor promised to a child. */
export const freeIterations = (session: Session, rules: Rules): number =>
  Math.max(0, iterationsLeft(session, rules) - promisedToChildren(session, 'iterations'));

/** What is neither spent nor promised of a budget that may have no limit; null: it has none. */
function unspentBudget(session: Session, of: 'tokens' | 'cost' | 'minutes'): number | null {
  const { run } = session;
  const limit = run?.limits[of] ?? null;
  if (run === null || limit === null) return null;
  const spent = of === 'minutes' ? run.elapsedMs / MINUTE_MS : (run.spent[of] ?? 0);
  return limit - spent - promisedToChildren(session, of);
}

const MINUTE_MS = 60_000;

/** Whether a child may be given anything now: no budget is all spent or promised. */
export const hasFreeBudget = (session: Session, rules: Rules): boolean =>
  freeIterations(session, rules) > 0 &&
  (['tokens', 'cost', 'minutes'] as const).every((of) => (unspentBudget(session, of) ?? 1) > 0);

/** What one of so many children may spend of what is free. */
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
    // No child is told to go on for less than a second again and again.
    minutes: minutes === null ? null : Math.max(1 / 60, minutes),
  };
}
