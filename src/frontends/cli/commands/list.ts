import type { Overview } from '../../../client/index.ts';
import { clientOf, command, JSON_OPTION, type JsonWanted } from '../command.ts';
import type { Exit } from '../exit-codes.ts';
import { localTime, note, oneLine, paint, plain, say, sayJson, table } from '../print.ts';

const WORDS: Record<Overview['standing'], string> = {
  none: 'idle',
  running: 'running',
  waiting: 'waiting',
  paused: 'paused',
  completed: 'completed',
  failed: 'failed',
  unreadable: 'unreadable',
};

/** Code points of a name that are shown; a key may have up to some 200. */
const NAME_WIDTH = 40;

export const list = command({
  usage: 'list',
  describe: 'List the sessions',
  builder: (cli) => cli.option('json', JSON_OPTION),
  run: (args) => listSessions(args),
});

export async function listSessions(args: JsonWanted): Promise<Exit> {
  const client = await clientOf(args);
  const sessions: Overview[] = [];
  for await (const session of client.list()) sessions.push(session);
  if (args.json) sayJson(sessions);
  else if (sessions.length === 0) note(`No sessions in ${client.paths.root}. Make one with: agentctl send demo "…"`);
  else say(rows(sessions, client.daemon() !== undefined));
  const fault = await client.settingsFault();
  if (fault !== null) note(plain(fault));
  return 'ok';
}

function rows(sessions: Overview[], isServed: boolean): string {
  const [head = '', ...lines] = table([
    ['SESSION', 'STATE', 'STEPS', 'LAST CHANGE', 'TITLE'],
    ...sessions.map((one) => [
      inTree(one, sessions),
      stateOf(one, isServed),
      one.plan ? `${one.plan.completed}/${one.plan.total}` : '-',
      one.changed ? localTime(one.changed) : '-',
      oneLine(
        one.problem ?? one.settings ?? (one.asks ? `asks: ${one.asks.text}` : (one.title ?? '')),
        process.stdout.isTTY ? 60 : 200,
      ),
    ]),
  ]).split('\n');
  return [paint('bold', head), ...lines.map((line) => line.trimEnd())].join('\n');
}

/** A child is shown by its last part, under its parent; one whose parent is gone by its whole name. */
function inTree({ name, parent }: Overview, all: Overview[]): string {
  if (parent === null || !all.some((one) => one.name === parent)) return oneLine(name, NAME_WIDTH);
  const depth = name.split('~').length - 1;
  return `${'  '.repeat(depth - 1)}└ ${oneLine(name.slice(parent.length), NAME_WIDTH)}`;
}

/** A run is only at work where a daemon is; messages nobody took yet are part of how a session stands. */
function stateOf({ standing, inbox }: Overview, isServed: boolean): string {
  const state = standing === 'running' && !isServed ? 'running (no daemon)' : WORDS[standing];
  return inbox > 0 ? `${state} +${inbox}` : state;
}
