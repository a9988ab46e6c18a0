import { UserError } from '../../base/user-error.ts';
import type { PeriodBudgets } from '../../protocol/settings/budgets.ts';
import type { Language } from '../../protocol/settings/effective-settings.ts';
import type { CallSource, UsageFile } from '../../protocol/workspace/usage-file.ts';
import { readTextFile, readTextOrThrow } from '../../store/fs/file-reads.ts';
import { sessionPaths, type WorkspacePaths } from '../../store/layout/layout.ts';
import { checkConfig, checkSettings } from '../../store/settings/settings-check.ts';
import { allBudgets, type BudgetState, formatBudget, WARN_SHARE } from '../../store/usage/budget-state.ts';
import { listUsageDays, localDay, readUsageDay } from '../../store/usage/usage-files.ts';

/** Totals of model calls. */
export type UsageTotal = {
  calls: number;
  tokens: number;
  /** Of the tokens, those that endpoints reported as cached. */
  cached: number;
  /** The endpoint of a call reports no tokens, so they are estimated. */
  estimated?: true | undefined;
  /** Of the calls whose cost is known. */
  cost: number;
  /** Calls whose cost is unknown: neither the endpoint nor the `prices` in the settings say it. */
  unpriced: number;
};

export const NO_USAGE: UsageTotal = { calls: 0, tokens: 0, cached: 0, cost: 0, unpriced: 0 };

/** Several totals as one. */
export function sumUsage(parts: readonly UsageTotal[]): UsageTotal {
  return parts.reduce(
    (sum, { calls, tokens, cached, cost, unpriced, estimated }) => ({
      calls: sum.calls + calls,
      tokens: sum.tokens + tokens,
      ...((sum.estimated || estimated) && { estimated: true }),
      cached: sum.cached + cached,
      cost: sum.cost + cost,
      unpriced: sum.unpriced + unpriced,
    }),
    NO_USAGE,
  );
}

/** By what calls can be added up: a part of where they came from, or the month. */
export type UsageKey = 'month' | 'model' | 'sender' | 'schedule';

/** One row of a table of usage; `name` is null for calls without a sender or schedule. */
export type NamedTotal = UsageTotal & { name: string | null };

/** The budgets of a workspace, and calls added up as `usage/` has them: also those of sessions that are gone. */
export type BudgetReport = {
  budgets: BudgetState[];
  /** In which the settings want replies. */
  language: Language | undefined;
  /** The budgets of which more than four fifths are spent, in words. */
  warnings: string[];
  by: Record<UsageKey, NamedTotal[]>;
};

/** What is spent of each budget at a time. `configFile`: what the daemon reads in place of `agentd.json`. */
export function reportBudgets(paths: WorkspacePaths, now: Date, configFile = paths.config): BudgetReport {
  const { usage } = paths;
  const days = listUsageDays(usage).flatMap((day) => readableDay(usage, day));
  const text = readTextOrThrow(configFile, 'settings as JSON', 'follow');
  const month = days.filter(({ day }) => day.startsWith(localDay(now).slice(0, 7)));
  const { budgets: ofWorkspace, language } = checkConfig(text, configFile).value;
  const budgets = allBudgets(ofWorkspace, month, now, (session) => ownBudgets(paths.session(session)));
  const by = (key: (source: CallSource, day: string) => string | undefined) => addUp(days, key);
  return {
    ...{ budgets, language },
    warnings: budgets.filter(({ spent, limit }) => spent >= limit * WARN_SHARE).map(describeWarning),
    by: {
      month: by((_, day) => day.slice(0, 7)),
      model: by(({ model }) => model),
      sender: by(({ sender }) => sender),
      schedule: by(({ schedule }) => schedule),
    },
  };
}

const describeWarning = (state: BudgetState): string =>
  `${formatBudget(state)} is spent${state.spent >= state.limit ? '; runs wait' : ''} until ${state.until}`;

/** What is wrong with a file of settings is said elsewhere. */
function ownBudgets(folder: string): PeriodBudgets | undefined {
  const file = sessionPaths(folder).settings;
  try {
    return checkSettings(readTextFile(file), file).value.budgets;
  } catch (error) {
    if (error instanceof UserError) return undefined;
    throw error;
  }
}

/** The daemon says which files cannot be understood, and puts them aside. */
function readableDay(folder: string, day: string): UsageFile[] {
  const file = readUsageDay(folder, day);
  return file === undefined || file === 'damaged' ? [] : [file];
}

function addUp(days: readonly UsageFile[], key: (source: CallSource, day: string) => string | undefined): NamedTotal[] {
  const rows = new Map<string | null, NamedTotal>();
  for (const { day, entries } of days) {
    for (const entry of entries) {
      const name = key(entry, day) ?? null;
      rows.set(name, { name, ...sumUsage([rows.get(name) ?? NO_USAGE, entry]) });
    }
  }
  return [...rows.values()].sort((one, other) => other.cost - one.cost || other.tokens - one.tokens);
}
