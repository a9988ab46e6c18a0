import { isUtf8 } from 'node:buffer';
import { buffer as readAll } from 'node:stream/consumers';
import { UserError } from '../../../base/user-error.ts';
import type { Reply } from '../../../protocol/session/reply.ts';
import { MODES } from '../../../protocol/settings/run-options.ts';
import { readableName } from '../../../protocol/workspace/session-names.ts';
import {
  defineCommand,
  EXIT_CODES,
  type ExitName,
  formatCommand,
  type GlobalOptions,
  JSON_OPTION,
  openSession,
  openWorkspaceClient,
  parseWholeNumber,
  SESSION_ARG,
  SESSION_PREFIX_ARG,
} from '../common/command.ts';
import {
  addSendOptions,
  type MessageContent,
  printReply,
  type SendOptions,
  sendAndWait,
} from '../common/send-and-wait.ts';
import { printNote } from '../common/terminal.ts';

export const send = defineCommand({
  usage: 'send <session> [text..]',
  describe: 'Send a message; creates the session if needed',
  builder: (cli) =>
    addSendOptions(
      cli
        .positional('session', SESSION_ARG)
        .positional('text', {
          type: 'string',
          array: true,
          describe: 'Text of the message; read from standard input if it is "-" or missing',
        })
        .option('file', { type: 'string', array: true, requiresArg: true, describe: 'Attach a copy of this file' })
        .option('stdin', { type: 'boolean', describe: 'Read the text from standard input, as "-" does' })
        .option('iterations', {
          type: 'number',
          requiresArg: true,
          coerce: parseWholeNumber('--iterations'),
          describe: 'Model calls before the run pauses',
        })
        .option('mode', {
          choices: MODES,
          requiresArg: true,
          describe: 'Planning mode of the run this message starts',
        })
        .option('model', { type: 'string', requiresArg: true, describe: 'Model of the run this message starts' })
        .option('after', { type: 'boolean', describe: 'Do not join the current run; wait for its end' })
        .option('from', { type: 'string', requiresArg: true, describe: 'Name of the sender' })
        .example('$0 send demo "Count the words in notes.txt" --wait', '')
        .example('git diff | $0 send review - --file style.md', ''),
    ),
  async run(args) {
    const { iterations, mode, model, after, from, file } = args;
    const words = [...(args.text ?? []), ...args._.slice(1).map(String)];
    const text = words.length > 0 ? words.join(' ') : args.stdin || !file ? await readTextFromStdin() : undefined;
    const options = {
      ...(iterations !== undefined && { limits: { iterations } }),
      ...(mode !== undefined && { mode }),
      ...(model !== undefined && { model }),
      ...(after && { when: 'after' as const }),
    };
    return sendMessage({ text, from, files: file, ...(Object.keys(options).length > 0 && { options }) }, args);
  },
});

/** Sends the message; `args` says where to and what to print. */
export async function sendMessage(
  message: MessageContent,
  args: GlobalOptions & SendOptions & { session: string },
): Promise<ExitName> {
  if (message.text?.trim() === '' && !message.files) throw nothingToSend('the text is empty');
  return sendAndWait(await openWorkspaceClient(args), args.session, message, args, { mustExist: false });
}

async function readTextFromStdin(): Promise<string> {
  if (process.stdin.isTTY) printNote('Type the message, then press Ctrl-D.');
  const bytes = await readAll(process.stdin);
  if (!isUtf8(bytes))
    throw nothingToSend('standard input is not UTF-8 text. Convert it first, or attach the file with --file');
  const text = bytes.toString();
  if (text.trim() === '') throw nothingToSend('no text given and standard input is empty');
  return text;
}

export const reply = defineCommand({
  usage: 'reply <session>',
  describe: 'Print the newest reply of a session',
  builder: (cli) => cli.positional('session', SESSION_PREFIX_ARG).option('json', JSON_OPTION),
  async run(args) {
    const { client, session } = await openSession(args);
    let newest: Reply | undefined;
    for await (const { event } of client.events(session)) if (event.type === 'reply.committed') newest = event.reply;
    if (newest) return printReply(newest, args);
    const name = readableName(session);
    throw new UserError(`${name} has no reply yet. To follow its run: ${formatCommand(['watch', name], args)}`);
  },
});

const nothingToSend = (why: string) => new UserError(`Nothing to send: ${why}.`, EXIT_CODES.usage.code);
