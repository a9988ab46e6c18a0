import { formatLocalTime as localTime } from '../../../base/strings.ts';
import { UserError } from '../../../base/user-error.ts';
import { Role } from '../../../protocol/workspace/daemon-files.ts';
import { defineCommand, EXIT_CODES, JSON_OPTION, openWorkspaceClient } from '../common/command.ts';
import { formatTable, print, printJson, printNote } from '../common/terminal.ts';

export const token = defineCommand({
  usage: 'token <action> [name]',
  describe: 'Give others access over HTTP: add, list and remove their tokens',
  builder: (cli) =>
    cli
      .positional('action', { choices: ['add', 'list', 'remove'] as const, demandOption: true })
      .positional('name', { type: 'string', describe: 'Whose token it is; the sender of their messages' })
      .option('role', {
        choices: Role.options,
        default: 'send' as const,
        describe: 'add: read; send messages and edit plans too; approve calls too; admin',
      })
      .option('sessions', {
        type: 'string',
        array: true,
        requiresArg: true,
        describe: 'add: the name of a session they may see; "*" stands for any text; by default all',
      })
      .option('json', JSON_OPTION)
      .example('$0 token add ana --role approve --sessions "report-*"', ''),
  async run(args) {
    const client = await openWorkspaceClient(args);
    const { openAccessTokens } = await import('../../../client/actions/access.ts');
    const tokens = openAccessTokens(client.paths);
    if (args.action === 'list') {
      const all = tokens.list().map(({ sha256: _, ...shown }) => shown);
      if (args.json) printJson(all);
      else if (all.length === 0) printNote('No tokens besides .agentd/token. Add one: agentctl token add --help');
      else
        print(formatTable(all.map((one) => [one.name, one.role, one.sessions.join(' '), localTime(one.created_at)])));
      return 'ok';
    }
    const { name } = args;
    if (name === undefined)
      throw new UserError(`Expected a name: agentctl token ${args.action} <name>`, EXIT_CODES.usage.code);
    if (args.action === 'remove') {
      await tokens.remove(name);
      print(`The token of ${name} no longer works.`);
      return 'ok';
    }
    await client.accessToken();
    const added = await tokens.add({ name, role: args.role, sessions: args.sessions ?? ['*'] });
    if (args.json) printJson({ name, token: added });
    else {
      print(added);
      printNote('It is shown once and not kept. Servers that run accept it at once.');
    }
    return 'ok';
  },
});
