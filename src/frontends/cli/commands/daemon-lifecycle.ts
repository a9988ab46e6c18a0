import { resolve } from 'node:path';
import { formatLocalTime as localTime } from '../../../base/strings.ts';
import { errorText, UserError } from '../../../base/user-error.ts';
import type { Client } from '../../../client/index.ts';
import {
  addDaemonOptions,
  addSettingsOptions,
  type DaemonFlags,
  daemonArgv,
  readDaemonFlags,
  type SettingsFlags,
} from '../../command-line.ts';
import { defineCommand, EXIT_CODES, formatCommand, JSON_OPTION, openWorkspaceClient } from '../common/command.ts';
import { print, printDone, printError, printJson, printNote, stripControls } from '../common/terminal.ts';

export const start = defineCommand({
  usage: 'start',
  describe: 'Start the daemon in the background',
  builder: (cli) => addDaemonOptions(cli),
  async run(args, { program }) {
    const client = await openWorkspaceClient(args);
    if (await throughService(client, 'start', hasSettingsFlags(args))) return 'ok';
    await startDaemon(client, { program, args: daemonArgv(args) });
    return 'ok';
  },
});

async function startDaemon(client: Client, launch: { program: string; args: string[] }): Promise<void> {
  const owner = await client.start(launch).catch((error: unknown) => {
    throw lostStartRace(error) ?? error;
  });
  printDone(`The daemon is running: process ${owner.pid}, workspace ${client.paths.root}, log ${client.paths.log}`);
  const fault = await client.settingsFault();
  if (fault !== null) printError(stripControls(fault));
}

export const restart = defineCommand({
  usage: 'restart',
  describe: 'Stop the daemon, if one is running, and start it with the same flags; a flag given here replaces its own',
  builder: (cli) =>
    addSettingsOptions(cli).epilogue(
      'The new daemon has the environment of this shell, including keys. Where "agentctl service install" has made a service of it, that is restarted, with its own.',
    ),
  async run(args, { program }) {
    const client = await openWorkspaceClient(args);
    if (await throughService(client, 'restart', hasSettingsFlags(args))) return 'ok';
    const owner = client.daemon();
    const { config, model, baseUrl, apiKeyEnv } = args;
    const given = Object.entries({ config: config && resolve(config), model, baseUrl, apiKeyEnv });
    const none: { flags: DaemonFlags; cwd: undefined } = { flags: { logLevel: 'info' }, cwd: undefined };
    const { flags, cwd } = owner ? flagsOfDaemon(owner.pid) : none;
    const kept: DaemonFlags = { ...flags, ...Object.fromEntries(given.filter(([, value]) => value !== undefined)) };
    const configFile = kept.config && resolve(cwd ?? '', kept.config);
    const argv = daemonArgv({ ...kept, config: configFile }, model === undefined ? cwd : undefined);
    const { assertRestartable } = await import('../../../client/actions/settings-edit.ts');
    if (owner) assertRestartable(client.paths, configFile);
    if (owner) await client.stop();
    await startDaemon(client, { program, args: argv });
    return 'ok';
  },
});

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
      throw new UserError(
        `"agentctl stop" stops the daemon. To stop the run of a session: ${formatCommand(['stop-run', `${session}`], args)}`,
        EXIT_CODES.usage.code,
      );
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

const DEFAULT_PORT = 8377;
const PORT = { type: 'number', requiresArg: true, default: DEFAULT_PORT, coerce: parsePort } as const;
const MAX_PORT = 65_535;

export const serve = defineCommand({
  usage: 'serve',
  describe: 'Serve the workspace over HTTP on 127.0.0.1, until SIGTERM or SIGINT',
  builder: (cli) =>
    cli
      .option('port', { ...PORT, describe: 'Port to listen on; 0 picks a free one' })
      .option('socket', {
        type: 'string',
        requiresArg: true,
        describe: 'Listen on this Unix socket too; needs no token, and only you can open it',
      })
      .option('allow-host', {
        ...{ type: 'string', array: true, requiresArg: true, coerce: parseHostNames, default: [] as string[] },
        describe: 'Name by which a proxy with TLS on this machine is reached; repeatable',
      })
      .option('host', { type: 'string', requiresArg: true, hidden: true, coerce: assertLoopback })
      .option('openai', { type: 'boolean', default: false, describe: 'Serve clients of OpenAI too, below /v1' })
      .option('mcp', { type: 'boolean', default: false, describe: 'Serve clients of MCP too, as /mcp' })
      .option('ag-ui', { type: 'boolean', default: false, describe: 'Serve clients of AG-UI too, as /ag-ui' }),
  async run(args) {
    // The space for young objects would grow with a burst of requests, and stay as large while a thousand streams wait.
    (await import('node:v8')).setFlagsFromString('--semi-space-growth-factor=1');
    const client = await openWorkspaceClient(args);
    const stopped = new Promise<void>((stop) => {
      for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => stop());
    });
    const { serveHttp } = await import('../../http/index.ts');
    const protocols = [
      ...(args.openai ? [(await import('../../openai/openai-routes.ts')).OPENAI_PROTOCOL] : []),
      ...(args.agUi ? [(await import('../../ag-ui/ag-ui-routes.ts')).AG_UI_PROTOCOL] : []),
      ...(args.mcp ? [(await import('../../mcp/index.ts')).mcpProtocol()] : []),
    ];
    const server = await serveHttp(client, {
      ...{ port: args.port, socket: args.socket, complain: printError, protocols, proxied: args.allowHost },
    });
    print(`SERVING ${server.url}`);
    await stopped;
    await server.close();
    return 'ok';
  },
});

function parseHostNames(names: string[]): string[] {
  const wrong = names.find((name) => !/^[a-z0-9.-]+$/i.test(name));
  if (wrong === undefined) return names.map((name) => name.toLowerCase());
  throw new Error(`--allow-host takes a name such as agentd.example.com, got ${JSON.stringify(wrong)}.`);
}

/** Others asked for a way to be reached from other machines: there are three, and each has encryption. */
function assertLoopback(host: string): string {
  if (['127.0.0.1', 'localhost'].includes(host)) return host;
  throw new Error(
    [
      `agentctl serve listens on 127.0.0.1 only, not on ${host}, since it has no TLS. To reach it from elsewhere:`,
      '  - forward the port, on the other machine: ssh -L 8377:127.0.0.1:8377 THIS-MACHINE',
      '  - or serve it in your own network: tailscale serve 8377, with --allow-host THIS-MACHINE.YOUR-NET.ts.net',
      '  - or put a proxy with TLS in front of it on this machine, with --allow-host ITS-NAME',
    ].join('\n'),
  );
}

function parsePort(value: number): number {
  if (Number.isSafeInteger(value) && value >= 0 && value <= MAX_PORT) return value;
  throw new Error(`--port takes a whole number from 0 to ${MAX_PORT}.`);
}

export const open = defineCommand({
  usage: 'open',
  describe: 'Open the page of "agentctl serve" in the browser, and print its address',
  builder: (cli) =>
    cli
      .option('port', { ...PORT, describe: 'Port of the server' })
      .option('print', { type: 'boolean', describe: 'Only print the address' })
      .epilogue('The address contains the token of the workspace: do not share it.'),
  async run(args) {
    const client = await openWorkspaceClient(args);
    const { openInBrowser, pageAddress } = await import('../common/page-address.ts');
    const { address, once } = await pageAddress(client, args.port);
    print(address);
    if (!args.print && !(await openInBrowser(once)))
      printNote('No browser could be opened. Open the address above in one on this machine.');
    return 'ok';
  },
});

export const acp = defineCommand({
  usage: 'acp',
  describe: 'Be an agent for an editor, over stdin and stdout (Agent Client Protocol)',
  builder: (cli) => cli.epilogue('The editor starts it. It starts no daemon: agentctl start'),
  async run(args) {
    const client = await openWorkspaceClient(args);
    const { serveAcp } = await import('../../acp/index.ts');
    await serveAcp(client, { input: process.stdin, output: process.stdout, complain: printNote });
    return 'ok';
  },
});
