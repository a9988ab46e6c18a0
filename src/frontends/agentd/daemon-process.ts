import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { attempt, errorText, InvalidArgument, UserError } from '../../base/user-error.ts';
import type { ModelSettings } from '../../protocol/settings/model-settings.ts';
import { DaemonStatus } from '../../protocol/workspace/daemon-files.ts';
import { isInSessionFolder, trustedPathFolders } from '../../protocol/workspace/session-names.ts';
import {
  AGENTD_EXIT_CODES,
  type DaemonCommandLine,
  daemonArgv,
  type LogLevel,
  modelSettingsFromFlags,
  parsePlainDaemonLine,
  workspaceRoot,
} from '../command-line.ts';

/** Options from the command line, passed to the composition root. */
export type DaemonStartOptions = {
  root: string;
  /** Reads the file named by `--config`; if absent, the workspace's own file is read. */
  readConfig?: () => string;
  configFile: string;
  flags: ModelSettings;
  logLevel: LogLevel;
  /** Start even if the workspace is on a network file system. */
  allowNetwork: boolean;
  /** What this process does in a cluster; missing: it is a daemon alone. */
  role?:
    | { is: 'gateway'; engine: URL }
    | { is: 'worker'; engine: URL; listen: { host: string; port: number }; filesLateMs: number };
  /** Start a whole cluster on this machine, whose processes get these arguments. */
  clusterArgv?: string[];
  env: NodeJS.ProcessEnv;
  /** Ownership of the workspace was lost: nothing may be written any more. */
  onLost: (why: Error) => void;
};

/**
 * The daemon as a process: reads its flags, prints `READY <workspace>` once it serves, and stops at SIGTERM, SIGINT,
 * or SIGHUP.
 * Resolves with the exit code; a second signal ends the process at once.
 */
export async function runAgentd(
  argv: string[],
  run: (start: DaemonStartOptions) => Promise<{ stop(): Promise<void> }>,
): Promise<number> {
  // The parent process may have closed the other end; that must not end the daemon.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});
  try {
    const start = await parseStartOptions(argv);
    if (!start) return 0;
    leaveSessionFolders(start);
    const signalled = waitForStopSignal();
    const cluster = start.clusterArgv;
    const notice = openServiceNotice(start.root, start.env);
    const daemon = cluster
      ? await (await import('./cluster-dev.ts')).startClusterDev(start.root, cluster)
      : await run(start);
    process.stdout.write(`READY ${start.root}\n`);
    notice.ready();
    await signalled;
    notice.stopping();
    await daemon.stop();
    return AGENTD_EXIT_CODES.stopped.code;
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    process.stderr.write(`${error.message}\n`);
    return error.exit;
  }
}

async function parseStartOptions(argv: string[]): Promise<DaemonStartOptions | null> {
  const args = parsePlainDaemonLine(argv) ?? (await (await import('./daemon-yargs.ts')).parseDaemonLine(argv));
  if (!args) return null;
  const { config } = args;
  const file = config === undefined ? undefined : resolve(config);
  if (file !== undefined && !existsSync(file)) throw new UserError(`--config ${file} does not exist.`);
  return {
    root: workspaceRoot(args.workspace),
    ...(file !== undefined && { readConfig: () => readConfigFile(file) }),
    configFile: file ?? 'agentd.json',
    flags: modelSettingsFromFlags(args),
    logLevel: args.logLevel,
    allowNetwork: args.allowNetworkFs ?? false,
    ...(args.role && { role: roleOf(args.role, args) }),
    ...(args.clusterDev && { clusterArgv: daemonArgv(args) }),
    env: process.env,
    onLost: (why) => {
      process.stderr.write(`This daemon no longer owns the workspace: ${why.message}. It writes nothing more.\n`);
      process.exit(AGENTD_EXIT_CODES.lost.code);
    },
  };
}

function roleOf(
  is: 'gateway' | 'worker',
  { engine: given, listen, filesLate = 0 }: DaemonCommandLine,
): NonNullable<DaemonStartOptions['role']> {
  const engine = given !== undefined && URL.canParse(given) ? new URL(given) : undefined;
  if (engine?.protocol !== 'http:')
    throw new InvalidArgument(`--engine takes an address such as http://127.0.0.1:8080, got ${JSON.stringify(given)}.`);
  if (is === 'gateway') return { is, engine };
  const [, host, port] = /^(.+):(\d{1,5})$/.exec(listen ?? '') ?? [];
  if (host === undefined || !(Number(port) > 0 && Number(port) < 65536))
    throw new InvalidArgument(
      `A worker needs --listen with an address and a port, such as 10.0.0.7:9080, got ${JSON.stringify(listen)}.`,
    );
  if (!(filesLate >= 0 && filesLate <= 600))
    throw new InvalidArgument(`--files-late takes seconds from 0 to 600, got ${filesLate}.`);
  return { is, engine, listen: { host, port: Number(port) }, filesLateMs: filesLate * 1000 };
}

/**
 * A person may have started us in a session's `work/`, by an `npx` that put that into PATH. Whatever we start ourselves
 * (a browser, a lock, guards) would look there first, where a model writes.
 */
function leaveSessionFolders({ root, env }: DaemonStartOptions): void {
  if (isInSessionFolder(currentFolder())) process.chdir(root);
  if (env['PATH'] !== undefined) env['PATH'] = trustedPathFolders(env['PATH']).join(':');
}

/** The current folder; undefined if it was removed. */
function currentFolder(): string {
  return attempt(() => process.cwd()) ?? '/';
}

function readConfigFile(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new UserError(`--config ${file} cannot be read: ${errorText(error)}`);
  }
}

/** Resolves at the first signal to stop; the second one does not wait for anything. */
function waitForStopSignal(): Promise<void> {
  return new Promise((resolve) => {
    let asked = false;
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.on(signal, () => {
        if (asked) process.exit(AGENTD_EXIT_CODES.twice.code);
        asked = true;
        resolve();
      });
    }
    // A write beyond `ulimit -f` then fails with EFBIG, which is reported, and does not end the daemon.
    process.on('SIGXFSZ', () => {});
    // Node resets what `nohup` ignores. A terminal that closes may send it more than once.
    process.on('SIGHUP', () => {
      if (asked) return;
      process.stderr.write(
        'SIGHUP: the terminal was closed; the daemon stops. "agentctl start" keeps one without a terminal.\n',
      );
      asked = true;
      resolve();
    });
  });
}

/** How often the status text is renewed where the service manager asks for no sign of life. */
const STATUS_EVERY_MS = 30_000;

/** What a daemon says to the service manager that started it. */
type ServiceNotice = { ready(): void; stopping(): void };

/**
 * For a daemon that systemd started: once it is ready, a sign of life at a third of the time that the unit allows, as
 * long as both the event loop and the disk of the workspace answer, with its state in words. Otherwise nothing. Takes
 * `NOTIFY_SOCKET` out of `env`, so that no command of an agent finds it.
 */
function openServiceNotice(root: string, env: NodeJS.ProcessEnv): ServiceNotice {
  const { NOTIFY_SOCKET: socket, WATCHDOG_USEC: allowed } = env;
  for (const name of ['NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID']) delete env[name];
  if (socket === undefined) return { ready() {}, stopping() {} };
  const own = join(root, '.agentd');
  let [isAsked, hasFailed] = [false, false];
  let timer: NodeJS.Timeout | undefined;

  function tell(...words: string[]): void {
    const child = { env: { PATH: env['PATH'], NOTIFY_SOCKET: socket }, cwd: '/', timeout: 10_000 };
    execFile('systemd-notify', words, child, (error) => {
      if (error && !hasFailed) warn(`systemd-notify failed, so that systemd may end this daemon: ${errorText(error)}`);
      hasFailed = error !== null;
    });
  }

  async function beat(): Promise<void> {
    if (isAsked) return;
    isAsked = true;
    try {
      await stat(own);
      tell('WATCHDOG=1', `STATUS=${await describeStatus(own)}`);
    } catch (error) {
      warn(`systemd gets no sign of life: ${errorText(error)}`);
    } finally {
      isAsked = false;
    }
  }

  return {
    ready() {
      tell('READY=1', 'STATUS=serves');
      timer = setInterval(() => void beat(), allowed === undefined ? STATUS_EVERY_MS : Number(allowed) / 3000);
      timer.unref();
    },
    stopping() {
      clearInterval(timer);
      tell('STOPPING=1', 'STATUS=stops; its work resumes at the next start');
    },
  };
}

function warn(text: string): void {
  process.stderr.write(`${JSON.stringify({ at: new Date().toISOString(), level: 'warn', text })}\n`);
}

/** In one line, for `systemctl status`. On a full disk the file may be half written. */
async function describeStatus(own: string): Promise<string> {
  const text = await readFile(join(own, 'status.json'), 'utf8').catch(() => '');
  const parsed = DaemonStatus.safeParse(text.endsWith('}\n') ? JSON.parse(text) : undefined);
  if (!parsed.success) return 'serves';
  const { sessions, trouble, disk } = parsed.data;
  const parts = [`${sessions.known} sessions, ${sessions.open} open`];
  if (trouble.total > 0) parts.push(`${trouble.total} not served`);
  if (disk.space !== 'ok') parts.push(`disk ${disk.space}`);
  return parts.join(', ');
}
