import { UserError } from '../../../base/user-error.ts';
import {
  defineCommand,
  EXIT_CODES,
  JSON_OPTION,
  openSession,
  openWorkspaceClient,
  SESSION_ARG,
  SESSION_PREFIX_ARG,
} from '../common/command.ts';
import { addSendOptions, requireTemplate, sendAndWait } from '../common/send-and-wait.ts';
import { print, printJson, printNote, stripControls } from '../common/terminal.ts';

export const run = defineCommand({
  usage: 'run <session> <template> [params..]',
  describe: 'Run a template of the workspace; creates the session if needed',
  builder: (cli) =>
    addSendOptions(
      cli
        .positional('session', SESSION_ARG)
        .positional('template', { type: 'string', demandOption: true, describe: 'Name of the template' })
        .positional('params', { type: 'string', array: true, describe: 'Values of its parameters, such as city=Paris' })
        .option('param', { type: 'string', array: true, requiresArg: true, describe: 'The same, as an option' })
        .example('$0 run demo weekly-report city=Paris "title=The week in Paris" --wait', ''),
    ),
  async run(args) {
    const given = [...(args.params ?? []), ...(args.param ?? []), ...args._.slice(1).map(String)];
    const values = given.map(quoteParameter).join(' ');
    const client = await openWorkspaceClient(args);
    await requireTemplate(client, args.template, values, args.session);
    const text = `${args.template} ${values}`.trim();
    return sendAndWait(client, args.session, { command: 'run', text }, args, { mustExist: false });
  },
});

/** An argument of the shell in the syntax of `/run`: the shell removed its quotes, so they are added again. */
function quoteParameter(word: string): string {
  const [, name = '', value = ''] = /^([^=\s]+)=([\s\S]*)$/.exec(word) ?? [];
  if (name === '')
    throw new UserError(
      `Expected name=value, got ${JSON.stringify(word)}.\nSee: agentctl run --help`,
      EXIT_CODES.usage.code,
    );
  return `${name}="${value.replace(/[\\"]/g, '\\$&')}"`;
}

export const templates = defineCommand({
  usage: 'templates',
  describe: 'List the templates of the workspace, how to run each, and their errors',
  builder: (cli) => cli.option('json', JSON_OPTION),
  async run(args) {
    const client = await openWorkspaceClient(args);
    const found = await client.templates();
    if (args.json) printJson(found);
    else if (found.length === 0)
      printNote(`No templates in ${client.paths.templates}. See docs/templates.md, or: agentctl save-template --help`);
    else print(stripControls(found.map(formatTemplate).join('\n')));
    return found.some(({ faults }) => faults.length > 0) ? 'error' : 'ok';
  },
});

type TemplateEntry = Awaited<ReturnType<Awaited<ReturnType<typeof openWorkspaceClient>>['templates']>>[number];

function formatTemplate({ usage, description, parameters, faults }: TemplateEntry): string {
  const named = parameters.flatMap(({ name, description: what }) => (what === null ? [] : [`    ${name}: ${what}`]));
  return [
    usage,
    ...(description === null ? [] : [`    ${description}`]),
    ...named,
    ...faults.map((fault) => `    error: ${fault}`),
  ].join('\n');
}

export const saveTemplate = defineCommand({
  usage: 'save-template <session> <name>',
  describe: 'Save the completed plan of a session as a template',
  builder: (cli) =>
    cli
      .positional('session', SESSION_PREFIX_ARG)
      .positional('name', { type: 'string', demandOption: true, describe: 'Name of the template' })
      .option('force', { type: 'boolean', describe: 'Replace an existing template of that name' })
      .option('json', { type: 'boolean', describe: 'Print the path as JSON' })
      .example('$0 save-template demo weekly-report', ''),
  async run(args) {
    const { client, session } = await openSession(args);
    const path = await client.saveTemplate(session, args.name, { force: args.force === true });
    if (args.json) printJson({ path });
    else {
      print(path);
      printNote('Add parameters for values that may differ next time; see docs/templates.md.');
    }
  },
});
