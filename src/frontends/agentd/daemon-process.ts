import { existsSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { errorText, UserError } from '../../base/user-error.ts';
import type { ModelSettings } from '../../protocol/settings/model-settings.ts';
import { isInSessionFolder, trustedPathFolders } from '../../protocol/workspace/session-names.ts';
import {
  AGENTD_EXIT_CODES,
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
    const daemon = await run(start);
    process.stdout.write(`READY ${start.root}\n`);
    await signalled;
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
    env: process.env,
    onLost: (why) => {
      process.stderr.write(`This daemon no longer owns the workspace: ${why.message}. It writes nothing more.\n`);
      process.exit(AGENTD_EXIT_CODES.lost.code);
    },
  };
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
  try {
    return process.cwd();
  } catch {
    return '/';
  }
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
