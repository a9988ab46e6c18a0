import { clientOf, command, SESSION, wholeNumber } from '../command.ts';
import { eventLine } from '../event-line.ts';
import { note, say, sayLine } from '../print.ts';
import { goneInWords } from '../record.ts';

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
      .option('last', {
        type: 'number',
        alias: 'n',
        requiresArg: true,
        conflicts: 'from',
        coerce: wholeNumber('last'),
        describe: 'Only so many events, from the end',
      })
      .option('json', { type: 'boolean', describe: 'Print the lines of the record as they are' }),
  async run(args) {
    const { follow } = args;
    const client = await clientOf(args);
    const from =
      args.last === undefined ? args.from : Math.max(1, (await client.lastSeq(args.session)) - args.last + 1);
    const gone = await client.gone(args.session);
    if ((from ?? 1) <= gone) note(goneInWords(gone));
    const events = client.events(args.session, { from, follow });
    for await (const { event, line } of events) {
      if (args.json) sayLine(line);
      else say(eventLine(event));
    }
    return 'ok';
  },
});
