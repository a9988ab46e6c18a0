import { formatLocalTime } from '../../../base/strings.ts';
import type { SessionOverview } from '../../../client/index.ts';
import type { SessionStanding } from '../../../protocol/session/reply.ts';
import { readableName } from '../../../protocol/workspace/session-names.ts';
import type { ExitName } from '../common/command.ts';
import { defineCommand, formatCommand, JSON_OPTION, type JsonOptions, openWorkspaceClient } from '../common/command.ts';
import {
  colorize,
  formatTable,
  print,
  printError,
  printJson,
  printNote,
  stripControls,
  toSingleLine,
} from '../common/terminal.ts';

/** The state of a session in a word. */
export const STATE_LABELS: Record<SessionStanding, string> = {
  ...{ none: 'idle', running: 'running', waiting: 'waiting', paused: 'paused', completed: 'completed' },
  ...{ failed: 'failed', cancelled: 'cancelled', unreadable: 'unreadable' },
};

/** Most code points of a name that are shown; a key may have about 200. */
const NAME_WIDTH = 40;

export const list = defineCommand({
  usage: 'list',
  aliases: ['ls'],
  describe: 'List the sessions, those that need you first; child sessions are counted',
  builder: (cli) =>
    cli.option('json', JSON_OPTION).option('all', { type: 'boolean', alias: 'a', describe: 'Show child sessions too' }),
  run: (args) => listSessions(args),
});

export async function listSessions(args: JsonOptions & { all?: boolean | undefined }): Promise<ExitName> {
  const client = await openWorkspaceClient(args);
  const found: SessionOverview[] = [];
  for await (const session of client.list()) found.push(session);
  const sessions = sortByUrgency(found);
  if (args.json) printJson(sessions);
  else if (sessions.length === 0)
    printNote(`No sessions in ${client.paths.root}. Create one with: ${formatCommand(['send', 'demo'], args)} "…"`);
  else print(formatSessions(sessions, { isServed: client.daemon() !== undefined, all: args.all === true }));
  const fault = await client.settingsFault();
  if (fault !== null) printError(stripControls(fault));
  return 'ok';
}

/** Whether the session waits for a person: for an answer, or for a file to be fixed. */
const needsPerson = ({ standing, problem, settings, plan_problem, unserved }: SessionOverview): boolean =>
  standing === 'waiting' || [problem, settings, plan_problem, unserved].some((fault) => fault !== null);

/** Sort rank: sessions that wait for a person, then paused ones, then running ones, then all others. */
function urgency(one: SessionOverview): number {
  if (needsPerson(one)) return 0;
  return one.standing === 'paused' ? 1 : one.standing === 'running' ? 2 : 3;
}

/** Most urgent first, then most recently changed; child sessions follow their root session, by name. */
export function sortByUrgency(sessions: readonly SessionOverview[]): SessionOverview[] {
  const known = new Map(sessions.map((one) => [one.name, one]));
  const trees = new Map<SessionOverview, SessionOverview[]>();
  for (const one of sessions) {
    const root = rootOf(one, known);
    trees.set(root, [...(trees.get(root) ?? []), one]);
  }
  const ranked = [...trees.values()].map((tree) => ({
    tree,
    rank: Math.min(...tree.map(urgency)),
    changed:
      tree
        .map(({ changed }) => changed ?? '')
        .toSorted()
        .at(-1) ?? '',
  }));
  ranked.sort((a, b) => a.rank - b.rank || (a.changed < b.changed ? 1 : a.changed > b.changed ? -1 : 0));
  return ranked.flatMap(({ tree }) => tree);
}

/** The topmost listed ancestor; a child whose parent is gone has none and is listed itself. */
function rootOf(one: SessionOverview, known: ReadonlyMap<string, SessionOverview>): SessionOverview {
  const parent = one.parent === null ? undefined : known.get(one.parent);
  return parent ? rootOf(parent, known) : one;
}

/** Child sessions that wait for nobody are only counted, behind the name of their root. */
function collapseChildren(sessions: readonly SessionOverview[]): Array<{ shown: SessionOverview; hidden: number }> {
  const known = new Map(sessions.map((one) => [one.name, one]));
  const hidden = new Map<SessionOverview, number>();
  const shown = sessions.filter((one) => {
    const root = rootOf(one, known);
    if (root === one || needsPerson(one)) return true;
    hidden.set(root, (hidden.get(root) ?? 0) + 1);
    return false;
  });
  return shown.map((one) => ({ shown: one, hidden: hidden.get(one) ?? 0 }));
}

export function formatSessions(
  sessions: SessionOverview[],
  { isServed, all }: { isServed: boolean; all: boolean },
): string {
  const rows = all ? sessions.map((shown) => ({ shown, hidden: 0 })) : collapseChildren(sessions);
  const [head = '', ...lines] = formatTable([
    ['SESSION', 'STATE', 'STEPS', 'LAST CHANGE', 'TITLE'],
    ...rows.map(({ shown: one, hidden }) => [
      `${treeLabel(one, rows)}${hidden === 0 ? '' : ` (${hidden} ${hidden === 1 ? 'child' : 'children'})`}`,
      stateLabel(one, isServed),
      one.plan && one.plan.total > 0 ? `${one.plan.completed}/${one.plan.total}` : '-',
      one.changed ? formatLocalTime(one.changed) : '-',
      toSingleLine(
        one.problem ??
          notServed(one) ??
          one.settings ??
          (one.asks && `asks: ${one.asks.text}`) ??
          one.plan_problem ??
          (one.waits && isElsewhere(one.waits) ? one.waits.why : null) ??
          one.title ??
          '',
        process.stdout.isTTY ? 60 : 200,
      ),
    ]),
  ]).split('\n');
  return [colorize('bold', head), ...lines.map((line) => line.trimEnd())].join('\n');
}

/** Whether it waits for what its state and its title do not say. */
const isElsewhere = ({ what, needs }: NonNullable<SessionOverview['waits']>): boolean =>
  needs === 'time' || what === 'disk' || needs === 'repair';

const notServed = ({ unserved }: SessionOverview): string | null => unserved && `not served: ${unserved}`;

/** A child is shown by the last part of its name, under its parent; by its whole name if the parent is not shown. */
function treeLabel({ name, parent }: SessionOverview, rows: ReadonlyArray<{ shown: SessionOverview }>): string {
  if (parent === null || !rows.some(({ shown }) => shown.name === parent))
    return toSingleLine(readableName(name), NAME_WIDTH);
  const depth = name.split('~').length - 1;
  return `${'  '.repeat(depth - 1)}└ ${toSingleLine(readableName(name.slice(parent.length)), NAME_WIDTH)}`;
}

/**
 * State of a session and what it waits for: a run is active only while a daemon runs; messages in the inbox are counted
 * after it.
 */
function stateLabel(
  { standing, waits_for, waits_until: until, inbox, waits }: SessionOverview,
  isServed: boolean,
): string {
  const goesOn = until === null ? '' : `, resumes ${formatLocalTime(until).slice(0, 16)}`;
  const isDisk = waits?.what === 'disk';
  const note =
    standing === 'running' && !isServed ? 'no daemon' : isDisk ? 'disk' : toSingleLine(waits_for ?? '', 20) + goesOn;
  const state = `${STATE_LABELS[standing]}${note === '' ? '' : ` (${note})`}`;
  return inbox > 0 ? `${state} +${inbox}` : state;
}
