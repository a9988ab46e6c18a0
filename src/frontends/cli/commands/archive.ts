import { clientOf, command, SESSION } from '../command.ts';
import { say } from '../print.ts';

export const archive = command({
  usage: 'archive <session>',
  describe: 'Put a session away into .archive/',
  builder: (cli) => cli.positional('session', SESSION),
  async run(args) {
    say(`It is now ${await (await clientOf(args)).archive(args.session)}`);
    return 'ok';
  },
});
