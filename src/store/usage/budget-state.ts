import type { BudgetKind, BudgetPeriod, Budgets, PeriodBudgets } from '../../protocol/settings/budgets.ts';
import type { CallSource, UsageFile } from '../../protocol/workspace/usage-file.ts';
import { localDay, type Spent, sumEntries, sumOpen } from './usage-files.ts';

/** From this share on a budget is reported as nearly used up. */
export const WARN_SHARE = 0.8;

/** One limit of a budget, and what is spent of it. `setting`: such as `budgets.day.cost`. Times are ISO 8601, UTC. */
export type BudgetState = {
  setting: string;
  /** Of a budget per session or per sender: of whom. */
  of: string | null;
  period: BudgetPeriod;
  kind: BudgetKind;
  limit: number;
  spent: number;
  /** What calls in flight may still cost; infinite if that is not known. */
  reserved: number;
  /** Calls whose cost is unknown, for a limit on cost: it has spent more than `spent`. */
  unpriced: number;
  /** When the period ends. */
  until: string;
};

/** The days so far of a month, each once. */
export type MonthUsage = readonly UsageFile[];

type Scope = {
  prefix: string;
  of: string | null;
  budgets: PeriodBudgets | undefined;
  fits: (source: CallSource) => boolean;
};

/**
 * The budgets that a call of this source counts towards, and what is spent of each. `own`: those in the `session.json`
 * of its session.
 */
export function budgetsOfCall(
  { session, sender }: CallSource,
  budgets: Budgets | undefined,
  own: PeriodBudgets | undefined,
  month: MonthUsage,
  now: Date,
): BudgetState[] {
  return statesOf(
    [
      { prefix: 'budgets', of: null, budgets, fits: () => true },
      ...sessionScopes(session, budgets, own),
      ...(sender === undefined ? [] : [senderScope(sender, budgets)]),
    ],
    month,
    now,
  );
}

function sessionScopes(session: string, budgets: Budgets | undefined, own: PeriodBudgets | undefined): Scope[] {
  const fits = (one: CallSource) => one.session === session;
  return [
    { prefix: 'budgets.per_session', of: session, budgets: budgets?.per_session, fits },
    { prefix: 'session.json: budgets', of: session, budgets: own, fits },
  ];
}

const senderScope = (sender: string, budgets: Budgets | undefined): Scope => ({
  ...{ prefix: 'budgets.per_sender', of: sender, budgets: budgets?.per_sender },
  fits: (one) => one.sender === sender,
});

/**
 * Every budget of the workspace and what is spent of it: for each session and each sender that spent anything. `own`:
 * those in the `session.json` of a session.
 */
export function allBudgets(
  budgets: Budgets | undefined,
  month: MonthUsage,
  now: Date,
  own: (session: string) => PeriodBudgets | undefined = () => undefined,
): BudgetState[] {
  const entries = month.flatMap((file) => file.entries);
  const sessions = [...new Set(entries.map(({ session }) => session))].sort();
  const senders = [...new Set(entries.flatMap(({ sender }) => sender ?? []))].sort();
  return statesOf(
    [
      { prefix: 'budgets', of: null, budgets, fits: () => true },
      ...sessions.flatMap((session) => sessionScopes(session, budgets, own(session))),
      ...senders.map((sender) => senderScope(sender, budgets)),
    ],
    month,
    now,
  );
}

const PERIODS: readonly BudgetPeriod[] = ['day', 'month'];
const KINDS: readonly BudgetKind[] = ['tokens', 'cost', 'minutes'];

function statesOf(scopes: readonly Scope[], month: MonthUsage, now: Date): BudgetState[] {
  const day = localDay(now);
  return scopes.flatMap(({ prefix, of, budgets, fits }) =>
    PERIODS.flatMap((period) => {
      const amounts = budgets?.[period];
      if (!amounts) return [];
      const files = month.filter((file) =>
        period === 'day' ? file.day === day : file.day.startsWith(day.slice(0, 7)),
      );
      const spent = sumEntries(files, fits);
      const open = sumOpen(files, fits);
      return KINDS.flatMap((kind): BudgetState[] => {
        const limit = amounts[kind];
        if (limit === undefined) return [];
        const reserved = kind === 'minutes' ? 0 : open[kind];
        const unpriced = kind === 'cost' ? spent.unpriced : 0;
        const until = periodEnd(now, period).toISOString();
        const about = { setting: `${prefix}.${period}.${kind}`, of, period, kind, limit };
        return [{ ...about, spent: amountOf(spent, kind), reserved, unpriced, until }];
      });
    }),
  );
}

const amountOf = (spent: Spent, kind: BudgetKind): number => (kind === 'minutes' ? spent.ms / 60_000 : spent[kind]);

/** The next midnight, or that at which the next month begins, on this machine. */
export function periodEnd(now: Date, period: BudgetPeriod): Date {
  return period === 'day'
    ? new Date(now.getFullYear(), now.getMonth(), now.getDate() + 1)
    : new Date(now.getFullYear(), now.getMonth() + 1, 1);
}

/** Whether a call may start: now, once another one has ended, or in a later period. */
export type BudgetVerdict = { is: 'room' } | { is: 'busy' } | { is: 'used up'; state: BudgetState };

/**
 * A call may start if something is left of each budget when the calls in flight have cost the most they can. So at most
 * the last call goes over a limit. Of several that are used up, the one that lasts longest counts.
 */
export function judgeBudgets(states: readonly BudgetState[]): BudgetVerdict {
  const [longest] = states
    .filter(({ spent, limit }) => spent >= limit)
    .sort((one, other) => (one.until < other.until ? 1 : -1));
  if (longest) return { is: 'used up', state: longest };
  return states.some(({ spent, reserved, limit }) => spent + reserved >= limit) ? { is: 'busy' } : { is: 'room' };
}

/** How much of a budget is spent, as people read it: `4.02 of 5`. */
export function formatBudget({ kind, spent, limit, unpriced, of, setting }: BudgetState): string {
  const shown = kind === 'cost' ? spent.toFixed(2) : Math.round(spent).toLocaleString('en');
  const more = unpriced > 0 ? `, and ${unpriced} calls of unknown cost` : '';
  return `${setting}${of === null ? '' : ` of ${of}`}: ${shown} of ${limit.toLocaleString('en')}${more}`;
}
