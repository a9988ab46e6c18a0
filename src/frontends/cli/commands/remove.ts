import { createInterface } from 'node:readline/promises';
import { UserError } from '../../../protocol/errors.ts';
import { clientOf, command, SESSION } from '../command.ts';
import { EXITS } from '../exit-codes.ts';
import { note, say } from '../print.ts';

export const remove = command({
  usage: 'remove <session>',
  describe: 'Delete a session with everything in it',
  builder: (cli) =>
    cli.positional('session', SESSION).option('yes', { type: 'boolean', alias: 'y', describe: 'Do not ask' }),
  async run(args) {
    const client = await clientOf(args);
    const folder = client.folder(args.session);
    const children = client.family(args.session).length - 1;
    const what = children > 0 ? `${folder} and its ${children} child session${children > 1 ? 's' : ''}` : folder;
    if (!args.yes && !(await isMeant(what))) {
      note('Nothing was deleted.');
      return 'error';
    }
    await client.remove(args.session);
    say(`Deleted ${what}`);
    return 'ok';
  },
});

async function isMeant(what: string): Promise<boolean> {
  if (!process.stdin.isTTY) {
    throw new UserError(`Nobody is there to be asked whether ${what} may be deleted. Add --yes.`, EXITS.usage.code);
  }
  const asking = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return /^y(es)?$/i.test((await asking.question(`Delete ${what}, with record and files? [y/N] `)).trim());
  } finally {
    asking.close();
  }
}
