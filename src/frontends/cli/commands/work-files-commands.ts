import type { Argv } from 'yargs';
import { firstFew, formatLocalTime } from '../../../base/strings.ts';
import { UserError } from '../../../base/user-error.ts';
import type { CheckpointFiles, RestorePreview, WorkDiff } from '../../../client/history/work-history.ts';
import type { Client } from '../../../client/index.ts';
import type { CheckpointEntry, FileChange, LeftOut } from '../../../protocol/session/checkpoint.ts';
import { defineCommand, EXIT_CODES, JSON_OPTION, openSession, SESSION_PREFIX_ARG } from '../common/command.ts';
import { addSendOptions, sendAndWait } from '../common/send-and-wait.ts';
import {
  askPerson,
  colorize,
  formatTable,
  print,
  printJson,
  printNote,
  stripControls,
  toSingleLine,
} from '../common/terminal.ts';

export const diff = defineCommand({
  usage: 'diff <session> [from] [to]',
  describe: 'Show what changed in work/: in a step, since a checkpoint, or between two moments',
  builder: (cli) =>
    cli
      .positional('session', SESSION_PREFIX_ARG)
      .positional('from', {
        type: 'string',
        describe: 'A step, to see what it changed, or the number of a checkpoint; by default the last checkpoint',
      })
      .positional('to', { type: 'string', describe: 'A step or a checkpoint; by default work/ as it is now' })
      .option('full', { type: 'boolean', describe: 'Print a unified diff' })
      .option('json', JSON_OPTION)
      .example('$0 diff demo step_2 --full', 'what step_2 changed, line by line'),
  async run(args) {
    const { client, session } = await openSession(args);
    const found = await client.diffWork(session, [args.from, args.to], args.full === true);
    if (args.json) printJson(found);
    else print(args.full ? stripControls(found.patch?.trimEnd() ?? '') : formatDiff(found));
    if (!args.json) noteLeftOut(found.left_out);
  },
});

export const files = defineCommand({
  usage: 'files <session>',
  describe: 'List the files in work/, now or at the end of a step',
  builder: (cli) =>
    cli
      .positional('session', SESSION_PREFIX_ARG)
      .option('at', { type: 'string', requiresArg: true, describe: 'A step, or the number of a checkpoint' })
      .option('json', JSON_OPTION)
      .example('$0 files demo --at step_2', ''),
  async run(args) {
    const { client, session } = await openSession(args);
    const found = await client.filesAt(session, args.at);
    if (args.json) printJson(found);
    else if (found.entries.length === 0) printNote('work/ is empty.');
    else print(formatFiles(found));
    if (!args.json) noteLeftOut(found.left_out);
  },
});

export const restore = defineCommand({
  usage: 'restore <session> <at> [path..]',
  describe: 'Make the files in work/ what they were at the end of a step; a checkpoint is taken first',
  builder: (cli) =>
    addRestoreOptions(
      addSendOptions(
        cli
          .positional('session', SESSION_PREFIX_ARG)
          .positional('at', { type: 'string', demandOption: true, describe: 'A step, or the number of a checkpoint' })
          .positional('path', { type: 'string', array: true, describe: 'Only these files and folders, as in work/' }),
      ),
    ),
  async run(args) {
    const { client, session } = await openSession(args);
    const paths = [...(args.path ?? []), ...args._.slice(1).map(String)];
    const preview = await client.previewRestore(session, args.at, paths);
    if (args['dry-run'] || preview.files.length === 0) {
      if (args.json) printJson(preview);
      else print(formatPreview(preview));
      return 'ok';
    }
    if (!args.yes && !(await confirmRestore(preview))) {
      printNote('Nothing was restored.');
      return 'error';
    }
    const message = { command: `restore ${preview.checkpoint}`, ...(paths.length > 0 && { text: paths.join('\n') }) };
    const wait = args.wait ?? client.daemon() !== undefined;
    return sendAndWait(client, session, message, { ...args, wait }, { mustExist: true });
  },
});

export const undo = defineCommand({
  usage: 'undo <session>',
  describe: 'Reopen the step that was closed last, and its files if you want',
  builder: (cli) =>
    addSendOptions(cli.positional('session', SESSION_PREFIX_ARG))
      .option('files', {
        type: 'boolean',
        describe: 'Also restore the files that the step changed; a checkpoint is taken first',
      })
      .option('keep-files', {
        type: 'boolean',
        conflicts: 'files',
        describe: 'Leave the files as they are; the default where nobody can be asked',
      }),
  async run(args) {
    const { client, session } = await openSession(args);
    const isAsked = !args.files && !args['keep-files'] && process.stdin.isTTY === true;
    const withFiles = args.files === true || (isAsked && (await confirmFiles(client, session)));
    return sendAndWait(client, session, { command: withFiles ? 'undo --files' : 'undo' }, args, { mustExist: true });
  },
});

/** Where the files could not be restored anyway, nobody is asked. */
async function confirmFiles(client: Client, session: string): Promise<boolean> {
  const preview = await client.previewUndo(session).catch(() => undefined);
  if (!preview || preview.files.length === 0) return false;
  printNote(`${preview.step} is reopened. Its files can be restored as well:\n${formatChanges(preview)}`);
  return /^y(es)?$/i.test(await askPerson('Restore its files, too? [y/N] ', 'n'));
}

function addRestoreOptions<T>(cli: Argv<T>) {
  return cli
    .option('dry-run', { type: 'boolean', describe: 'Say what would change, and change nothing' })
    .option('yes', { type: 'boolean', alias: 'y', describe: 'Do not ask for confirmation' })
    .example('$0 restore demo step_1 report.md', 'one file, as step_1 left it');
}

async function confirmRestore(preview: RestorePreview): Promise<boolean> {
  if (!process.stdin.isTTY)
    throw new UserError(
      'Cannot ask for confirmation: standard input is not a terminal. Pass --yes to restore, or --dry-run to see what would change.',
      EXIT_CODES.usage.code,
    );
  printNote(formatPreview(preview));
  return /^y(es)?$/i.test(await askPerson('Restore these files? [y/N] ', 'n'));
}

/** What happens to a file that a restore brings back, changes back or removes. */
const VERBS: Record<FileChange['is'], string> = { added: 'bring back', changed: 'change back', removed: 'remove' };

function formatPreview({ checkpoint, files: changes }: RestorePreview): string {
  if (changes.length === 0) return `Nothing to restore: the files are as they were at checkpoint ${checkpoint}.`;
  return `To checkpoint ${checkpoint}:\n${formatChanges({ files: changes })}`;
}

const formatChanges = ({ files: changes }: Pick<RestorePreview, 'files'>): string =>
  changes.map(({ path, is }) => `  ${VERBS[is].padEnd(11)}  ${toSingleLine(path, 1000)}`).join('\n');

const MARKS: Record<FileChange['is'], string> = { added: '+', changed: '~', removed: '-' };

function formatDiff({ from, to, counts, files: changes }: WorkDiff): string {
  const head = `${momentName(from)} to ${momentName(to)}: ${counts.added} added, ${counts.changed} changed, ${counts.removed} removed`;
  return [colorize('bold', head), ...changes.map(({ path, is }) => `${MARKS[is]} ${toSingleLine(path, 1000)}`)].join(
    '\n',
  );
}

const momentName = (moment: number | 'now'): string =>
  moment === 'now' ? 'now' : moment === 0 ? 'the empty folder' : `checkpoint ${moment}`;

function formatFiles({ checkpoint, at, entries, concurrent }: CheckpointFiles): string {
  const time = at === null ? '' : ` (${formatLocalTime(at)}${concurrent ? ', others worked in it meanwhile' : ''})`;
  const head = colorize('bold', `work/ at ${momentName(checkpoint)}${time}`);
  return `${head}\n${formatTable(entries.map(formatEntry))}`;
}

function formatEntry(entry: CheckpointEntry): string[] {
  const path = toSingleLine(entry.path, 1000);
  if (entry.kind === 'folder') return ['', `${path}/`];
  return entry.kind === 'link' ? ['', `${path} -> ${toSingleLine(entry.target, 1000)}`] : [String(entry.size), path];
}

/** On standard error: what a checkpoint does not have is said wherever it is shown. */
function noteLeftOut(leftOut: readonly LeftOut[]): void {
  if (leftOut.length === 0) return;
  const named = leftOut.map(({ path, why }) => `${toSingleLine(path || 'work/', 200)} (${why.replace('_', ' ')})`);
  printNote(`Partial; left out: ${firstFew(named).join(', ')}.`);
}
