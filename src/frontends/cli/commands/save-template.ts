import { clientOf, command, SESSION } from '../command.ts';
import { note, say, sayJson } from '../print.ts';

export const saveTemplate = command({
  usage: 'save-template <session> <name>',
  describe: 'Keep the completed plan of a session as a template',
  builder: (cli) =>
    cli
      .positional('session', SESSION)
      .positional('name', { type: 'string', demandOption: true, describe: 'Name of the template' })
      .option('force', { type: 'boolean', describe: 'Replace a template of that name' })
      .option('json', { type: 'boolean', describe: 'Print the path as JSON' })
      .example('$0 save-template demo weekly-report', ''),
  async run(args) {
    const path = await (await clientOf(args)).saveTemplate(args.session, args.name, { force: args.force === true });
    if (args.json) sayJson({ path });
    else {
      say(path);
      note('Put parameters into it where a value may differ next time; see docs/templates.md.');
    }
    return 'ok';
  },
});
