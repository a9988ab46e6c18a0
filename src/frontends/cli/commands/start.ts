import { daemonArgs, daemonOptions } from '../../options.ts';
import { clientOf, command } from '../command.ts';
import { say } from '../print.ts';

export const start = command({
  usage: 'start',
  describe: 'Start the daemon in the background',
  builder: (cli) => daemonOptions(cli),
  async run(args, { program }) {
    const client = await clientOf(args);
    const owner = await client.start({ program, args: daemonArgs(args) });
    say(`The daemon is running: process ${owner.pid}, workspace ${client.paths.root}, log ${client.paths.log}`);
    return 'ok';
  },
});
