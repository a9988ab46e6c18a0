import { errorText, UserError } from '../../base/user-error.ts';
import type { CallSource, UsageFile } from '../../protocol/workspace/usage-file.ts';
import { readEventLog } from '../../store/event-log/log-reader.ts';
import { readTextOrThrow } from '../../store/fs/file-reads.ts';
import { sessionPaths, type WorkspacePaths } from '../../store/layout/layout.ts';
import { countRemovedEvents } from '../../store/session/retention.ts';
import { checkConfig } from '../../store/settings/settings-check.ts';
import { allBudgets, type BudgetState, formatBudget, WARN_SHARE } from '../../store/usage/budget-state.ts';
import { localDay as dayOnDisk, listUsageDays, readUsageDay } from '../../store/usage/usage-files.ts';

/** Totals of model calls. */
export type UsageTotal = {
  calls: number;
  tokens: number;
  /** Of the calls whose cost is known. */
  cost: number;
  /** Calls whose cost is unknown: neither the endpoint nor the `prices` in the settings say it. */
  unpriced: number;
};

export type DayUsage = UsageTotal & { day: string };

export type SessionUsage = UsageTotal & {
  session: string;
  days: DayUsage[];
  /** Events that retention removed from the beginning of the event log: their calls are not counted. */
  removed_events: number;
  /** Why the event log cannot be read; then nothing of it is counted. */
  problem: string | null;
};

/**
 * The totals of one session's model calls, by day, from its event log; its child sessions have their own.
 * `dayOf`: the day of a time (ISO 8601, UTC) where the reader is, as 2026-01-31.
 */
async function readSessionUsage(
  { name, folder }: { name: string; folder: string },
  dayOf: (at: string) => string,
): Promise<SessionUsage> {
  const paths = sessionPaths(folder);
  const days = new Map<string, DayUsage>();
  let problem: string | null = null;
  let removed = 0;
  try {
    removed = countRemovedEvents(paths);
    await readEventLog(
      paths,
      (event) => {
        if ((event.type !== 'model.answered' && event.type !== 'message.interpreted') || !event.usage) return;
        const day = dayOf(event.at);
        const { tokens, cost } = event.usage;
        const call = { calls: 1, tokens, cost: cost ?? 0, unpriced: cost === null ? 1 : 0 };
        days.set(day, { day, ...sumUsage([days.get(day) ?? NO_USAGE, call]) });
      },
      'oldest',
    );
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    problem = errorText(error);
    days.clear();
  }
  const all = [...days.values()].sort((a, b) => (a.day < b.day ? -1 : 1));
  return { session: name, ...sumUsage(all), days: all, removed_events: removed, problem };
}

/** Of several sessions: each session, each day, and the total. */
export type UsageReport = { sessions: SessionUsage[]; days: DayUsage[]; total: UsageTotal };

/** The totals of these sessions' model calls, by day in this machine's time zone. */
export async function reportUsage(sessions: ReadonlyArray<{ name: string; folder: string }>): Promise<UsageReport> {
  const all: SessionUsage[] = [];
  for (const session of sessions) all.push(await readSessionUsage(session, localDay));
  const days = sumDays(all);
  return { sessions: all, days, total: sumUsage(days) };
}

const localDay = (at: string): string => dayOnDisk(new Date(at));

const NO_USAGE: UsageTotal = { calls: 0, tokens: 0, cost: 0, unpriced: 0 };

export function sumUsage(parts: readonly UsageTotal[]): UsageTotal {
  return parts.reduce(
    (sum, { calls, tokens, cost, unpriced }) => ({
      calls: sum.calls + calls,
      tokens: sum.tokens + tokens,
      cost: sum.cost + cost,
      unpriced: sum.unpriced + unpriced,
    }),
    NO_USAGE,
  );
}

/** The days of several sessions together, oldest first. */
function sumDays(sessions: readonly SessionUsage[]): DayUsage[] {
  const days = new Map<string, DayUsage>();
  for (const one of sessions.flatMap((session) => session.days))
    days.set(one.day, { day: one.day, ...sumUsage([days.get(one.day) ?? NO_USAGE, one]) });
  return [...days.values()].sort((a, b) => (a.day < b.day ? -1 : 1));
}

/** By what calls can be added up: a part of where they came from, or the month. */
export type UsageKey = 'month' | 'model' | 'sender' | 'schedule';

/** One row of a table of usage; `name` is null for calls without a sender or schedule. */
export type NamedTotal = UsageTotal & { name: string | null };

/** The budgets of a workspace, and calls added up as `usage/` has them: also those of sessions that are gone. */
export type BudgetReport = {
  budgets: BudgetState[];
  /** The budgets of which more than four fifths are spent, in words. */
  warnings: string[];
  by: Record<UsageKey, NamedTotal[]>;
};

/** What is spent of each budget at a time. `configFile`: what the daemon reads in place of `agentd.json`. */
export function reportBudgets({ usage, config }: WorkspacePaths, now: Date, configFile = config): BudgetReport {
  const days = listUsageDays(usage).flatMap((day) => readableDay(usage, day));
  const text = readTextOrThrow(configFile, 'settings as JSON', 'follow');
  const month = days.filter(({ day }) => day.startsWith(dayOnDisk(now).slice(0, 7)));
  const budgets = allBudgets(checkConfig(text, configFile).value.budgets, month, now);
  const by = (key: (source: CallSource, day: string) => string | undefined) => addUp(days, key);
  return {
    budgets,
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
