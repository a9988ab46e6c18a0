import { resolve } from 'node:path';
import { formatLocalTime as localTime } from '../../../base/strings.ts';
import { errorText, InvalidArgument, UserError } from '../../../base/user-error.ts';
import type { Client } from '../../../client/index.ts';
import { DaemonState } from '../../../client/sessions/client-errors.ts';
import { maskKeys } from '../../../protocol/settings/env-variable.ts';
import {
  addDaemonOptions,
  addSettingsOptions,
  type DaemonFlags,
  daemonArgv,
  modelSettingsFromFlags,
  parsePlainDaemonLine,
  readDaemonFlags,
  type SettingsFlags,
} from '../../command-line.ts';
import {
  defineCommand,
  EXIT_CODES,
  formatCommand,
  type GlobalOptions,
  JSON_OPTION,
  openWorkspaceClient,
} from '../common/command.ts';
import { print, printDone, printError, printJson, printNote, stripControls } from '../common/terminal.ts';

export const start = defineCommand({
  usage: 'start',
  describe: 'Start the daemon in the background; without flags, with those of the last start',
  builder: (cli) => addDaemonOptions(cli),
  async run(args, { program }) {
    const client = await openWorkspaceClient(args);
    if (await throughService(client, 'start', hasSettingsFlags(args))) return 'ok';
    const { refuseElsewhere } = await import('../../../client/actions/daemon-control.ts');
    refuseElsewhere(client.paths, 'stop it there first');
    const owner = client.daemon();
    if (owner) throw new DaemonState(alreadyRuns(owner, args));
    await startDaemon(client, program, await flagsForStart(client, args));
    return 'ok';
  },
});

/** With the flags that were typed, as they would be given to `restart`. */
function alreadyRuns({ pid, at }: { pid: number; at: string }, args: GlobalOptions & DaemonFlags): string {
  const { config, model, baseUrl, apiKeyEnv } = args;
  const typed = Object.entries({ config, model, 'base-url': baseUrl, 'api-key-env': apiKeyEnv }).flatMap(
    ([name, value]) => (value === undefined ? [] : [`--${name}`, value]),
  );
  const how = typed.length > 0 ? 'To start it with these flags' : 'To start it again, or with other flags';
  return `A daemon is already running: process ${pid}, since ${localTime(at)}.\n${how}: ${formatCommand(['restart', ...typed], args)}`;
}

/**
 * Without any that say which settings and model are meant, those of the last start in this workspace, which a stop or a
 * reboot does not change. Says so, and what differs.
 */
async function flagsForStart({ paths }: Client, typed: DaemonFlags): Promise<DaemonFlags> {
  const before = (await import('../../../client/actions/daemon-control.ts')).readLastStart(paths);
  const kept = before && parsePlainDaemonLine(before.args);
  if (before === undefined || kept === undefined) return typed;
  const words = before.args.slice(0, -2).map(maskKeys).join(' ');
  const missing = before.variables.filter((name) => !process.env[name]);
  if (missing.length > 0)
    printNote(`Set when it was started before, and not now: ${missing.join(', ')}. Work that needs them will fail.`);
  if (words === '') return typed;
  if (hasSettingsFlags(typed)) {
    if (before.args.slice(0, -2).join('\0') !== daemonArgv(typed).slice(0, -2).join('\0'))
      printNote(`It was started with other flags before: ${words}`);
    return typed;
  }
  printNote(`Starts as before, with ${words}. Flags given here replace all of these.`);
  const { logLevel, allowNetworkFs = kept.allowNetworkFs } = typed;
  return { ...kept, allowNetworkFs, logLevel: logLevel === 'info' ? kept.logLevel : logLevel };
}

/** Variables that a daemon reads besides its flags. Their values, which may be secret, are not kept. */
const namesOfVariables = ({ apiKeyEnv }: SettingsFlags): string[] =>
  ['OPENAI_API_KEY', 'OPENAI_BASE_URL', 'OPENAI_MODEL', apiKeyEnv ?? ''].filter((name) => process.env[name]);

async function startDaemon(client: Client, program: string, flags: DaemonFlags, base?: string): Promise<void> {
  const args = daemonArgv(flags, base);
  const launch = { program, args, variables: namesOfVariables(flags) };
  const owner = await client.start(launch).catch((error: unknown) => {
    throw lostStartRace(error) ?? error;
  });
  printDone(`The daemon is running: process ${owner.pid}, workspace ${client.paths.root}, log ${client.paths.log}`);
  const fault = await client.settingsFault();
  if (fault !== null) printError(stripControls(fault));
  const disk = client.status()?.disk;
  if (disk && disk.space !== 'ok')
    printNote(`The disk takes no new messages: ${disk.why}. Free some space, and work begins automatically.`);
  const { modelFault } = await import('../../../client/actions/settings-edit.ts');
  const wrong = await modelFault(client.paths, flags.config && resolve(flags.config), modelSettingsFromFlags(flags));
  if (wrong === null) return;
  const words = ['restart', '--base-url', 'http://127.0.0.1:11434/v1', '--model', 'NAME'];
  const why = wrong === 'none' ? 'No model is configured' : 'The endpoint of the model is a server of agentd itself';
  printNote(
    `${why}, so messages will fail. Set one: ${formatCommand(words, { workspace: client.paths.root })}, or: agentctl config set model.name NAME`,
  );
}

export const restart = defineCommand({
  usage: 'restart',
  describe: 'Stop the daemon, if one is running, and start it with the same flags; a flag given here replaces its own',
  builder: (cli) =>
    addSettingsOptions(cli).epilogue(
      'The new daemon has the environment of this shell, including keys. Where "agentctl service install" has made a service of it, that is restarted, with its own.',
    ),
  async run(args, { program }) {
    await restartDaemon(await openWorkspaceClient(args), program, args);
    return 'ok';
  },
});

/** Restarts the daemon, or starts one, as `agentctl restart` with these flags. */
export async function restartDaemon(client: Client, program: string, flags: SettingsFlags): Promise<void> {
  if (await throughService(client, 'restart', hasSettingsFlags(flags))) return;
  const { refuseElsewhere } = await import('../../../client/actions/daemon-control.ts');
  refuseElsewhere(client.paths, 'restart it there');
  const owner = client.daemon();
  const { config, model, baseUrl, apiKeyEnv } = flags;
  const given = Object.entries({ config: config && resolve(config), model, baseUrl, apiKeyEnv });
  const { flags: known, cwd } = owner
    ? flagsOfDaemon(owner.pid)
    : { flags: await flagsForStart(client, { config, model, baseUrl, apiKeyEnv, logLevel: 'info' }), cwd: undefined };
  const kept: DaemonFlags = { ...known, ...Object.fromEntries(given.filter(([, value]) => value !== undefined)) };
  const configFile = kept.config && resolve(cwd ?? '', kept.config);
  const { assertRestartable } = await import('../../../client/actions/settings-edit.ts');
  if (owner) assertRestartable(client.paths, configFile);
  if (owner) await client.stop();
  await startDaemon(client, program, { ...kept, config: configFile }, model === undefined ? cwd : undefined);
}

const hasSettingsFlags = ({ config, model, baseUrl, apiKeyEnv }: SettingsFlags): boolean =>
  [config, model, baseUrl, apiKeyEnv].some((flag) => flag !== undefined);

/**
 * Where a service was installed for the workspace, it does this. False where there is none, or a daemon runs beside it.
 * Throws UserError if there are flags, since the service has its own.
 */
async function throughService(client: Client, verb: 'start' | 'stop' | 'restart', hasFlags: boolean): Promise<boolean> {
  const { controlService, findService, unitState } = await import('../service/service-manager.ts');
  const service = findService(client.paths.root, process.env);
  if (service === undefined) return false;
  // A daemon that was started by hand before the service was is none of its business.
  if ((client.daemon() || verb === 'stop') && (await unitState(service.scope, service.unit)).isDown) return false;
  if (hasFlags)
    throw new UserError(
      `The service ${service.unit} has its own flags, in ${service.file}. To change them: agentctl service install, with the flags you want.`,
    );
  await controlService(service, verb);
  printDone(`The service ${service.unit} was asked to ${verb}, and has.`);
  return true;
}

/** What a running daemon was started with, and the folder its paths start from. Throws UserError if that is unknown. */
function flagsOfDaemon(pid: number): { flags: DaemonFlags; cwd: string } {
  const found = readDaemonFlags(pid);
  if (found) return found;
  throw new UserError(
    `Cannot tell which flags process ${pid} was started with, so nothing was stopped. Use agentctl stop, then agentctl start with the flags you want.`,
  );
}

/** Several processes may start a daemon at once; they share a log, and each loser names the owner in it. */
function lostStartRace(error: unknown): UserError | undefined {
  const line = errorText(error)
    .split('\n')
    .find((one) => one.includes(' already has a daemon: '));
  return line === undefined ? undefined : new UserError(line, EXIT_CODES.daemon.code);
}

export const stop = defineCommand({
  usage: 'stop',
  describe: 'Stop the daemon; its work resumes at the next start',
  // A session name here is most likely a mistake for stop-run: say so instead of "unknown argument".
  builder: (cli) => cli.strict(false).strictOptions(),
  async run(args) {
    const [, session] = args._;
    if (session !== undefined) {
      const other = formatCommand(['stop-run', `${session}`], args);
      throw new InvalidArgument(`"agentctl stop" stops the daemon. To stop the run of a session: ${other}`);
    }
    const client = await openWorkspaceClient(args);
    if (await throughService(client, 'stop', false)) return 'ok';
    const owner = await client.stop();
    printDone(`The daemon has stopped (it was process ${owner.pid}).`);
    return 'ok';
  },
});

const DEFAULT_GRACE_S = 10;

export const takeover = defineCommand({
  usage: 'takeover',
  describe: 'End a daemon that hangs: SIGTERM, then SIGKILL; starts no new one',
  builder: (cli) =>
    cli
      .option('grace', {
        type: 'number',
        default: DEFAULT_GRACE_S,
        describe: 'Seconds from SIGTERM to SIGKILL',
        coerce: (seconds: number) => {
          if (seconds >= 0 && seconds <= 3600) return seconds;
          throw new Error('--grace takes a number of seconds from 0 to 3600.');
        },
      })
      .option('json', JSON_OPTION),
  async run(args) {
    const client = await openWorkspaceClient(args);
    const { owner, by, next } = await client.takeover({ graceMs: args.grace * 1000 });
    const { pid, host, epoch, at: since } = owner;
    if (args.json) {
      printJson({ pid, since, host, epoch, ended_by: by, next: next ? { pid: next.pid, since: next.at } : null });
      return 'ok';
    }
    const how = by === 'SIGTERM' ? 'ended on SIGTERM' : `did not end within ${args.grace} s and was killed`;
    print(`Process ${pid}, owner since ${localTime(since)}, ${how}.`);
    if (next) print(`The workspace already has a new daemon: process ${next.pid}, since ${localTime(next.at)}.`);
    else print(`The workspace is free. Work resumes with the next daemon: ${formatCommand(['start'], args)}`);
    return 'ok';
  },
});
