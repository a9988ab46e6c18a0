import type { Argv } from 'yargs';
import { UserError } from '../../../base/user-error.ts';
import {
  defineCommand,
  type GlobalOptions,
  type JobListing,
  JSON_OPTION,
  openWorkspaceClient,
  parseWholeNumber,
  SESSION_ARG,
} from '../common/command.ts';
import type { ExitName } from '../common/exit-codes.ts';
import { addSendOptions, defineMessageCommand, sendAndWait } from '../common/send-and-wait.ts';
import { colorize, formatTable, print, printJson, printNote, toSingleLine } from '../common/terminal.ts';

export const continueRun = defineCommand({
  usage: 'continue <session> [note..]',
  describe: 'Go on where the run rests; a note goes along',
  builder: (cli) =>
    addSendOptions(
      cli
        .positional('session', SESSION_ARG)
        .positional('note', {
          type: 'string',
          array: true,
          describe: 'What to mind, or the id of a plan that was set aside',
        })
        .option('iterations', {
          type: 'number',
          requiresArg: true,
          coerce: parseWholeNumber('iterations'),
          describe: 'Model calls before it pauses again',
        }),
    ),
  async run(args) {
    const text = [...(args.note ?? []), ...args._.slice(1).map(String)].join(' ');
    const { iterations } = args;
    const message = {
      command: 'continue',
      ...(text !== '' && { text }),
      ...(iterations !== undefined && { options: { limits: { iterations } } }),
    };
    return sendAndWait(await openWorkspaceClient(args), args.session, message, args, { mustExist: true });
  },
});

export const pause = defineMessageCommand('pause', 'Finish the call in flight, then rest', 'pause');

export const stopRun = defineMessageCommand(
  'stop-run',
  'Abort the call in flight and rest; "continue" goes on',
  'stop',
);

export const cancel = defineMessageCommand('cancel', 'Abort the call in flight and end the plan', 'cancel');

export const undo = defineMessageCommand('undo', 'Open the step that was closed last', 'undo');

export const newConversation = defineMessageCommand('new', 'Put the plan away and start a fresh conversation', 'new');

export const approve = defineCommand({
  usage: 'approve <session> [id]',
  describe: 'Let the call that waits for an answer run, once',
  builder: (cli) =>
    addApprovalOptions(cli).option('always', {
      type: 'boolean',
      describe: 'Also add a rule to session.json, so that calls like it are not asked about',
    }),
  run: (args) => answerApproval(args, (id) => `approve ${id}${args.always ? ' always' : ''}`),
});

export const deny = defineCommand({
  usage: 'deny <session> [id]',
  describe: 'Tell the model that the call that waits may not run',
  builder: (cli) => addApprovalOptions(cli),
  run: (args) => answerApproval(args, (id) => `deny ${id}`),
});

/** Options of the commands that answer a call that waits. */
function addApprovalOptions<T>(cli: Argv<T>) {
  return addSendOptions(
    cli.positional('session', SESSION_ARG).positional('id', {
      type: 'number',
      coerce: parseWholeNumber('id'),
      describe: 'The number of the call; left out where only one waits',
    }),
  );
}

type ApprovalArgs = GlobalOptions & Parameters<typeof sendAndWait>[3] & { session: string; id: number | undefined };

/**
 * Finds the call first, since it may wait in a session that works for the one that is named, and sends that one the
 * answer.
 */
async function answerApproval(args: ApprovalArgs, says: (id: number) => string): Promise<ExitName> {
  const client = await openWorkspaceClient(args);
  const { session, id } = await client.approvalRequest(args.session, args.id);
  return sendAndWait(client, session, { command: says(id) }, args, { mustExist: true });
}

export const jobs = defineCommand({
  usage: 'jobs <session> [action] [job]',
  describe: 'List the commands a session runs in the background, or stop one',
  builder: (cli) =>
    cli
      .positional('session', SESSION_ARG)
      .positional('action', { choices: ['stop'] as const, describe: 'Ends a job with all its processes' })
      .positional('job', { type: 'string', describe: 'Which one, as in job_1' })
      .option('json', JSON_OPTION)
      .example('$0 jobs demo stop job_1', ''),
  async run(args, parts) {
    const client = await openWorkspaceClient(args);
    if (args.action === 'stop' && args.job === undefined)
      throw new UserError(`Which job? agentctl jobs ${args.session} lists them; end one with: stop job_1`);
    const found = await parts.jobs(client.folder(args.session), args.action && args.job);
    if (args.json) printJson(found);
    else if (found.length === 0) printNote('No jobs.');
    else print(formatJobs(found));
    return 'ok';
  },
});

function formatJobs(found: JobListing[]): string {
  const [head = '', ...lines] = formatTable([
    ['JOB', 'STATE', 'SECONDS', 'COMMAND'],
    ...found.map(({ id, how, for_s, command: said }) => [id, how, String(for_s ?? '-'), toSingleLine(said, 100)]),
  ]).split('\n');
  return [colorize('bold', head), ...lines.map((line) => line.trimEnd())].join('\n');
}
