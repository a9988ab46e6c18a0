import type { DayUsage, SessionUsage, UsageTotal } from '../../../client/inspect/usage.ts';
import { readableName } from '../../../protocol/workspace/session-names.ts';
import { defineCommand, type GlobalOptions, JSON_OPTION, openSession, openWorkspaceClient } from '../common/command.ts';
import { colorize, formatTable, print, printError, printJson, printNote, toSingleLine } from '../common/terminal.ts';

export const usage = defineCommand({
  usage: 'usage [session]',
  describe: 'Show the tokens and the cost of model calls, by session and by day',
  builder: (cli) =>
    cli
      .positional('session', { type: 'string', describe: 'Only this session and its child sessions' })
      .option('json', JSON_OPTION)
      .epilogue(
        'Days are those of the local time zone. The cost of a call is the one its endpoint reports, else it is computed from model.prices in the settings.',
      ),
  async run(args) {
    const { reportUsage, sumUsage } = await import('../../../client/inspect/usage.ts');
    const report = await reportUsage(await selectSessions(args));
    const { sessions, days, total } = report;
    if (args.json) printJson(report);
    else if (total.calls === 0) printNote('No model has been called yet.');
    else print(formatUsage(sumWithChildren(sessions, sumUsage), days, total));
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

function formatUsage(sessions: readonly NamedUsage[], days: readonly DayUsage[], total: UsageTotal): string {
  const head = ['CALLS', 'TOKENS', 'COST'];
  const cells = ({ calls, tokens, cost, unpriced }: UsageTotal) => [
    `${calls}`,
    `${tokens}`,
    unpriced === calls
      ? 'unknown'
      : `${cost.toFixed(4)}${unpriced > 0 ? ` and ${unpriced} calls of unknown cost` : ''}`,
  ];
  return formatTable([
    ['SESSION', ...head],
    ...sessions.map((one) => [toSingleLine(readableName(one.session), 40), ...cells(one)]),
    ['', '', '', ''],
    ['DAY', ...head],
    ...days.map((one) => [one.day, ...cells(one)]),
    ['', '', '', ''],
    ['TOTAL', ...cells(total)],
  ])
    .split('\n')
    .map((line) => (/^(?:SESSION|DAY|TOTAL) /.test(line) ? colorize('bold', line) : line).trimEnd())
    .join('\n');
}
