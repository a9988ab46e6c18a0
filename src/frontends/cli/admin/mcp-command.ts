import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { errorText, UserError } from '../../../base/user-error.ts';
import type { SettingsFile } from '../../../client/actions/settings-edit.ts';
import { McpServer, McpServers } from '../../../protocol/settings/mcp-config.ts';
import { workspaceRoot } from '../../command-line.ts';
import {
  type CliServices,
  defineCommand,
  EXIT_CODES,
  type GlobalOptions,
  openWorkspaceClient,
} from '../common/command.ts';
import { askPerson, print, printDone, printError, printNote, stripControls } from '../common/terminal.ts';

const ACTIONS = ['login', 'import'] as const;

export const mcp = defineCommand({
  usage: 'mcp [action] [name]',
  describe:
    'Offer the sessions to another agent as tools, over stdin and stdout (MCP); log in at MCP servers, import them',
  builder: (cli) =>
    cli
      .positional('action', { choices: ACTIONS, describe: 'login: at a server; import: servers of a .mcp.json' })
      .positional('name', {
        type: 'string',
        describe: 'The server to log in at; the file, by default that of the workspace',
      })
      .option('from', { type: 'string', requiresArg: true, describe: 'Sender of the messages of that agent' })
      .option('answer-approvals', {
        type: 'boolean',
        describe: 'Let the model of that agent allow and deny calls that wait for a person',
      })
      .option('session', {
        type: 'string',
        requiresArg: true,
        describe: 'login: as the session.json of this session has it',
      })
      .option('yes', { type: 'boolean', alias: 'y', describe: 'import: take all servers without asking' })
      .example('claude mcp add agentd -- $0 mcp', 'for Claude Code')
      .example('codex mcp add agentd -- $0 mcp', 'for Codex')
      .example('$0 mcp login tickets', 'in the browser; the tokens are stored in .agentd/logins'),
  async run(args, services) {
    if (args.action === 'login') await logIn(args, services);
    else if (args.action === 'import') return (await importServers(args)) ? 'ok' : 'error';
    else {
      const client = await openWorkspaceClient(args);
      const { serveMcp } = await import('../../mcp/index.ts');
      const context = { client, from: args.from, answersApprovals: args.answerApprovals === true };
      await serveMcp(context, { input: process.stdin, output: process.stdout, complain: printNote });
    }
    return 'ok';
  },
});

type McpArgs = GlobalOptions & { name: string | undefined; session?: string | undefined; yes?: boolean | undefined };

async function logIn({ workspace, name, session }: McpArgs, { login }: CliServices): Promise<void> {
  if (name === undefined)
    throw new UserError('Usage: agentctl mcp login <server>\nSee: agentctl mcp --help', EXIT_CODES.usage.code);
  const { stdin } = process;
  let paste: (address: string) => void = () => {};
  const pasted = new Promise<string>((resolve) => {
    paste = resolve;
  });
  const file = await login({
    ...{ root: workspaceRoot(workspace), name, session, env: process.env, pasted },
    show(url) {
      print(`Open this address in a browser:\n${stripControls(url)}`);
      if (!stdin.isTTY) return;
      printNote('If that browser is on another machine, paste the address it ends at here.');
      stdin.once('data', (line) => paste(line.toString().trim()));
    },
  });
  stdin.pause();
  printDone(`Logged in at ${stripControls(name)}. The tokens are in ${file}; remove that file to log out.`);
}

const McpFile = z.looseObject({ mcpServers: z.record(z.string().min(1).max(64), z.looseObject({})) });

/** Copies servers into `agentd.json`, each after a person has seen its entry. False if none was taken. */
async function importServers(args: McpArgs): Promise<boolean> {
  const client = await openWorkspaceClient(args);
  const path = args.name === undefined ? join(client.paths.root, '.mcp.json') : resolve(args.name);
  const found = readMcpFile(path);
  const edit = await import('../../../client/actions/settings-edit.ts');
  const file: SettingsFile = { path: client.paths.config, label: 'agentd.json', of: 'workspace' };
  const before = McpServers.safeParse(edit.readSetting(file, 'mcpServers') ?? {}).data ?? {};
  const taken = new Map<string, McpServer>();
  for (const [name, { server, unknown, fault }] of Object.entries(found)) {
    if (fault !== undefined) printError(stripControls(`${name} cannot be used: ${fault}`));
    else if (isDeepStrictEqual(before[name], server)) printNote(stripControls(`${name} is in agentd.json as it is.`));
    else {
      const replaces = Object.hasOwn(before, name) ? ' (replaces the one in agentd.json)' : '';
      print(stripControls(`${name}${replaces}: ${JSON.stringify(server)}`));
      if (unknown.length > 0)
        printNote(stripControls(`  not known to agentd, so without effect: ${unknown.join(', ')}`));
      if (args.yes || (await isWanted(name))) taken.set(name, server);
    }
  }
  const names = [...taken.keys()];
  if (names.length === 0) printNote('Nothing was imported.');
  else {
    for (const warning of await edit.writeSetting(file, 'mcpServers', { ...before, ...Object.fromEntries(taken) }))
      printNote(stripControls(`Warning: ${warning}`));
    printDone(
      stripControls(
        `${names.join(', ')} saved in ${file.path}. A program runs in the sandbox, without the network; \`network\`, \`read\` and \`write\` of its entry give it more.`,
      ),
    );
  }
  return names.length > 0;
}

type ForeignServer = { server: McpServer; unknown: string[]; fault?: string };

/** The entries of a file of other programs, whose further keys have no effect. */
function readMcpFile(path: string): Record<string, ForeignServer> {
  const read = McpFile.safeParse(parseFile(path));
  if (!read.success) throw new UserError(`${path}: expected an object with \`mcpServers\`, the servers by name.`);
  return Object.fromEntries(
    Object.entries(read.data.mcpServers).map(([name, entry]) => {
      const keys = Object.entries(entry);
      const known = Object.fromEntries(keys.filter(([key]) => key in McpServer.shape));
      const unknown = keys.map(([key]) => key).filter((key) => !(key in McpServer.shape));
      const checked = McpServer.safeParse(known);
      if (checked.success) return [name, { server: checked.data, unknown }];
      return [name, { server: {}, unknown, fault: checked.error.issues[0]?.message ?? 'it is not valid' }];
    }),
  );
}

function parseFile(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8').replace(/^\uFEFF/, ''));
  } catch (error) {
    throw new UserError(`${path} cannot be read: ${errorText(error)}`);
  }
}

async function isWanted(name: string): Promise<boolean> {
  if (!process.stdin.isTTY)
    throw new UserError(
      'Cannot ask: standard input is not a terminal. Pass --yes to take all servers.',
      EXIT_CODES.usage.code,
    );
  return /^y(es)?$/i.test(await askPerson(stripControls(`Use ${name}? [y/N] `), 'n'));
}
