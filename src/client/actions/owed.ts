import * as fs from 'node:fs';
import { getOwn } from '../../base/collections.ts';
import { UserError } from '../../base/user-error.ts';
import type { SessionWait } from '../../core/session/waiting-for.ts';
import { RUN_END } from '../../protocol/session/reply.ts';
import type { Language } from '../../protocol/settings/effective-settings.ts';
import { OwedFile, type OwedItem } from '../../protocol/workspace/owed-file.ts';
import { readableName } from '../../protocol/workspace/session-names.ts';
import { readJsonFile, statIfExists } from '../../store/fs/file-reads.ts';
import type { SessionPaths, WorkspacePaths } from '../../store/layout/layout.ts';
import { readRunningOwner } from '../../store/workspace/owner-file.ts';
import { readOverview, readServing, type Serving, type SessionOverview } from '../inspect/session-overview.ts';
import { readChannelConditions } from '../sessions/channel-files.ts';
import { commandLine } from '../sessions/client-errors.ts';
import { openSessionFolders, readSession, type SessionFolders } from '../sessions/session-folders.ts';

/** A message that waits for longer is not taken, in ms. */
const TAKEN_WITHIN_MS = 60_000;

export type OwedReader = {
  /**
   * Everything that is owed at a time, what is broken first. What did not change since the last time is not read, nor
   * is a session whose overview is given.
   */
  read(now: Date, given?: ReadonlyMap<string, SessionOverview>): Promise<OwedItem[]>;
};

type Item = Omit<OwedItem, 'help' | 'since' | 'until'> & {
  since?: string | null;
  until?: string | null;
  help?: readonly string[];
};

/** Opens the one answer to what is owed in a workspace and not happening. `configFile`: in place of `agentd.json`. */
export function openOwedReader(root: string, paths: WorkspacePaths, configFile?: string): OwedReader {
  const folders = openSessionFolders(paths);
  const seen = new Map<string, { key: string; items: Item[] }>();

  async function ofSession(
    name: string,
    now: Date,
    { given, serving }: { given: SessionOverview | undefined; serving: Serving },
  ): Promise<Item[]> {
    const session = folders.get(name);
    const key = keyOf(session);
    const known = seen.get(name);
    if (known?.key === key) return known.items;
    const overview = given ?? (await readOverview(session, serving));
    const items = [...itemsOf(overview, session, now), ...(await lostChildren(overview, folders))];
    // A message becomes overdue without any change.
    if (overview.inbox === 0) seen.set(name, { key, items });
    return items;
  }

  return {
    async read(now, given) {
      const items: Item[] = [];
      const serving = await readServing(paths);
      const names = folders.names();
      for (const name of names) items.push(...(await ofSession(name, now, { given: given?.get(name), serving })));
      for (const name of seen.keys()) if (!folders.has(name)) seen.delete(name);
      const hasWork = items.some(({ kind }) => kind === 'wait' || kind === 'message');
      const daemon: Item = {
        kind: 'daemon',
        needs: 'repair',
        session: null,
        why: 'no daemon is running',
        help: ['start'],
      };
      const all = [
        ...(serving.isServed || !(hasWork || fs.existsSync(paths.schedules)) ? [] : [daemon]),
        ...items,
        ...(await ofSchedules(paths, now)),
        ...(await ofBudgets(paths, now, configFile)),
        ...ofChannels(paths, now),
        ...(await ofNotices(paths, now)),
      ];
      return all.map((item) => finish(item, root)).sort((one, other) => RANK[one.needs] - RANK[other.needs]);
    },
  };
}

const RANK = { repair: 0, person: 1, time: 2 } as const;

const finish = ({ since = null, until = null, help, ...item }: Item, root: string): OwedItem => ({
  ...{ ...item, since, until },
  help: help === undefined ? null : commandLine(root, help),
});

/** Changes when a session's log, its inbox or its settings change. */
function keyOf({ events, inbox, settings, plan }: SessionPaths): string {
  return [events, inbox, settings, plan]
    .map((path) => statIfExists(path))
    .map((stat) => `${stat?.size} ${stat?.ctimeMs}`)
    .join();
}

/** The kinds of what sessions wait for; all else is an answer. */
const KINDS: Record<string, Item['kind']> = { settings: 'settings', daemon: 'session', session: 'session' };

function itemsOf(overview: SessionOverview, paths: SessionPaths, now: Date): Item[] {
  const { name, parent, standing, changed, problem, unserved, waits } = overview;
  const at = { session: name, since: changed };
  if (waits && (problem ?? unserved) !== null) return [{ ...at, ...itemOf(waits), kind: 'session' }];
  const items: Item[] = [];
  const oldest = oldestMessage(paths);
  if (oldest !== undefined && now.getTime() - oldest > TAKEN_WITHIN_MS) {
    const since = new Date(oldest).toISOString();
    items.push({ ...at, since, kind: 'message', needs: 'repair', why: 'a message is not taken', help: ['status'] });
  }
  // A child asks through its parent; what failed is over.
  if (!waits || parent !== null || standing === 'failed') return items;
  // That no daemon runs is said once.
  if (isDaemonMissing(waits)) {
    const { waits_for: what, waits_until: until } = overview;
    const why = `waits for: ${what}`;
    if (until !== null)
      items.push({ ...at, until, kind: 'wait', needs: 'time', why, help: ['watch', readableName(name)] });
    return items;
  }
  const { what, needs } = waits;
  const kind = getOwn(KINDS, what) ?? (needs === 'time' ? 'wait' : standing === 'paused' ? 'paused' : 'answer');
  return [{ ...at, ...itemOf(waits), kind }, ...items];
}

const isDaemonMissing = ({ what, commands }: SessionWait): boolean => what === 'daemon' && commands[0]?.[0] === 'start';

const itemOf = ({ needs, why, until, commands: [help] }: SessionWait): Omit<Item, 'kind' | 'session'> => ({
  ...{ needs, why, until, ...(help && { help }) },
});

/** When the oldest waiting message was dropped, in ms; undefined if none waits. */
function oldestMessage({ inbox }: SessionPaths): number | undefined {
  try {
    const times = fs
      .readdirSync(inbox)
      .filter((name) => !name.startsWith('.'))
      .map((name) => statIfExists(`${inbox}/${name}`)?.ctimeMs ?? Number.POSITIVE_INFINITY);
    return times.length > 0 ? Math.min(...times) : undefined;
  } catch {
    return undefined;
  }
}

/** Child sessions that have lost their state, in a plan that is not over. */
async function lostChildren({ name, plan, standing }: SessionOverview, folders: SessionFolders): Promise<Item[]> {
  if (!plan || standing === 'completed' || standing === 'cancelled' || standing === 'unreadable') return [];
  const { children } = await readSession(folders.get(name));
  return Object.values(children).flatMap(({ name: child, reply, repliedAt }): Item[] =>
    reply?.reason === RUN_END.stateLost
      ? [
          {
            ...{ kind: 'child', needs: 'repair', session: name, since: repliedAt || null },
            ...{ why: `${readableName(child)}: ${reply.text}`, help: ['show', readableName(name)] },
          },
        ]
      : [],
  );
}

async function ofSchedules(paths: WorkspacePaths, now: Date): Promise<Item[]> {
  if (!fs.existsSync(paths.schedules)) return [];
  const { openSchedules } = await import('./schedules.ts');
  return openSchedules(paths.schedules, () => now)
    .list()
    .flatMap(({ name, schedule, fault, last }): Item[] => {
      const session = schedule?.session ?? null;
      if (fault !== null)
        return [{ kind: 'schedule', needs: 'repair', session, why: fault, help: ['schedule', 'list'] }];
      if (last?.state !== 'skipped' && last?.state !== 'failed') return [];
      const needs = last.state === 'failed' ? 'repair' : 'person';
      const why = `the schedule ${name} ${last.state === 'failed' ? 'failed' : 'was skipped'}: ${last.why ?? ''}`;
      return [{ kind: 'schedule', needs, session, why, since: last.due, help: ['schedule', 'history', name] }];
    });
}

/** Without amounts, since these change with each call. */
const BUDGET_WORDS: Record<Language, (budget: string, isUsedUp: boolean) => string> = {
  en: (budget, isUsedUp) => (isUsedUp ? `${budget} is used up; runs wait` : `80 % of ${budget} is spent`),
  zh: (budget, isUsedUp) => (isUsedUp ? `${budget} 已用完，运行暂停等待` : `${budget} 已用去 80%`),
};

async function ofBudgets(paths: WorkspacePaths, now: Date, configFile: string | undefined): Promise<Item[]> {
  if (!fs.existsSync(paths.usage)) return [];
  const [{ reportBudgets }, { WARN_SHARE }] = await Promise.all([
    import('../inspect/budget-report.ts'),
    import('../../store/usage/budget-state.ts'),
  ]);
  try {
    const { budgets, language = 'en' } = reportBudgets(paths, now, configFile);
    return budgets
      .filter(({ spent, limit }) => spent >= limit * WARN_SHARE)
      .map(({ setting, of, until, spent, limit }) => ({
        ...{ kind: 'budget', needs: 'time', until, help: ['usage'] },
        session: setting.startsWith('budgets.per_sender') ? null : of,
        why: BUDGET_WORDS[language](`${setting}${of === null ? '' : ` of ${of}`}`, spent >= limit),
      }));
  } catch (error) {
    // What invalid settings say is not known; that they are invalid is said elsewhere.
    if (error instanceof UserError) return [];
    throw error;
  }
}

/** Channels through which nothing comes, though nobody stopped them, or something could not be delivered. */
const ofChannels = (paths: WorkspacePaths, now: Date): Item[] =>
  readChannelConditions(paths, now).flatMap(({ name, is, since, state, dead }): Item[] => {
    const at = { kind: 'channel', needs: 'repair', session: null, since, help: ['channel', 'status', name] } as const;
    const why = {
      deaf: `the channel ${name} hears nothing${state?.fault ? `: ${state.fault}` : ''}`,
      ended: `the channel ${name} has ended and was not started again`,
    };
    const letters = dead === 0 ? [] : [{ ...at, since: null, why: `${dead} messages of ${name} were not delivered` }];
    return [...(is === 'deaf' || is === 'ended' ? [{ ...at, why: why[is] }] : []), ...letters];
  });

async function ofNotices(paths: WorkspacePaths, now: Date): Promise<Item[]> {
  if (!fs.existsSync(paths.notices) && !fs.existsSync(paths.push)) return [];
  const { noticeFaults } = await import('../sessions/push-files.ts');
  return noticeFaults(paths, now).map((fault) => ({
    ...{ kind: 'notice', needs: 'repair', session: null, help: ['config', 'show'], ...fault },
  }));
}

/** What the running daemon has found that no file shows: MCP servers that are gone. */
export function owedToDaemon(paths: WorkspacePaths): OwedItem[] {
  const owner = readRunningOwner(paths);
  if (!owner) return [];
  const owed = readJsonFile(paths.owed, OwedFile);
  return owed?.pid === owner.pid ? owed.items.filter(({ kind }) => kind === 'server') : [];
}

/** What is owed in one line, for a health check; and whether it needs repair, a person, or neither. */
export function summarizeOwed(items: readonly OwedItem[]): { text: string; needs: 'repair' | 'person' | null } {
  const first = items.find(({ needs }) => needs === 'repair') ?? items.find(({ needs }) => needs === 'person');
  if (!first) return { text: items.length > 0 ? `ok; ${items.length} waiting for their time` : 'ok', needs: null };
  const more = items.filter(({ needs }) => needs === first.needs).length - 1;
  const where = first.session === null ? '' : `${readableName(first.session)}: `;
  const others = more > 0 ? ` (and ${more} more)` : '';
  return {
    text: `${first.needs}: ${where}${first.why.split('\n')[0]}${others}`,
    needs: first.needs === 'repair' ? 'repair' : 'person',
  };
}
