import type { Argv } from 'yargs';
import { formatLocalTime } from '../../../base/strings.ts';
import { InvalidArgument } from '../../../base/user-error.ts';
import type { ApprovalRequest } from '../../../client/index.ts';
import { readableName } from '../../../protocol/workspace/session-names.ts';
import type { ExitName } from '../common/command.ts';
import {
  defineCommand,
  formatCommand,
  type GlobalOptions,
  type JobListing,
  JSON_OPTION,
  openSession,
  openWorkspaceClient,
  parseWholeNumber,
  SESSION_PREFIX_ARG,
} from '../common/command.ts';
import { addSendOptions, defineMessageCommand, sendAndWait } from '../common/send-and-wait.ts';
import { colorize, formatTable, print, printJson, printNote, stripControls, toSingleLine } from '../common/terminal.ts';

export const continueRun = defineCommand({
  usage: 'continue <session> [note..]',
  describe: 'Resume the run, with an optional note',
  builder: (cli) =>
    addSendOptions(
      cli
        .positional('session', SESSION_PREFIX_ARG)
        .positional('note', {
          type: 'string',
          array: true,
          describe: 'A note for the model, or the id of a shelved plan',
        })
        .option('iterations', {
          type: 'number',
          requiresArg: true,
          coerce: parseWholeNumber('--iterations'),
          describe: 'Model calls before the run pauses again',
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
    const { client, session } = await openSession(args);
    return sendAndWait(client, session, message, args, { mustExist: true });
  },
});

export const pause = defineMessageCommand('pause', 'Finish the call in flight, then pause the run', 'pause');

export const stopRun = defineMessageCommand(
  'stop-run',
  'Abort the call in flight and pause the run; "continue" resumes it',
  'stop',
);

export const cancel = defineMessageCommand('cancel', 'Abort the call in flight and end the plan', 'cancel');

export const newConversation = defineMessageCommand('new', 'Archive the plan and start a new conversation', 'new');

export const approve = defineCommand({
  usage: 'approve <session> [id]',
  describe: 'Allow the call that is waiting for approval, once',
  builder: (cli) =>
    addApprovalOptions(cli).option('always', {
      type: 'boolean',
      describe: 'Also add a rule to session.json that allows similar calls',
    }),
  run: (args) => answerApproval(args, (id) => `approve ${id}${args.always ? ' always' : ''}`),
});

export const deny = defineCommand({
  usage: 'deny <session> [id]',
  describe: 'Deny the call that is waiting for approval, and tell the model',
  builder: (cli) => addApprovalOptions(cli),
  run: (args) => answerApproval(args, (id) => `deny ${id}`),
});

/** Options of the commands that answer a waiting call. */
function addApprovalOptions<T>(cli: Argv<T>) {
  return addSendOptions(
    cli.positional('session', SESSION_PREFIX_ARG).positional('id', {
      type: 'number',
      coerce: parseWholeNumber('id'),
      describe: 'Number of the call; optional if only one is waiting',
    }),
  );
}

type ApprovalArgs = GlobalOptions & Parameters<typeof sendAndWait>[3] & { session: string; id: number | undefined };

/**
 * Finds the call first, since it may wait in a session that works for the one that is named, and sends that one the
 * answer.
 */
async function answerApproval(args: ApprovalArgs, commandFor: (id: number) => string): Promise<ExitName> {
  const { client, session: named } = await openSession(args);
  const { session, id } = await client.approvalRequest(named, args.id);
  return sendAndWait(client, session, { command: commandFor(id) }, args, { mustExist: true });
}

export const approvals = defineCommand({
  usage: 'approvals',
  describe: 'List the calls that are waiting for approval in all sessions, and how to answer each',
  builder: (cli) => cli.option('json', JSON_OPTION),
  async run(args) {
    const waiting = await (await openWorkspaceClient(args)).allApprovalRequests();
    if (args.json) printJson(waiting);
    else if (waiting.length === 0) printNote('No call is waiting for approval.');
    else print(waiting.map((call) => formatWaitingCall(call, args)).join('\n\n'));
  },
});

/** The call to the letter, why it waits and until when, and the commands that answer it. */
function formatWaitingCall(
  { session, id, tool, display, why, expires_at, problem }: ApprovalRequest,
  place: GlobalOptions,
): string {
  const call = stripControls(`${tool} ${display}`).replaceAll('\n', '\n    ');
  return [
    colorize('bold', `${toSingleLine(readableName(session), 200)} ${id}: ${toSingleLine(why, 200)}`),
    `    ${call}`,
    ...(problem === null ? [] : [`  ${colorize('yellow', toSingleLine(problem, 1000))}`]),
    `  If nobody answers by ${formatLocalTime(expires_at)}, it is denied.`,
    `  ${formatCommand(['approve', readableName(session), `${id}`], place)}`,
    `  ${formatCommand(['deny', readableName(session), `${id}`], place)}`,
  ].join('\n');
}

export const jobs = defineCommand({
  usage: 'jobs <session> [action] [job]',
  describe: 'List the background commands of a session, or stop one',
  builder: (cli) =>
    cli
      .positional('session', SESSION_PREFIX_ARG)
      .positional('action', { choices: ['stop'] as const, describe: 'stop: end a job and all its processes' })
      .positional('job', { type: 'string', describe: 'Id of the job, such as job_1' })
      .option('json', JSON_OPTION)
      .example('$0 jobs demo stop job_1', ''),
  async run(args, parts) {
    const { client, session } = await openSession(args);
    if (args.action === 'stop' && args.job === undefined)
      throw new InvalidArgument(
        `Which job? ${formatCommand(['jobs', readableName(session)], args)} lists them; end one with: stop job_1`,
      );
    const found = await parts.jobs(client.folder(session), args.action && args.job);
    if (args.json) printJson(found);
    else if (found.length === 0) printNote('No jobs.');
    else print(formatJobs(found));
  },
});

function formatJobs(found: JobListing[]): string {
  const [head = '', ...lines] = formatTable([
    ['JOB', 'STATE', 'SECONDS', 'COMMAND'],
    ...found.map(({ id, how, for_s, command: text }) => [id, how, String(for_s ?? '-'), toSingleLine(text, 100)]),
  ]).split('\n');
  return [colorize('bold', head), ...lines.map((line) => line.trimEnd())].join('\n');
}
