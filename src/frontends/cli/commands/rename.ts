import { clientOf, command, SESSION } from '../command.ts';
import { say } from '../print.ts';

export const rename = command({
  usage: 'rename <session> <name>',
  describe: 'Give a session another name',
  builder: (cli) =>
    cli
      .positional('session', SESSION)
      .positional('name', { type: 'string', demandOption: true, describe: 'The new name' }),
  async run(args) {
    say(`It is now ${await (await clientOf(args)).rename(args.session, args.name)}`);
    return 'ok';
  },
});
