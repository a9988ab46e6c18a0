import { UserError } from '../../../protocol/errors.ts';
import { clientOf, command } from '../command.ts';
import { EXITS } from '../exit-codes.ts';
import { say } from '../print.ts';

export const stop = command({
  usage: 'stop',
  describe: 'Stop the daemon; what it is at goes on at the next start',
  // A session after it is most likely a slip for stop-run, and is told so rather than called unknown.
  builder: (cli) => cli.strict(false).strictOptions(),
  async run(args) {
    const [, session] = args._;
    if (session !== undefined) {
      throw new UserError(
        `"agentctl stop" stops the daemon. To stop the run of a session: agentctl stop-run ${session}`,
        EXITS.usage.code,
      );
    }
    const owner = await (await clientOf(args)).stop();
    say(`The daemon has stopped (it was process ${owner.pid}).`);
    return 'ok';
  },
});
