import type { Argv } from 'yargs';
import { act, actingOptions } from './act.ts';
import { clientOf, type Global, SESSION, wholeNumber } from './command.ts';
import type { Exit } from './exit-codes.ts';

/** Options of the commands that answer a call that waits. */
export function answeringOptions<T>(cli: Argv<T>) {
  return actingOptions(
    cli.positional('session', SESSION).positional('id', {
      type: 'number',
      coerce: wholeNumber('id'),
      describe: 'The number of the call; left out where only one waits',
    }),
  );
}

type Given = Global & Parameters<typeof act>[3] & { session: string; id: number | undefined };

/** Finds the call first, since it may wait in a session that works for the one that is named, and sends that one the answer. */
export async function answerCall(args: Given, says: (id: number) => string): Promise<Exit> {
  const client = await clientOf(args);
  const { session, id } = await client.asked(args.session, args.id);
  return act(client, session, { command: says(id) }, args, { mustExist: true });
}
