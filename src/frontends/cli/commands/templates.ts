import { clientOf, command, JSON_OPTION } from '../command.ts';
import { note, plain, say, sayJson } from '../print.ts';

export const templates = command({
  usage: 'templates',
  describe: 'List the templates of the workspace, how each is run, and what is wrong with any',
  builder: (cli) => cli.option('json', JSON_OPTION),
  async run(args) {
    const client = await clientOf(args);
    const found = await client.templates();
    if (args.json) sayJson(found);
    else if (found.length === 0)
      note(`No templates in ${client.paths.templates}. See docs/templates.md, or: agentctl save-template --help`);
    else say(plain(found.map(paragraph).join('\n')));
    return found.some(({ faults }) => faults.length > 0) ? 'error' : 'ok';
  },
});

type Shown = Awaited<ReturnType<Awaited<ReturnType<typeof clientOf>>['templates']>>[number];

function paragraph({ usage, description, parameters, faults }: Shown): string {
  const named = parameters.flatMap(({ name, description: what }) => (what === null ? [] : [`    ${name}: ${what}`]));
  return [
    usage,
    ...(description === null ? [] : [`    ${description}`]),
    ...named,
    ...faults.map((fault) => `    wrong: ${fault}`),
  ].join('\n');
}
