import { errorText, UserError } from '../../base/user-error.ts';
import { measureCheckpoints } from '../../store/checkpoints/prune.ts';
import { readEventLog } from '../../store/event-log/log-reader.ts';
import { sessionPaths } from '../../store/layout/layout.ts';
import { countRemovedEvents } from '../../store/session/retention.ts';
import { localDay as dayOnDisk } from '../../store/usage/usage-files.ts';
import { NO_USAGE, sumUsage, type UsageTotal } from './budget-report.ts';

export type DayUsage = UsageTotal & { day: string };

export type SessionUsage = UsageTotal & {
  session: string;
  days: DayUsage[];
  /** Events that retention removed from the beginning of the event log: their calls are not counted. */
  removed_events: number;
  /** How many checkpoints of `work/` are kept, and the bytes they take. */
  checkpoints: { count: number; bytes: number };
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
        const { tokens, cost, cached = 0, estimated } = event.usage;
        const call = { calls: 1, tokens, estimated, cached, cost: cost ?? 0, unpriced: cost === null ? 1 : 0 };
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
  return {
    session: name,
    ...sumUsage(all),
    days: all,
    removed_events: removed,
    checkpoints: measureCheckpoints(paths),
    problem,
  };
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

/** The days of several sessions together, oldest first. */
function sumDays(sessions: readonly SessionUsage[]): DayUsage[] {
  const days = new Map<string, DayUsage>();
  for (const one of sessions.flatMap((session) => session.days))
    days.set(one.day, { day: one.day, ...sumUsage([days.get(one.day) ?? NO_USAGE, one]) });
  return [...days.values()].sort((a, b) => (a.day < b.day ? -1 : 1));
}
