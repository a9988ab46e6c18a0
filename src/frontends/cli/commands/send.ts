import { text as readAll } from 'node:stream/consumers';
import { UserError } from '../../../protocol/errors.ts';
import { MODES } from '../../../protocol/mode-names.ts';
import { act, actingOptions, type Manner, type Outgoing } from '../act.ts';
import { clientOf, command, type Global, SESSION, wholeNumber } from '../command.ts';
import { EXITS, type Exit } from '../exit-codes.ts';
import { note } from '../print.ts';

export const send = command({
  usage: 'send <session> [text..]',
  describe: 'Send a message; a session that is not there is made',
  builder: (cli) =>
    actingOptions(
      cli
        .positional('session', SESSION)
        .positional('text', {
          type: 'string',
          array: true,
          describe: 'What to say; "-" or nothing reads it from standard input',
        })
        .option('file', { type: 'string', array: true, requiresArg: true, describe: 'Send a copy of this file along' })
        .option('stdin', {
          type: 'boolean',
          describe: 'Read the text from standard input, as "-" does',
        })
        .option('limit-iterations', {
          type: 'number',
          requiresArg: true,
          coerce: wholeNumber('limit-iterations'),
          describe: 'Model calls before the run pauses',
        })
        .option('mode', {
          choices: MODES,
          requiresArg: true,
          describe: 'Planning mode of the run this message starts',
        })
        .option('model', { type: 'string', requiresArg: true, describe: 'Model of the run this message starts' })
        .option('after', {
          type: 'boolean',
          describe: 'Do not join a run that is on, wait for its end',
        })
        .option('from', { type: 'string', requiresArg: true, describe: 'Who says it' })
        .example('$0 send demo "Count the words in notes.txt" --wait', '')
        .example('git diff | $0 send review - --file style.md', ''),
    ),
  async run(args) {
    const { limitIterations: iterations, mode, model, after, from, file } = args;
    const words = [...(args.text ?? []), ...args._.slice(1).map(String)];
    const text = words.length > 0 ? words.join(' ') : args.stdin || !file ? await fromStdin() : undefined;
    const options = {
      ...(iterations !== undefined && { limits: { iterations } }),
      ...(mode !== undefined && { mode }),
      ...(model !== undefined && { model }),
      ...(after && { when: 'after' as const }),
    };
    return sendMessage({ text, from, files: file, ...(Object.keys(options).length > 0 && { options }) }, args);
  },
});

/** Sends it; `args` says where to and what is told of it. */
export async function sendMessage(message: Outgoing, args: Global & Manner & { session: string }): Promise<Exit> {
  if (message.text?.trim() === '' && !message.files) throw nothing('the text is empty');
  return act(await clientOf(args), args.session, message, args, { mustExist: false });
}

async function fromStdin(): Promise<string> {
  if (process.stdin.isTTY) note('Type the message; end it with Ctrl-D.');
  const said = await readAll(process.stdin);
  if (said.trim() === '') throw nothing('no text was given and standard input is empty');
  return said;
}

const nothing = (why: string) => new UserError(`Nothing to send: ${why}.`, EXITS.usage.code);
