import { formatLocalTime } from '../../../base/strings.ts';
import type { Client } from '../../../client/index.ts';
import type { BudgetReport, UsageKey, UsageTotal } from '../../../client/inspect/budget-report.ts';
import type { DayUsage, SessionUsage } from '../../../client/inspect/usage.ts';
import { tokenMark } from '../../../protocol/session/reply.ts';
import { PRICE_LIST } from '../../../protocol/settings/budgets.ts';
import { readableName } from '../../../protocol/workspace/session-names.ts';
import { defineCommand, type GlobalOptions, JSON_OPTION, openSession, openWorkspaceClient } from '../common/command.ts';
import { colorize, formatTable, print, printError, printJson, printNote, toSingleLine } from '../common/terminal.ts';

export const usage = defineCommand({
  usage: 'usage [session]',
  describe: 'Show the tokens and the cost of model calls, by session and by day',
  builder: (cli) =>
    cli
      .positional('session', { type: 'string', describe: 'Only this session and its child sessions' })
      .option('by', {
        choices: ['month', 'model', 'sender', 'schedule'] as const satisfies readonly UsageKey[],
        conflicts: 'session',
        describe: 'Add up all calls by this, also those of sessions that are gone',
      })
      .option('json', JSON_OPTION)
      .epilogue(
        `Days are those of the local time zone. The cost of a call is computed from model.prices in the settings, else it is what its endpoint reports, else the list price of ${PRICE_LIST.date}.`,
      ),
  async run(args) {
    const { reportBudgets, sumUsage } = await import('../../../client/inspect/budget-report.ts');
    const { reportUsage } = await import('../../../client/inspect/usage.ts');
    const client = await openWorkspaceClient(args);
    const budgets = reportBudgets(client.paths, new Date(), daemonConfig(client));
    if (args.by !== undefined) return printBy(budgets.by[args.by], args.by, args.json === true);
    const report = await reportUsage(await selectSessions(args));
    const { sessions, days, total } = report;
    if (args.json) printJson({ ...report, ...(args.session === undefined && budgets) });
    else if (total.calls === 0) printNote('No model has been called yet.');
    else print(formatUsage(sumWithChildren(sessions, sumUsage), days, total));
    if (!args.json && args.session === undefined) printBudgets(budgets);
    if (!args.json) printCheckpoints(sessions);
    const unreadable = sessions.filter(({ problem }) => problem !== null);
    for (const { session, problem } of unreadable)
      printError(toSingleLine(`Not counted: ${readableName(session)}: ${problem}`, 1000));
    for (const { session, removed_events: gone } of sessions)
      if (gone > 0)
        printNote(`Not counted: the first ${gone} events of ${readableName(session)}, which retention has removed.`);
    return unreadable.length > 0 ? 'error' : 'ok';
  },
});

/** How many of the largest are named. */
const MOST_NAMED = 3;

/** What the checkpoints take on the disk, the largest first. */
function printCheckpoints(sessions: readonly SessionUsage[]): void {
  const kept = sessions.filter(({ checkpoints }) => checkpoints.bytes > 0);
  if (kept.length === 0) return;
  const sorted = kept.sort((one, other) => other.checkpoints.bytes - one.checkpoints.bytes);
  const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`;
  const total = kept.reduce((sum, { checkpoints }) => sum + checkpoints.bytes, 0);
  const named = sorted
    .slice(0, MOST_NAMED)
    .map(({ session, checkpoints: { count, bytes } }) => `${readableName(session)} ${megabytes(bytes)} (${count})`);
  const more = kept.length > MOST_NAMED ? `, and ${kept.length - MOST_NAMED} more` : '';
  printNote(toSingleLine(`Checkpoints of work/ take ${megabytes(total)}: ${named.join(', ')}${more}.`, 500));
}

/** The file that the running daemon reads its settings from; undefined for `agentd.json`. */
function daemonConfig(client: Client): string | undefined {
  const file = client.status()?.settings.file;
  return file === undefined || file === 'agentd.json' ? undefined : file;
}

function printBudgets({ budgets }: BudgetReport): void {
  if (budgets.length === 0) return;
  const amount = (kind: string, value: number) => (kind === 'cost' ? value.toFixed(2) : String(Math.round(value)));
  const rows = budgets.map(({ setting, of, kind, spent, limit, unpriced, until }) => [
    `${setting.replace(/^budgets\./, '')}${of === null ? '' : ` ${toSingleLine(readableName(of), 30)}`}`,
    `${amount(kind, spent)}${unpriced > 0 ? ' and more' : ''}`,
    String(limit),
    amount(kind, Math.max(0, limit - spent)),
    formatLocalTime(until).slice(0, 16),
  ]);
  print(`\n${formatTable([['BUDGET', 'SPENT', 'LIMIT', 'LEFT', 'UNTIL'], ...rows])}`);
}

function printBy(rows: BudgetReport['by'][UsageKey], key: UsageKey, json: boolean): 'ok' {
  if (json) printJson(rows);
  else if (rows.length === 0) printNote('No model has been called yet.');
  else {
    const named = rows.map((one) => [toSingleLine(one.name ?? '-', 40), ...usageCells(one)]);
    print(formatTable([[key.toUpperCase(), ...USAGE_HEAD], ...named]));
  }
  return 'ok';
}

async function selectSessions(
  args: GlobalOptions & { session: string | undefined },
): Promise<Array<{ name: string; folder: string }>> {
  const client = await openWorkspaceClient(args);
  const { session } = args;
  const names =
    session === undefined ? client.sessions() : client.withChildren((await openSession({ ...args, session })).session);
  return names.map((name) => ({ name, folder: client.folder(name) }));
}

type NamedUsage = UsageTotal & { session: string };

/** A session together with its child sessions, the most tokens first. */
function sumWithChildren(
  sessions: readonly SessionUsage[],
  sum: (parts: readonly UsageTotal[]) => UsageTotal,
): NamedUsage[] {
  const sessionTrees = new Map<string, SessionUsage[]>();
  for (const one of sessions) {
    // They come as a tree: the first that is above it is its root.
    const root = sessions.find(({ session }) => `${one.session}~`.startsWith(`${session}~`))?.session ?? one.session;
    sessionTrees.set(root, [...(sessionTrees.get(root) ?? []), one]);
  }
  return [...sessionTrees]
    .map(([session, tree]) => ({ session, ...sum(tree) }))
    .filter(({ calls }) => calls > 0)
    .sort((a, b) => b.tokens - a.tokens);
}

const USAGE_HEAD = ['CALLS', 'TOKENS', 'CACHED', 'COST'];

const usageCells = ({ calls, tokens, cached, cost, unpriced, estimated }: UsageTotal): string[] => [
  `${calls}`,
  `${tokenMark({ estimated })}${tokens}`,
  `${cached}`,
  unpriced === calls ? 'unknown' : `${cost.toFixed(4)}${unpriced > 0 ? ` and ${unpriced} calls of unknown cost` : ''}`,
];

function formatUsage(sessions: readonly NamedUsage[], days: readonly DayUsage[], total: UsageTotal): string {
  return formatTable([
    ['SESSION', ...USAGE_HEAD],
    ...sessions.map((one) => [toSingleLine(readableName(one.session), 40), ...usageCells(one)]),
    ['', '', '', '', ''],
    ['DAY', ...USAGE_HEAD],
    ...days.map((one) => [one.day, ...usageCells(one)]),
    ['', '', '', '', ''],
    ['TOTAL', ...usageCells(total)],
  ])
    .split('\n')
    .map((line) => (/^(?:SESSION|DAY|TOTAL) /.test(line) ? colorize('bold', line) : line).trimEnd())
    .join('\n');
}
