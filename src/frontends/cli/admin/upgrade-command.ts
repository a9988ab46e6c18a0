import { readFileSync, statSync } from 'node:fs';
import { dirname, resolve, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import { firstFew, formatLocalTime } from '../../../base/strings.ts';
import { UserError } from '../../../base/user-error.ts';
import type { Rehearsal } from '../../../client/upkeep/rehearse-upgrade.ts';
import type { LogRepair } from '../../../client/upkeep/repair-log.ts';
import { readableName } from '../../../protocol/workspace/session-names.ts';
import { parsePlainDaemonLine, readDaemonFlags, versionAt, versionWithCommit } from '../../command-line.ts';
import { restartDaemon } from '../commands/daemon-lifecycle.ts';
import {
  defineCommand,
  formatCommand,
  JSON_OPTION,
  openSession,
  openWorkspaceClient,
  SESSION_ARG,
} from '../common/command.ts';
import { print, printDone, printJson, printNote, stripControls } from '../common/terminal.ts';
import { confirm } from './maintenance.ts';

export const upgrade = defineCommand({
  usage: 'upgrade',
  describe: 'Read every file with this version, say what would change, and restart the daemon with it',
  builder: (cli) =>
    cli
      .option('rehearse', { type: 'boolean', describe: 'Only read and say; nothing is changed' })
      .option('json', JSON_OPTION)
      .epilogue('The daemon is not stopped if there is a file that this version cannot use.'),
  async run(args, { program }) {
    const client = await openWorkspaceClient(args);
    const owner = client.daemon();
    const running = owner && readDaemonFlags(owner.pid);
    const config = running?.flags.config && resolve(running.cwd, running.flags.config);
    const rehearsal = await client.rehearse(config);
    const { readLastStart } = await import('../../../client/actions/daemon-control.ts');
    const before = readLastStart(client.paths);
    if (before && parsePlainDaemonLine(before.args) === undefined)
      rehearsal.findings.push({
        file: '.agentd/started.json',
        is: 'wrong',
        text: `the flags of the last start are not those of this version: ${before.args.join(' ')}`,
      });
    const from = owner && (versionOfProcess(owner) ?? 'another');
    const isFit = !rehearsal.findings.some(({ is }) => is === 'wrong');
    if (args.json) printJson({ version: versionWithCommit(), daemon: from ?? null, fit: isFit, ...rehearsal });
    else print(stripControls(formatRehearsal(rehearsal, from)));
    if (!isFit && !args.rehearse)
      throw new UserError('Nothing was changed: repair what is named above, then run the command again.');
    if (args.rehearse) return isFit ? 'ok' : 'error';
    await restartDaemon(client, program, {});
    return 'ok';
  },
});

/** What runs as a process, as `versionWithCommit`; undefined if that cannot be told, or was replaced since it began. */
function versionOfProcess({ pid, at }: { pid: number; at: string }): string | undefined {
  try {
    const [, program = ''] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    if (statSync(program).ctimeMs > Date.parse(at)) return undefined;
    return versionAt(pathToFileURL(resolve(dirname(program), '..') + sep)).words;
  } catch {
    return undefined;
  }
}

const MARKS = { wrong: '✗', change: '~', note: '·' } as const;
/** Files of one kind that are named. */
const MAX_SHOWN = 20;

function formatRehearsal({ read, findings, release, newer }: Rehearsal, from: string | undefined): string {
  const order = Object.keys(MARKS);
  const sorted = [...findings].sort((one, other) => order.indexOf(one.is) - order.indexOf(other.is));
  const more = sorted.length - 3 * MAX_SHOWN;
  const stay = read.sessions - newer.length;
  return [
    `This is agentd ${versionWithCommit()}. ${from === undefined ? 'No daemon runs here.' : `The daemon that runs here is ${from}.`}`,
    `Read: ${read.sessions} sessions with ${read.events} events, ${read.settings} settings files, ${read.schedules} schedules, ${read.templates} templates.`,
    ...sorted
      .slice(0, 3 * MAX_SHOWN)
      .map(({ file, is, text }) => `${MARKS[is]} ${file}: ${text.replaceAll('\n', '\n  ')}`),
    ...(more > 0 ? [`  and ${more} more (--json has all)`] : []),
    ...(findings.length === 0 ? ['Nothing would change.'] : []),
    newer.length === 0
      ? `Going back to the older build ${release} is possible for all sessions, until one has the first event that it does not know. The first checkpoint of work/ (work.saved) is one.`
      : `Going back to the older build ${release} is possible for ${stay} of ${read.sessions} sessions. It does not serve these, and changes nothing in them:`,
    ...newer
      .slice(0, MAX_SHOWN)
      .map(({ session, seq, at, what }) => `  ${readableName(session)}: event ${seq}, ${formatLocalTime(at)}: ${what}`),
    ...(newer.length > MAX_SHOWN ? [`  and ${newer.length - MAX_SHOWN} more`] : []),
  ].join('\n');
}

export const repair = defineCommand({
  usage: 'repair <session>',
  describe: 'Go on with what is left of a damaged event log; says what every dropped byte was, and keeps it',
  builder: (cli) =>
    cli
      .positional('session', SESSION_ARG)
      .option('yes', { type: 'boolean', alias: 'y', describe: 'Do not ask for confirmation' })
      .option('json', JSON_OPTION)
      .epilogue('If you have a backup of the session, restore that instead.'),
  async run(args) {
    const { client, session } = await openSession(args);
    const plan = await client.planRepair(session);
    if (!args.json) print(stripControls(formatRepair(plan, readableName(session))));
    if (!args.yes && !(await confirm('Go on without that?', 'to go on without it'))) {
      printNote('Nothing was changed.');
      return 'error';
    }
    const { accept, ...found } = plan;
    const kept = await accept();
    if (args.json) printJson({ ...found, kept });
    else {
      printDone(`The log ends with event ${plan.after} now. It is kept as it was in ${client.folder(session)}/${kept}`);
      printNote(`To write its files again from the log: ${formatCommand(['rebuild', readableName(session)], args)}`);
    }
    return 'ok';
  },
});

function formatRepair({ after, at, bytes, dropped, problem, files }: LogRepair, session: string): string {
  const more = files.length - MAX_SHOWN;
  return [
    `The event log of ${session} can be trusted up to event ${after}${at === null ? '' : `, ${formatLocalTime(at)}`}.`,
    ...(problem === null ? [] : [problem]),
    ...(bytes === 0 ? [] : [`The ${bytes} bytes after that are cut off:`]),
    ...dropped.slice(0, MAX_SHOWN).map((part) => `  ${describeDropped(part)}`),
    ...(dropped.length > MAX_SHOWN ? [`  and ${dropped.length - MAX_SHOWN} more parts (--json has all)`] : []),
    ...(files.length === 0 ? [] : ['These show that it was longer, and are moved away with it:']),
    ...files.slice(0, MAX_SHOWN).map((file) => `  ${file}`),
    ...(more > 0 ? [`  and ${more} more`] : []),
    'What happened after that counts as never having happened: commands may run again, and messages among these files',
    'are not answered unless they are dropped again.',
  ].join('\n');
}

function describeDropped({ file, from, to, line, why, events }: LogRepair['dropped'][number]): string {
  const place = `${file}, bytes ${from} to ${to} (from line ${line})`;
  if (why !== null) return `${place}: ${why}`;
  const [first, last] = [events[0], events.at(-1)];
  if (!first || !last) return `${place}: the header of a segment`;
  const range = first === last ? `event ${first.seq}` : `events ${first.seq} to ${last.seq}`;
  const types = [...new Set(events.map(({ type }) => type))];
  return `${place}: ${range}, which can be read, but not what was before: ${firstFew(types, 6).join(', ')}`;
}
