import { UserError } from '../../../protocol/errors.ts';
import { act, actingOptions } from '../act.ts';
import { clientOf, command, SESSION } from '../command.ts';
import { EXITS } from '../exit-codes.ts';

export const run = command({
  usage: 'run <session> <template> [params..]',
  describe: 'Work through a template of the workspace; a session that is not there is made',
  builder: (cli) =>
    actingOptions(
      cli
        .positional('session', SESSION)
        .positional('template', { type: 'string', demandOption: true, describe: 'Name of the template' })
        .positional('params', { type: 'string', array: true, describe: 'Values of its parameters, as in city=Paris' })
        .option('param', { type: 'string', array: true, requiresArg: true, describe: 'The same, as an option' })
        .example('$0 run demo weekly-report city=Paris "title=The week in Paris" --wait', ''),
    ),
  async run(args) {
    const given = [...(args.params ?? []), ...(args.param ?? []), ...args._.slice(1).map(String)];
    const text = [args.template, ...given.map(asArgument)].join(' ');
    return act(await clientOf(args), args.session, { command: 'run', text }, args, { mustExist: false });
  },
});

/** A word of the shell as `/run` reads it: its quotes are gone here, and come back there. */
function asArgument(word: string): string {
  const [, name = '', value = ''] = /^([^=\s]+)=([\s\S]*)$/.exec(word) ?? [];
  if (name === '')
    throw new UserError(`Wanted name=value, came ${JSON.stringify(word)}.\nSee: agentctl run --help`, EXITS.usage.code);
  return `${name}="${value.replace(/[\\"]/g, '\\$&')}"`;
}
