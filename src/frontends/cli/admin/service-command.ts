import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { createServer } from 'node:net';
import { userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import { UserError } from '../../../base/user-error.ts';
import { DaemonState } from '../../../client/sessions/client-errors.ts';
import { withTrustedPath } from '../../../protocol/workspace/session-names.ts';
import { addDaemonOptions, daemonArgv, workspaceRoot } from '../../command-line.ts';
import { defineCommand, EXIT_CODES, formatCommand, JSON_OPTION, openWorkspaceClient } from '../common/command.ts';
import { print, printDone, printJson, printNote } from '../common/terminal.ts';
import { keysFile, type Scope, type ServicePlan, SYSTEM_WORKSPACE, serviceFiles } from '../service/service-files.ts';
import {
  enableLinger,
  findService,
  type InstalledService,
  installFiles,
  isLingering,
  logCommand,
  removeFiles,
  unitState,
} from '../service/service-manager.ts';
import { readChannels } from './channel-command.ts';

export const service = defineCommand({
  usage: 'service <action>',
  describe: 'Run the daemon as a service of systemd or launchd, so that it starts with the machine',
  builder: (cli) =>
    addDaemonOptions(
      cli
        .positional('action', { choices: ['install', 'uninstall', 'status'] as const, demandOption: true })
        .option('print', { type: 'boolean', describe: 'install: only print the files' })
        .option('system', {
          type: 'boolean',
          describe: 'install: for the machine, with an account of its own; as root',
        })
        .option('account', { type: 'string', requiresArg: true, default: 'agentd', describe: '--system: the account' })
        .option('serve-port', {
          type: 'number',
          requiresArg: true,
          describe: 'install: run agentctl serve too, on this port',
        })
        .option('json', JSON_OPTION),
    )
      .example('$0 service install --model qwen3 --base-url http://127.0.0.1:11434/v1', '')
      .epilogue('install again changes the flags. start, stop and restart then go through the service.'),
  async run(args, { program }) {
    const scope: Scope = args.system ? 'system' : 'user';
    const isDefault = args.workspace === undefined && process.env['AGENTD_WORKSPACE'] === undefined;
    const root = args.system && isDefault ? SYSTEM_WORKSPACE : workspaceRoot(args.workspace);
    if (args.action === 'install') {
      const plan: ServicePlan = {
        ...{ scope, root, node: fs.realpathSync(process.execPath), account: args.account, port: args.servePort },
        ...{ agentd: fs.realpathSync(program), agentctl: join(dirname(fs.realpathSync(program)), 'agentctl.js') },
        flags: daemonArgv(args),
        path: withTrustedPath(process.env)['PATH'] ?? '/usr/local/bin:/usr/bin:/bin',
        channels: Object.keys(await readChannels(await openWorkspaceClient({ workspace: root }))),
      };
      if (args.print) for (const { path, text } of serviceFiles(plan, process.env)) print(`# ${path}\n${text}`);
      else await install(plan);
      return 'ok';
    }
    const found = findService(root, process.env);
    if (found === undefined)
      throw new DaemonState(
        `No service was installed for ${root}. Install one: ${formatCommand(['service', 'install'], args)}`,
      );
    if (args.action === 'uninstall') {
      for (const path of await removeFiles(found, [...found.others, found.unit])) printDone(`Removed ${path}`);
      printNote(`The workspace ${root} is as it was; so is ${keysFile(found.scope, process.env)}, if there is one.`);
      return 'ok';
    }
    const report = await statusOf(found);
    if (args.json) printJson(report);
    else {
      for (const { unit, text } of report.units) print(`${unit}: ${text}`);
      for (const fault of report.faults) print(fault);
    }
    return report.faults.length > 0 ? 'error' : 'ok';
  },
});

async function install(plan: ServicePlan): Promise<void> {
  const { scope, root, port } = plan;
  if (scope === 'system') requireAccount(plan.account);
  const before = findService(root, process.env);
  if (before !== undefined && before.scope !== scope)
    throw new UserError(`${root} has a service already, ${before.file}. Remove it first: agentctl service uninstall`);
  const owner = scope === 'user' ? (await openWorkspaceClient({ workspace: root })).daemon() : undefined;
  if (owner && (before === undefined || (await unitState(scope, before.unit)).isDown))
    throw new DaemonState(
      `A daemon is already running: process ${owner.pid}, which the service could not replace. Stop it first: agentctl stop`,
    );
  const files = serviceFiles(plan, process.env);
  const isNew = (unit: string) => before === undefined || !before.others.includes(unit);
  if (port !== undefined && files[1] !== undefined && isNew(files[1].unit)) await requireFreePort(port);
  await installFiles(scope, files);
  // Channels that are in no setting any more.
  const isStale = (one: string) => one.includes('.channel-') && !files.some(({ unit }) => unit === one);
  const stale = before?.others.filter(isStale) ?? [];
  if (before && stale.length > 0) for (const path of await removeFiles(before, stale)) printDone(`Removed ${path}`);
  for (const { unit, path } of files) printDone(`${unit} runs, and starts with the machine: ${path}`);
  printNote(`Its log: ${logCommand(scope, files[0]?.unit ?? 'agentd')} -f`);
  const keys = keysFile(scope, process.env);
  for (const name of Object.keys(process.env).filter((one) => /_API_KEY$/.test(one)))
    if (!readOrEmpty(keys).includes(name))
      printNote(`${name} is set here, but the service does not see it: put it into ${keys}.`);
  if (isLingering(scope) === false && !(await enableLinger())) printNote(NO_LINGER);
}

const NO_LINGER = `The service ends when you log out, and starts when you log in. To let it run always: sudo loginctl enable-linger ${userInfo().username}`;

function requireAccount(account: string): void {
  if (process.getuid?.() !== 0)
    throw new UserError('A service of the machine is installed as root: sudo agentctl service install --system');
  try {
    execFileSync('id', ['-u', account], { stdio: 'ignore' });
  } catch {
    throw new UserError(
      `Expected an account "${account}" for the service to run as, found none. Make it: useradd --system --create-home --home-dir /var/lib/agentd --shell /usr/sbin/nologin ${account}`,
    );
  }
}

async function requireFreePort(port: number): Promise<void> {
  const server = createServer();
  await new Promise<void>((free, taken) => {
    server.once('error', () =>
      taken(
        new UserError(`Port ${port} is in use, or not for you. Choose another: --serve-port`, EXIT_CODES.error.code),
      ),
    );
    server.listen(port, '127.0.0.1', () => server.close(() => free()));
  });
}

const readOrEmpty = (path: string): string => (fs.existsSync(path) ? fs.readFileSync(path, 'utf8') : '');

/** What the service manager says, and what is wrong with the files on which the service depends. */
async function statusOf(
  found: InstalledService,
): Promise<{ units: { unit: string; text: string }[]; faults: string[] }> {
  const { scope, file } = found;
  const units = [];
  const faults: string[] = [];
  for (const unit of [found.unit, ...found.others]) {
    const { isUp, text } = await unitState(scope, unit);
    units.push({ unit, text });
    if (!isUp) faults.push(`${unit} does not run. See: ${logCommand(scope, unit)} -n 30`);
  }
  for (const path of programsIn(fs.readFileSync(file, 'utf8')))
    if (!fs.existsSync(path)) faults.push(`${file} names ${path}, which is gone: run agentctl service install again.`);
  if (isLingering(scope) === false) faults.push(NO_LINGER);
  return { units, faults };
}

/** Node and the program, as the file of a service names them. */
function programsIn(text: string): string[] {
  const line = /^ExecStart=(.*)$/m.exec(text)?.[1];
  const words =
    line === undefined ? text.matchAll(/<string>(\/[^<]*)<\/string>/g) : line.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/g);
  return Array.from(words, ([, first, second]) => (first ?? second ?? '').replace(/\\(.)/g, '$1').replaceAll('%%', '%'))
    .slice(0, 2)
    .filter((path) => path.startsWith('/'));
}
