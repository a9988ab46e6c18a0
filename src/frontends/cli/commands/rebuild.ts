import { clientOf, command, JSON_OPTION, SESSION } from '../command.ts';
import { plain, say, sayJson } from '../print.ts';

export const rebuild = command({
  usage: 'rebuild <session>',
  describe: 'Write plan.json, ended plans and missing replies anew from the record',
  builder: (cli) => cli.positional('session', SESSION).option('json', JSON_OPTION),
  async run(args) {
    const files = await (await clientOf(args)).rebuild(args.session);
    if (args.json) sayJson(files);
    else {
      for (const { path, is, why } of files) {
        if (is !== 'as it was') say(plain(`${is.padEnd(8)} ${path}${why ? ` (${why})` : ''}`));
      }
      const same = files.filter((file) => file.is === 'as it was').length;
      say(`${same} of ${files.length} files were as the record has them.`);
    }
    return 'ok';
  },
});
