import { answerCall, answeringOptions } from '../approval.ts';
import { command } from '../command.ts';

export const approve = command({
  usage: 'approve <session> [id]',
  describe: 'Let the call that waits for an answer run, once',
  builder: (cli) =>
    answeringOptions(cli).option('always', {
      type: 'boolean',
      describe: 'Also add a rule to session.json, so that calls like it are not asked about',
    }),
  run: (args) => answerCall(args, (id) => `approve ${id}${args.always ? ' always' : ''}`),
});
