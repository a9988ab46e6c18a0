import { act, actingOptions } from '../act.ts';
import { clientOf, command, SESSION, wholeNumber } from '../command.ts';

export const goOn = command({
  usage: 'continue <session> [note..]',
  describe: 'Go on where the run rests; a note goes along',
  builder: (cli) =>
    actingOptions(
      cli
        .positional('session', SESSION)
        .positional('note', {
          type: 'string',
          array: true,
          describe: 'What to mind, or the id of a plan that was set aside',
        })
        .option('iterations', {
          type: 'number',
          requiresArg: true,
          coerce: wholeNumber('iterations'),
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
    return act(await clientOf(args), args.session, message, args, { mustExist: true });
  },
});
