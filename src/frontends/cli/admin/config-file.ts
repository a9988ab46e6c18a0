import { resolve } from 'node:path';
import { quoteForShell } from '../../../base/strings.ts';
import { UserError } from '../../../base/user-error.ts';
import type { SettingsFile, SettingsFileCheck } from '../../../client/actions/settings-edit.ts';
import type { Client } from '../../../client/index.ts';
import { readableName } from '../../../protocol/workspace/session-names.ts';
import {
  defineCommand,
  EXIT_CODES,
  type ExitName,
  JSON_OPTION,
  openSession,
  openWorkspaceClient,
} from '../common/command.ts';
import { print, printDone, printJson, printNote, stripControls } from '../common/terminal.ts';

const ACTIONS = ['get', 'set', 'unset', 'path', 'validate'] as const;
type Action = (typeof ACTIONS)[number];

type ConfigArgs = {
  workspace: string | undefined;
  session?: string | undefined;
  config?: string | undefined;
  json?: boolean | undefined;
};

export const config = defineCommand({
  usage: 'config <action> [key] [value]',
  describe: 'Read, change and check agentd.json, or the session.json of a session',
  builder: (cli) =>
    cli
      .positional('action', {
        choices: ACTIONS,
        demandOption: true,
        describe: 'validate checks the files of all sessions too, unless you name one file',
      })
      .positional('key', { type: 'string', describe: 'Key, such as limits.iterations or permissions.0' })
      .positional('value', { type: 'string', describe: 'JSON, or a text that needs no quotes' })
      .option('session', { type: 'string', requiresArg: true, describe: 'The session.json of this session' })
      .option('config', { type: 'string', requiresArg: true, conflicts: 'session', describe: 'This file instead' })
      .option('json', JSON_OPTION)
      .example('$0 config set limits.iterations 80', '')
      .example('$0 config set permissions \'[{ "deny": "browser" }]\' --session demo', '')
      .epilogue('A change that would make the file invalid is refused. The daemon applies changes without a restart.'),
  async run(args) {
    const client = await openWorkspaceClient(args);
    const { action, key, value } = args;
    checkArguments(action, key, value);
    const edit = await import('../../../client/actions/settings-edit.ts');
    if (action === 'validate') {
      const files = args.session === undefined && args.config === undefined ? allFiles(client) : [];
      const checked = [await selectFile(client, args), ...files].map(edit.checkSettingsFile);
      return printChecks(
        checked.filter(({ exists }, n) => exists || n === 0),
        args.json,
      );
    }
    const file = await selectFile(client, args);
    if (action === 'get') return printSetting(edit.readSetting(file, key), `${key} is not set in ${file.label}.`, args);
    if (action === 'path') print(args.json ? JSON.stringify(file.path) : file.path);
    else {
      const warnings =
        action === 'set'
          ? await edit.writeSettingFromText(file, key ?? '', value ?? '')
          : await edit.writeSetting(file, key ?? '', undefined);
      for (const warning of warnings) printNote(stripControls(`Warning: ${warning}`));
      printDone(`${file.path} is saved.`);
      const used = client.status()?.settings?.file ?? 'agentd.json';
      if (file.path === client.paths.config && used !== 'agentd.json')
        printNote(
          `The running daemon reads ${used} instead. To change that: agentctl config … --config ${quoteForShell(used)}`,
        );
    }
    return 'ok';
  },
});

/** How many arguments each action takes. */
const WORDS: Record<Action, [least: number, most: number]> = {
  get: [0, 1],
  set: [2, 2],
  unset: [1, 1],
  path: [0, 0],
  validate: [0, 0],
};

function checkArguments(action: Action, key: string | undefined, value: string | undefined): void {
  const given = [key, value].filter((word) => word !== undefined).length;
  const [least, most] = WORDS[action];
  if (given >= least && given <= most) return;
  const usage = { get: ' [key]', set: ' <key> <value>', unset: ' <key>', path: '', validate: '' }[action];
  throw new UserError(`Usage: agentctl config ${action}${usage}\nSee: agentctl config --help`, EXIT_CODES.usage.code);
}

async function selectFile(client: Client, args: ConfigArgs): Promise<SettingsFile> {
  const { session, config: own, workspace } = args;
  if (own !== undefined) return { path: resolve(own), label: own, of: 'workspace' };
  if (session === undefined) return { path: client.paths.config, label: 'agentd.json', of: 'workspace' };
  const name = client.sessionName((await openSession({ workspace, session })).session);
  const [root = name] = client.sessions().filter((other) => name === other || name.startsWith(`${other}~`));
  if (root !== name)
    throw new UserError(
      `${readableName(name)} uses the settings of ${readableName(root)}. Use: agentctl config … --session ${quoteForShell(readableName(root))}`,
    );
  return sessionFile(client, name);
}

const sessionFile = (client: Client, name: string): SettingsFile => ({
  path: `${client.folder(name)}/session.json`,
  label: `${readableName(name)}/session.json`,
  of: 'session',
});

/** The files of all sessions that have settings of their own. */
function allFiles(client: Client): SettingsFile[] {
  const names = client.sessions();
  return names
    .filter((name) => !names.some((other) => name.startsWith(`${other}~`)))
    .map((name) => sessionFile(client, name));
}

function printSetting(value: unknown, missing: string, { json }: ConfigArgs): ExitName {
  if (value === undefined) throw new UserError(missing);
  if (typeof value === 'string' && !json) print(stripControls(value));
  else printJson(value);
  return 'ok';
}

function printChecks(checks: readonly SettingsFileCheck[], json: boolean | undefined): ExitName {
  if (json) printJson(checks);
  else
    for (const { file, exists, fault, warnings } of checks) {
      print(stripControls(fault ?? (exists ? `${file}: valid` : `${file}: no such file; the defaults apply`)));
      for (const warning of warnings) print(stripControls(`Warning: ${warning}`));
    }
  return checks.some(({ fault }) => fault !== null) ? 'error' : 'ok';
}
