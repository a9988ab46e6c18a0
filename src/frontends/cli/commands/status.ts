import { existsSync } from 'node:fs';
import { hostname } from 'node:os';
import { formatLocalTime } from '../../../base/strings.ts';
import type { Client, SessionOverview } from '../../../client/index.ts';
import type { DaemonStatus } from '../../../protocol/workspace/daemon-files.ts';
import type { OwedItem } from '../../../protocol/workspace/owed-file.ts';
import { readableName } from '../../../protocol/workspace/session-names.ts';
import type { ExitName } from '../common/command.ts';
import { defineCommand, formatCommand, JSON_OPTION, type JsonOptions, openWorkspaceClient } from '../common/command.ts';
import { formatDuration, print, printJson, stripControls, toSingleLine } from '../common/terminal.ts';

export const status = defineCommand({
  usage: 'status',
  describe: 'Show whether a daemon is running, the state of sessions, and which are polled or blocked and why',
  builder: (cli) =>
    cli
      .option('check', {
        type: 'boolean',
        describe: 'Print one line: what needs repair or you. Exit code 0: nothing, 1: repair, 3: no daemon, 6: you',
      })
      .option('json', JSON_OPTION),
  run: (args) => (args.check === true ? checkHealth(args) : printStatus(args)),
});

/** What is owed and not happening, as the running daemon and the files show it. */
async function readOwed(client: Client, given?: ReadonlyMap<string, SessionOverview>): Promise<OwedItem[]> {
  const { openOwedReader, owedToDaemon } = await import('../../../client/actions/owed.ts');
  const file = client.status()?.settings.file;
  const own = file === undefined || file === 'agentd.json' ? undefined : file;
  const { root } = client.paths;
  return [...(await openOwedReader(root, client.paths, own).read(new Date(), given)), ...owedToDaemon(client.paths)];
}

async function checkHealth(args: JsonOptions): Promise<ExitName> {
  const client = await openWorkspaceClient(args);
  const { summarizeOwed } = await import('../../../client/actions/owed.ts');
  const items = await readOwed(client);
  const { text, needs } = summarizeOwed(items);
  const isServed = client.daemon() !== undefined;
  if (args.json) printJson({ needs: isServed ? needs : 'repair', owed: items });
  else print(toSingleLine(isServed ? text : 'repair: no daemon is running', 300));
  if (!isServed) return 'daemon';
  return needs === 'repair' ? 'error' : needs === 'person' ? 'waiting' : 'ok';
}

/** What the lines above do not say. */
const SHOWN_AS_OWED: readonly OwedItem['kind'][] = [
  'message',
  'answer',
  'paused',
  'wait',
  'child',
  'schedule',
  'server',
  'channel',
  'notice',
];

/** A faulty schedule is among what is broken. */
const isSaid = ({ kind, needs, since }: OwedItem): boolean =>
  kind === 'schedule' && needs === 'repair' && since === null;

function formatOwed({ session, why, since, until, help }: OwedItem): string {
  const when =
    until !== null ? `, resumes ${formatLocalTime(until)}` : since !== null ? `, since ${formatLocalTime(since)}` : '';
  const where = session === null ? '' : `${readableName(session)}: `;
  return `Owed:      ${toSingleLine(`${where}${why}${when}${help === null ? '' : `. ${help}`}`, 300)}`;
}

export async function printStatus(args: JsonOptions): Promise<ExitName> {
  const { describeLock } = await import('../../../client/inspect/session-overview.ts');
  const client = await openWorkspaceClient(args);
  const owner = client.daemon();
  const seen = client.status();
  const troubled = new Set(seen?.trouble.sessions.map(({ session }) => session));
  const counts: Record<string, number> = {};
  let waitingMessages = 0;
  const problems: Array<{ name: string; problem: string }> = [];
  const faults: Array<{ name: string; fault: string }> = [];
  const plans: typeof faults = [];
  const overviews = new Map<string, SessionOverview>();
  for await (const overview of client.list()) {
    const { name, standing, inbox, problem, settings, plan_problem, unserved } = overview;
    overviews.set(name, overview);
    // Child sessions use the file of their root, which is listed once.
    if (settings !== null && !faults.some(({ fault }) => fault === settings)) faults.push({ name, fault: settings });
    if (plan_problem !== null) plans.push({ name, fault: `${readableName(name)}: ${plan_problem}` });
    // What the daemon itself says stands below, with what kind of trouble it is.
    const why = problem ?? (troubled.has(name) ? null : unserved);
    if (why !== null) problems.push({ name, problem: why });
    counts[standing] = (counts[standing] ?? 0) + 1;
    waitingMessages += inbox;
  }
  const { root: workspace, log } = client.paths;
  const total = client.sessions().length;
  const uptimeMs = owner ? Math.max(0, Date.now() - Date.parse(owner.at)) : null;
  const daemon = owner && {
    pid: owner.pid,
    since: owner.at,
    host: owner.host,
    epoch: owner.epoch,
    lock: owner.lock,
    uptime_s: Math.floor((uptimeMs ?? 0) / 1000),
  };
  const fault = await client.settingsFault();
  const schedules = await readSchedules(client);
  const owed = await readOwed(client, overviews);
  const budgets = await readBudgetWarnings(client, fault !== null);
  if (args.json) {
    printJson({
      workspace,
      log,
      daemon: daemon ?? null,
      sessions: { total, ...counts },
      inbox: waitingMessages,
      problems,
      settings: { ...seen?.settings, fault, broken: faults },
      plans,
      schedules,
      budgets,
      owed,
      ...(seen && { watching: seen.watching, disk: seen.disk, trouble: seen.trouble }),
    });
  } else {
    print(
      owner
        ? `The daemon is running: process ${owner.pid}${owner.host === hostname() ? '' : ` on ${owner.host}`}, for ${formatDuration(uptimeMs ?? 0)}.`
        : `No daemon is running. Start one with: ${formatCommand(['start'], args)}`,
    );
    print(`Workspace: ${workspace}`);
    print(`Log:       ${existsSync(log) ? log : 'no file; a daemon in the foreground writes to its terminal'}`);
    if (owner) print(`Lock:      ${describeLock(owner.lock)}`);
    print(`Sessions:  ${total}${formatCounts(counts)}`);
    const isThere = existsSync(client.paths.config);
    for (const line of formatSettings(seen?.settings, isThere, fault, [...faults, ...plans, ...schedules.broken]))
      print(line);
    for (const { name, problem } of problems)
      print(`Not served: ${toSingleLine(`${readableName(name)}: ${problem}`, 1000)}`);
    for (const item of owed) if (SHOWN_AS_OWED.includes(item.kind) && !isSaid(item)) print(formatOwed(item));
    for (const line of budgets) print(`Budget:    ${stripControls(line)}`);
    if (waitingMessages > 0) print(`Inbox:     ${waitingMessages} waiting`);
    for (const line of seen ? formatDaemonStatus(seen) : []) print(line);
  }
  return owner ? 'ok' : 'daemon';
}

/** How many schedules there are, and those that do not run. Most workspaces have none. */
async function readSchedules(client: Client) {
  if (!existsSync(client.paths.schedules)) return { total: 0, broken: [] };
  const found = (await client.schedules()).list();
  return { total: found.length, broken: found.flatMap(({ name, fault }) => (fault === null ? [] : [{ name, fault }])) };
}

/** The budgets that are nearly used up, in words. What invalid settings say about budgets is not known. */
async function readBudgetWarnings(client: Client, isFaulty: boolean): Promise<string[]> {
  if (isFaulty || !existsSync(client.paths.usage)) return [];
  const { reportBudgets } = await import('../../../client/inspect/budget-report.ts');
  return reportBudgets(client.paths, new Date()).warnings;
}

/** Which settings are in force and since when, or without a daemon whether the file is there, and what is invalid. */
function formatSettings(
  settings: DaemonStatus['settings'] | undefined,
  isThere: boolean,
  fault: string | null,
  faults: ReadonlyArray<{ name: string; fault: string }>,
): string[] {
  const age = settings?.since
    ? `, in force for ${formatDuration(Math.max(0, Date.now() - Date.parse(settings.since)))}`
    : '';
  const file = settings ? stripControls(settings.file) : 'agentd.json';
  const is = {
    file: (settings ? settings.since : isThere) ? file : `no ${file}; using the defaults`,
    'last good': 'the last valid ones',
    nothing: 'none',
  };
  const mine = `${is[settings?.from ?? 'file']}${age}`;
  const warnings = [...(settings?.warnings ?? []), ...(settings?.sessions ?? []).flatMap((one) => one.warnings)];
  return [
    `Settings:  ${mine}`,
    ...(fault === null ? [] : [`Broken:    ${stripControls(fault)}`]),
    ...faults.map((one) => `Broken:    ${stripControls(one.fault)}`),
    ...warnings.map((warning) => `Warning:   ${stripControls(warning)}`),
  ];
}

/** What the daemon sees, and what keeps it from serving sessions. */
function formatDaemonStatus({ watching, disk, trouble, sessions }: DaemonStatus): string[] {
  const { watched, polled, why, names } = watching;
  const effect = { ok: '', low: '; no new messages are accepted', full: '; no further calls are started' }[disk.space];
  return [
    `Watching:  ${watched} watched${polled > 0 ? `, ${polled} polled: ${why ?? 'cannot be watched'}` : ''}`,
    ...(polled > 0 ? [`           ${formatNames(names, polled)}`] : []),
    `Disk:      about ${disk.free_mb} MB free${effect && disk.why ? ` (${disk.why})` : ''}${effect}`,
    ...(sessions.waiting > 0
      ? [`Waiting:   ${sessions.waiting} to be opened, at most ${sessions.max_open} open at once`]
      : []),
    ...trouble.sessions.map(
      (one) => `${one.is}: ${toSingleLine(readableName(one.session), 60)}: ${stripControls(one.why)}`,
    ),
    ...(trouble.total > trouble.sessions.length ? [`… and ${trouble.total - trouble.sessions.length} more`] : []),
  ];
}

function formatNames(names: string[], all: number): string {
  return `${names.map((name) => toSingleLine(readableName(name), 60)).join(', ')}${all > names.length ? ', …' : ''}`;
}

function formatCounts(counts: Record<string, number>): string {
  const shown = ['running', 'waiting', 'paused', 'failed', 'cancelled', 'unreadable'].filter(
    (standing) => counts[standing],
  );
  return shown.length === 0 ? '' : ` (${shown.map((standing) => `${counts[standing]} ${standing}`).join(', ')})`;
}
