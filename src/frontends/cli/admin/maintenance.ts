import { resolve } from 'node:path';
import { InvalidArgument } from '../../../base/user-error.ts';
import { readableName } from '../../../protocol/workspace/session-names.ts';
import {
  addSettingsOptions,
  modelSettingsFromFlags,
  readDaemonFlags,
  type SettingsFlags,
  workspaceRoot,
} from '../../command-line.ts';
import {
  defineCommand,
  type Finding,
  JSON_OPTION,
  openSession,
  openWorkspaceClient,
  SESSION_ARG,
} from '../common/command.ts';
import { checkNewName } from '../common/send-and-wait.ts';
import {
  askPerson,
  colorize,
  formatTable,
  print,
  printDone,
  printJson,
  printNote,
  stripControls,
  toSingleLine,
} from '../common/terminal.ts';

export const settings = defineCommand({
  usage: 'settings [session]',
  describe: 'Print the settings in force and the file each comes from, without secrets',
  builder: (cli) =>
    cli
      .positional('session', { type: 'string', describe: 'Of a session; by default of the workspace' })
      .option('json', JSON_OPTION)
      .epilogue('Flags and environment variables of the daemon are not shown.'),
  async run(args) {
    const { session: given } = args;
    const { client, session } =
      given === undefined
        ? { client: await openWorkspaceClient(args), session: undefined }
        : await openSession({ ...args, session: given });
    const report = await client.settings(session);
    if (args.json) printJson(report);
    else {
      print(
        formatTable(report.settings.map((one) => [one.name, one.from, toSingleLine(JSON.stringify(one.value), 200)])),
      );
      for (const fault of report.faults) printNote(stripControls(fault));
    }
    return report.faults.length > 0 ? 'error' : 'ok';
  },
});

export const archive = defineCommand({
  usage: 'archive <session>',
  describe: 'Move a session to .archive/',
  builder: (cli) => cli.positional('session', SESSION_ARG),
  async run(args) {
    printDone(`Moved to ${await (await openWorkspaceClient(args)).archive(args.session)}`);
    return 'ok';
  },
});

export const remove = defineCommand({
  usage: 'remove <session>',
  describe: 'Delete a session and everything in it',
  builder: (cli) =>
    cli
      .positional('session', SESSION_ARG)
      .option('yes', { type: 'boolean', alias: 'y', describe: 'Do not ask for confirmation' }),
  async run(args) {
    const client = await openWorkspaceClient(args);
    const folder = client.folder(args.session);
    const children = client.withChildren(args.session).length - 1;
    const what = children > 0 ? `${folder} and its ${children} child session${children > 1 ? 's' : ''}` : folder;
    const question = `Delete ${what}, including its event log and files?`;
    if (!args.yes && !(await confirm(question, `to delete ${what}`))) {
      printNote('Nothing was deleted.');
      return 'error';
    }
    await client.remove(args.session);
    printDone(`Deleted ${what}`);
    return 'ok';
  },
});

/** Asks a person. Throws InvalidArgument where there is none. */
export async function confirm(question: string, purpose: string): Promise<boolean> {
  if (!process.stdin.isTTY) {
    throw new InvalidArgument(`Cannot ask for confirmation: standard input is not a terminal. Pass --yes ${purpose}.`);
  }
  return /^y(es)?$/i.test(await askPerson(`${question} [y/N] `, 'n'));
}

export const rename = defineCommand({
  usage: 'rename <session> <name>',
  describe: 'Rename a session',
  builder: (cli) =>
    cli
      .positional('session', SESSION_ARG)
      .positional('name', { type: 'string', demandOption: true, describe: 'The new name' }),
  async run(args) {
    checkNewName(args.name);
    printDone(`Renamed to ${readableName(await (await openWorkspaceClient(args)).rename(args.session, args.name))}`);
    return 'ok';
  },
});

export const rebuild = defineCommand({
  usage: 'rebuild <session>',
  describe: 'Rebuild plan.json, ended plans and missing replies from the event log',
  builder: (cli) => cli.positional('session', SESSION_ARG).option('json', JSON_OPTION),
  async run(args) {
    const files = await (await openWorkspaceClient(args)).rebuild(args.session);
    if (args.json) printJson(files);
    else {
      for (const { path, is, why } of files) {
        if (is !== 'unchanged') print(stripControls(`${is.padEnd(8)} ${path}${why ? ` (${why})` : ''}`));
      }
      const same = files.filter((file) => file.is === 'unchanged').length;
      print(`${same} of ${files.length} files already matched the event log.`);
    }
    return 'ok';
  },
});

const MARKS: Record<Finding['is'], string> = { ok: '✓', note: '·', warning: '!', wrong: '✗' };
const COLOURS = { ok: 'green', note: 'dim', warning: 'yellow', wrong: 'red' } as const;

export const doctor = defineCommand({
  usage: 'doctor',
  describe: 'Check this machine, the workspace and its configuration',
  builder: (cli) =>
    addSettingsOptions(cli)
      .option('ask', { type: 'boolean', describe: 'Call the model once' })
      .option('verbose', { type: 'boolean', describe: 'Print every check, also those that found nothing' })
      .option('json', JSON_OPTION),
  async run(args, parts) {
    const owner = (await openWorkspaceClient(args)).daemon();
    const { config, model, baseUrl, apiKeyEnv } = args;
    // Flags given here replace all of the daemon's: they are what is asked about.
    const isAsked = [config, model, baseUrl, apiKeyEnv].some((flag) => flag !== undefined);
    const running = owner && !isAsked ? readDaemonFlags(owner.pid) : undefined;
    const settings: SettingsFlags = running?.flags ?? args;
    const findings = await parts.doctor({
      root: workspaceRoot(args.workspace),
      configFile: settings.config && resolve(running?.cwd ?? '', settings.config),
      flags: modelSettingsFromFlags(settings),
      env: process.env,
      ask: args.ask === true,
    });
    if (args.json) printJson(findings);
    else if (args.verbose) for (const finding of findings) print(formatFinding(finding));
    else {
      for (const finding of summarize(findings)) print(formatFinding(finding));
      printNote('Each check: agentctl doctor --verbose');
    }
    return findings.some((finding) => finding.is === 'wrong') ? 'error' : 'ok';
  },
});

/** What is checked, in groups: of a group that is well, one line says so. */
const CHECK_GROUPS: Readonly<Record<string, readonly string[]>> = {
  agentd: [],
  machine: ['node', 'shell', 'disk', 'lock', 'watches', 'browser'],
  workspace: [],
  settings: ['configuration', 'mcp', 'skills'],
  sessions: ['session', 'checkpoints'],
  daemon: [],
  jobs: ['job'],
  environment: [],
  model: [],
  sandbox: ['escape'],
};

/** Every warning and fault. Of what is well, one line a group; notes only where the group has nothing else. */
function summarize(findings: readonly Finding[]): Finding[] {
  const grouped = Object.entries(CHECK_GROUPS).flat(2);
  const others = findings.filter(({ what }) => !grouped.includes(what));
  const shown = Object.entries(CHECK_GROUPS).flatMap(([group, more]): Finding[] => {
    const all = findings.filter(({ what }) => what === group || more.includes(what));
    const faults = all.filter(({ is }) => is === 'warning' || is === 'wrong');
    const well = all.filter(({ is }) => is === 'ok');
    if (faults.length + well.length === 0) return all;
    return well.length === 0 ? faults : [{ what: group, is: 'ok', text: listChecks(group, well) }, ...faults];
  });
  return [...shown, ...others];
}

/** In one line: what the group itself says, and the names of the other checks. */
function listChecks(group: string, well: readonly Finding[]): string {
  const [only] = well;
  if (only && well.length === 1) return only.text;
  const names = [...new Set(well.map(({ what }) => what))].map((name) => {
    const found = well.filter(({ what }) => what === name);
    if (name === group) return found.map(({ text }) => text).join('; ');
    return name === 'escape' ? `${found.length} attempts to escape blocked` : name;
  });
  return names.join(', ');
}

function formatFinding({ is, what, text }: Finding): string {
  const [first = '', ...more] = stripControls(text).split('\n');
  const indent = `\n${' '.repeat(17)}`;
  return `${colorize(COLOURS[is], MARKS[is])} ${what.padEnd(14)} ${[first, ...more].join(indent)}`;
}
