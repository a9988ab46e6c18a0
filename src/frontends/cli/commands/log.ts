import { clientOf, command, SESSION, wholeNumber } from '../command.ts';
import { eventLine } from '../event-line.ts';
import { say } from '../print.ts';

export const log = command({
  usage: 'log <session>',
  describe: 'Print what happened, one line an event',
  builder: (cli) =>
    cli
      .positional('session', SESSION)
      .option('follow', { type: 'boolean', alias: 'f', describe: 'Go on with what comes' })
      .option('from', {
        type: 'number',
        requiresArg: true,
        coerce: wholeNumber('from'),
        describe: 'First event, by its number',
      })
      .option('json', { type: 'boolean', describe: 'Print the lines of the record as they are' }),
  async run(args) {
    const { from, follow } = args;
    const events = (await clientOf(args)).events(args.session, { from, follow });
    for await (const { event, line } of events) say(args.json ? line : eventLine(event));
    return 'ok';
  },
});
