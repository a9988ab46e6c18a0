import { answerCall, answeringOptions } from '../approval.ts';
import { command } from '../command.ts';

export const deny = command({
  usage: 'deny <session> [id]',
  describe: 'Tell the model that the call that waits may not run',
  builder: (cli) => answeringOptions(cli),
  run: (args) => answerCall(args, (id) => `deny ${id}`),
});
