import type { SessionOverview } from '../../../client/index.ts';
import { defineCommand, JSON_OPTION, type JsonOptions, openWorkspaceClient } from '../common/command.ts';
import type { ExitName } from '../common/exit-codes.ts';
import {
  colorize,
  formatLocalTime,
  formatTable,
  print,
  printJson,
  printNote,
  stripControls,
  toSingleLine,
} from '../common/terminal.ts';

/** The state of a session in a word. */
export const STATE_LABELS: Record<SessionOverview['standing'], string> = {
  none: 'idle',
  running: 'running',
  waiting: 'waiting',
  paused: 'paused',
  completed: 'completed',
  failed: 'failed',
  unreadable: 'unreadable',
};

/** Most code points of a name that are shown; a key may have about 200. */
const NAME_WIDTH = 40;

export const list = defineCommand({
  usage: 'list',
  aliases: ['ls'],
  describe: 'List the sessions',
  builder: (cli) => cli.option('json', JSON_OPTION),
  run: (args) => listSessions(args),
});

export async function listSessions(args: JsonOptions): Promise<ExitName> {
  const client = await openWorkspaceClient(args);
  const sessions: SessionOverview[] = [];
  for await (const session of client.list()) sessions.push(session);
  if (args.json) printJson(sessions);
  else if (sessions.length === 0)
    printNote(`No sessions in ${client.paths.root}. Create one with: agentctl send demo "…"`);
  else print(formatSessions(sessions, client.daemon() !== undefined));
  const fault = await client.settingsFault();
  if (fault !== null) printNote(stripControls(fault));
  return 'ok';
}

function formatSessions(sessions: SessionOverview[], isServed: boolean): string {
  const [head = '', ...lines] = formatTable([
    ['SESSION', 'STATE', 'STEPS', 'LAST CHANGE', 'TITLE'],
    ...sessions.map((one) => [
      treeLabel(one, sessions),
      stateLabel(one, isServed),
      one.plan ? `${one.plan.completed}/${one.plan.total}` : '-',
      one.changed ? formatLocalTime(one.changed) : '-',
      toSingleLine(
        one.problem ?? one.settings ?? (one.asks ? `asks: ${one.asks.text}` : (one.title ?? '')),
        process.stdout.isTTY ? 60 : 200,
      ),
    ]),
  ]).split('\n');
  return [colorize('bold', head), ...lines.map((line) => line.trimEnd())].join('\n');
}

/** A child is shown by the last part of its name, under its parent; by its whole name if the parent is gone. */
function treeLabel({ name, parent }: SessionOverview, all: SessionOverview[]): string {
  if (parent === null || !all.some((one) => one.name === parent)) return toSingleLine(name, NAME_WIDTH);
  const depth = name.split('~').length - 1;
  return `${'  '.repeat(depth - 1)}└ ${toSingleLine(name.slice(parent.length), NAME_WIDTH)}`;
}

/** State of a session: a run is active only while a daemon runs; messages in the inbox are counted after it. */
function stateLabel({ standing, inbox }: SessionOverview, isServed: boolean): string {
  const state = standing === 'running' && !isServed ? 'running (no daemon)' : STATE_LABELS[standing];
  return inbox > 0 ? `${state} +${inbox}` : state;
}
