import type { ArgumentsCamelCase } from 'yargs';
import { formatLocalTime } from '../../../base/strings.ts';
import { UserError } from '../../../base/user-error.ts';
import type { ScheduleSummary } from '../../../client/actions/schedules.ts';
import type { Client } from '../../../client/index.ts';
import { MISSED_WITHIN, type Occurrence, Schedule } from '../../../protocol/schedules/schedule.ts';
import {
  defineCommand,
  EXIT_CODES,
  type ExitName,
  formatCommand,
  type GlobalOptions,
  JSON_OPTION,
  openWorkspaceClient,
  parseWholeNumber,
} from '../common/command.ts';
import { checkNewName } from '../common/send-and-wait.ts';
import {
  formatTable,
  print,
  printDone,
  printJson,
  printNote,
  stripControls,
  toSingleLine,
} from '../common/terminal.ts';

const ACTIONS = ['list', 'add', 'next', 'history', 'run', 'pause', 'resume', 'remove'] as const;
type Action = (typeof ACTIONS)[number];

type ScheduleArgs = GlobalOptions & {
  name?: string | undefined;
  text?: string[] | undefined;
  cron?: string | undefined;
  every?: string | undefined;
  heartbeat?: string | undefined;
  active?: string | undefined;
  jitter?: string | undefined;
  template?: string | undefined;
  at?: string | undefined;
  zone?: string | undefined;
  session?: string | undefined;
  missed?: string | undefined;
  missedWithin?: string | undefined;
  overlap?: string | undefined;
  until?: string | undefined;
  last?: number | undefined;
  json?: boolean | undefined;
};

export const schedule = defineCommand({
  usage: 'schedule [action] [name] [text..]',
  describe: 'Send messages at set times: add, list, run or remove schedules, and see what each did',
  builder: (cli) =>
    cli
      .positional('action', { choices: ACTIONS, default: 'list' as Action, describe: 'What to do' })
      .positional('name', { type: 'string', describe: 'Name of the schedule' })
      .positional('text', { type: 'string', array: true, describe: 'add: the message, or with --template name=value' })
      .option('template', { type: 'string', requiresArg: true, describe: 'add: run this template' })
      .option('cron', { type: 'string', requiresArg: true, describe: 'add: when, as in "0 8 * * 1-5"' })
      .option('every', { type: 'string', requiresArg: true, describe: 'add: again after this long, as in "90m"' })
      .option('heartbeat', {
        type: 'string',
        requiresArg: true,
        describe: 'add: the same, but only while work/HEARTBEAT.md of the session holds something to do',
      })
      .option('active', {
        type: 'string',
        requiresArg: true,
        describe: 'add: only at these hours, as in "08:00-22:00"',
      })
      .option('at', { type: 'string', requiresArg: true, describe: 'add: once, then' })
      .option('zone', { type: 'string', requiresArg: true, describe: 'add: time zone; default: that of this machine' })
      .option('session', { type: 'string', requiresArg: true, describe: 'add: session; default: the name' })
      .option('missed', {
        choices: ['skip', 'last', 'all'] as const,
        describe: 'add: what to do about times at which nothing could run; default last',
      })
      .option('missed-within', {
        type: 'string',
        requiresArg: true,
        describe: `add: how late those may run; default ${MISSED_WITHIN}`,
      })
      .option('overlap', {
        choices: ['skip', 'queue', 'replace'] as const,
        describe: 'add: what to do if the session is busy or paused; default skip',
      })
      .option('jitter', { type: 'string', requiresArg: true, describe: 'add: send later by up to this long' })
      .option('until', { type: 'string', requiresArg: true, describe: 'add: not after this time' })
      .option('last', {
        type: 'number',
        alias: 'n',
        requiresArg: true,
        coerce: parseWholeNumber('--last'),
        describe: 'history, next: this many; default 10',
      })
      .option('json', JSON_OPTION)
      .example('$0 schedule add news --cron "0 8 * * 1-5" "Summarize what is new"', '')
      .example('$0 schedule history news', '')
      .epilogue('A schedule is the file schedules/<name>.json of the workspace; each time it was due is a file too.'),
  async run(args) {
    const client = await openWorkspaceClient(args);
    const { action, name } = args;
    if (action === 'list') return printList(client, args);
    if (name === undefined)
      throw new UserError(
        `Usage: agentctl schedule ${action} <name>${action === 'add' ? ' --cron <times> <text>' : ''}\nSee: agentctl schedule --help`,
        EXIT_CODES.usage.code,
      );
    return runAction(client, action, name, args);
  },
});

async function runAction(
  client: Client,
  action: Exclude<Action, 'list'>,
  name: string,
  args: ArgumentsCamelCase<ScheduleArgs>,
): Promise<ExitName> {
  const schedules = await client.schedules();
  switch (action) {
    case 'add': {
      const { path, next } = await schedules.add(name, scheduleFromArgs(args, name, new Date()));
      if (args.json) printJson({ path, next });
      else printDone(`${path} is saved; next: ${formatLocalTime(next)}.`);
      break;
    }
    case 'next':
      return printTimes(schedules.next(name, args.last ?? 10), args);
    case 'history':
      return printHistory(schedules.history(name, args.last ?? 10), args);
    case 'run': {
      const occurrence = await schedules.runNow(name);
      if (args.json) printJson({ occurrence });
      else printDone(`${name} runs now. See: ${formatCommand(['schedule', 'history', name], args)}`);
      break;
    }
    case 'pause':
    case 'resume': {
      const isNew = await schedules.enable(name, action === 'resume');
      printDone(`${name} is ${isNew ? '' : 'already '}${action === 'pause' ? 'paused' : 'active'}.`);
      return 'ok';
    }
    case 'remove':
      await schedules.remove(name);
      printDone(`${name} is removed. What it did stays in ${client.paths.schedules}/${name}.`);
      return 'ok';
  }
  if (!client.daemon())
    printNote(`No daemon is running: nothing is sent until one is. Start it: ${formatCommand(['start'], args)}`);
  return 'ok';
}

/** The schedule that a command line describes. Throws UserError with what was expected. */
function scheduleFromArgs(args: ArgumentsCamelCase<ScheduleArgs>, name: string, now: Date): Schedule {
  const { cron, every, heartbeat, active, jitter, template, missed, overlap, until, session = name } = args;
  const at = args.at?.trim().replace(/^(\d{4}-\d\d-\d\d) +/, '$1T');
  const zone = args.zone ?? Intl.DateTimeFormat().resolvedOptions().timeZone;
  checkNewName(session);
  const words = [...(args.text ?? []), ...args._.slice(1).map(String)];
  const repeats = every !== undefined || heartbeat !== undefined;
  // From this minute on, in place of midnight.
  const start = repeats && active === undefined ? `${now.toISOString().slice(0, 16)}:00Z` : undefined;
  const content = template === undefined ? { text: words.join(' ') || undefined } : { template, ...paramsOf(words) };
  const given = {
    ...{ version: 1, cron, every, heartbeat, at, start, active, zone, until, session, ...content },
    ...{ missed, missed_within: args.missedWithin, overlap, jitter },
  };
  const checked = Schedule.safeParse(
    Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
  );
  if (checked.success) return checked.data;
  const faults = checked.error.issues.map(({ path, message }) => {
    const flag = path.length > 0 ? `${path.join('.').replaceAll('_', '-')}: ` : '';
    return `${flag}${message}`;
  });
  throw new UserError(`Not added. ${faults.join('; ')}.\nSee: agentctl schedule --help`, EXIT_CODES.usage.code);
}

/** Values of a template's parameters, as `name=value`. */
function paramsOf(words: readonly string[]): { params?: Record<string, string> } {
  const pairs = words.map((word) => {
    const [, key, value] = /^([^=\s]+)=([\s\S]*)$/.exec(word) ?? [];
    if (key === undefined || value === undefined)
      throw new UserError(`Expected name=value, got ${JSON.stringify(word)}.`, EXIT_CODES.usage.code);
    return [key, value] as const;
  });
  return pairs.length > 0 ? { params: Object.fromEntries(pairs) } : {};
}

async function printList(client: Client, args: ScheduleArgs): Promise<ExitName> {
  const found = (await client.schedules()).list();
  if (args.json) printJson(found);
  else if (found.length === 0) printNote('There are no schedules. See: agentctl schedule --help');
  else {
    const rows = found.filter(({ fault }) => fault === null).map(rowOf);
    if (rows.length > 0) print(formatTable([['NAME', 'NEXT', 'WHEN', 'SESSION', 'LAST'], ...rows]));
    for (const { fault } of found) if (fault !== null) print(`Does not run: ${stripControls(fault)}`);
    if (!client.daemon()) printNote('No daemon is running: nothing is sent until one is.');
  }
  return found.some(({ fault }) => fault !== null) ? 'error' : 'ok';
}

function rowOf({ name, schedule: one, next, last }: ScheduleSummary): string[] {
  const { cron, at, every, heartbeat, active } = one ?? {};
  const when = cron ?? (at === undefined ? `every ${every ?? heartbeat}${active ? `, ${active}` : ''}` : `once ${at}`);
  const zone = one?.zone === undefined ? '' : ` ${one.zone}`;
  return [
    name,
    next === null ? (one?.enabled === false ? 'paused' : 'never again') : formatLocalTime(next),
    toSingleLine(when + zone, 40),
    toSingleLine(one?.session ?? '', 30),
    last === null ? '' : `${formatLocalTime(last.due)} ${describeState(last)}`,
  ];
}

function printTimes(times: readonly string[], { json }: ScheduleArgs): ExitName {
  if (json) printJson(times);
  else if (times.length === 0) printNote('It is not due again.');
  else print(times.map(formatLocalTime).join('\n'));
  return 'ok';
}

function printHistory(occurrences: readonly Occurrence[], { json }: ScheduleArgs): ExitName {
  if (json) printJson(occurrences);
  else if (occurrences.length === 0) printNote('It has not been due yet.');
  else print(occurrences.map(formatOccurrence).join('\n'));
  return 'ok';
}

function formatOccurrence(occurrence: Occurrence): string {
  const { due, why, missed_since: from, session, reply } = occurrence;
  const since = from === undefined ? '' : ` (and all since ${formatLocalTime(from)})`;
  const answer = session !== undefined && reply !== undefined ? `, reply ${reply} in ${session}` : '';
  const reason = why === undefined ? '' : `: ${why}`;
  return toSingleLine(`${formatLocalTime(due)}  ${describeState(occurrence)}${since}${answer}${reason}`, 1000);
}

/** What became of an occurrence, in a few words. */
function describeState({ state, outcome, caught_up: late, by }: Occurrence): string {
  const words = { waiting: 'waits', sent: 'sent, no reply yet', ran: 'ran', skipped: 'skipped', failed: 'failed' };
  const how = [...(late ? ['caught up'] : []), ...(by === 'person' ? ['by a person'] : [])];
  return `${words[state]}${state === 'ran' && outcome ? ` (${outcome})` : ''}${how.length > 0 ? `, ${how.join(', ')}` : ''}`;
}
