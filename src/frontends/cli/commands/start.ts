import { errorText, UserError } from '../../../protocol/errors.ts';
import { daemonArgs, daemonOptions } from '../../options.ts';
import { clientOf, command } from '../command.ts';
import { EXITS } from '../exit-codes.ts';
import { say } from '../print.ts';

export const start = command({
  usage: 'start',
  describe: 'Start the daemon in the background',
  builder: (cli) => daemonOptions(cli),
  async run(args, { program }) {
    const client = await clientOf(args);
    const owner = await client.start({ program, args: daemonArgs(args) }).catch((error: unknown) => {
      throw lostRace(error) ?? error;
    });
    say(`The daemon is running: process ${owner.pid}, workspace ${client.paths.root}, log ${client.paths.log}`);
    return 'ok';
  },
});

/** Several may start one at once; they share a log, and each loser tells of the owner in it. */
function lostRace(error: unknown): UserError | undefined {
  const line = errorText(error)
    .split('\n')
    .find((one) => one.includes(' has a daemon already: '));
  return line === undefined ? undefined : new UserError(line, EXITS.daemon.code);
}
