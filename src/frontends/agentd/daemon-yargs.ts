import type { Argv } from 'yargs';
import yargs from 'yargs';
import { errorText, UserError } from '../../base/user-error.ts';
import type { DaemonCommandLine } from '../command-line.ts';
import {
  AGENTD_EXIT_CODES,
  addDaemonOptions,
  DOCS_WIDTH,
  formatAgentdExitCodes,
  rejectEmptyFlags,
  rejectRepeatedFlags,
  suggestFlags,
  versionWithCommit,
  WORKSPACE_OPTION,
} from '../command-line.ts';

/**
 * Any command line of `agentd`; null if help or the version was requested and printed. Throws UserError for what it
 * cannot read.
 */
export async function parseDaemonLine(argv: string[]): Promise<DaemonCommandLine | null> {
  const args = await buildDaemonParser(argv).parse();
  return args['help'] || args['version'] ? null : args;
}

/** What `agentd --help` prints at that width. */
export async function renderAgentdHelp(width = DOCS_WIDTH): Promise<string> {
  return `${await buildDaemonParser([]).wrap(width).getHelp()}\n`;
}

const SWITCHES: ReadonlySet<string> = new Set(['allow-network-fs', 'cluster-dev', 'help', 'version', 'h', 'V']);

function buildDaemonParser(argv: string[]) {
  const cli: Argv = yargs(argv)
    .scriptName('agentd')
    .locale('en')
    .alias('help', 'h')
    .version(versionWithCommit())
    .alias('version', 'V')
    .usage(
      [
        'Usage: $0 [options]',
        '',
        'Serves the sessions of a workspace in the foreground: reads messages dropped into',
        '.sessions/<session>/inbox/, works on them, and writes one reply for each to outbox/.',
        'Prints "READY <workspace>" when it is ready; logs to stderr, one JSON object per line.',
        'SIGTERM, SIGINT or SIGHUP (a closed terminal) stops it within seconds; its work resumes at the next start.',
        '"agentctl start" runs it in the background.',
      ].join('\n'),
    )
    .option('workspace', WORKSPACE_OPTION)
    .check((args) => {
      rejectRepeatedFlags(args);
      rejectEmptyFlags(argv, SWITCHES);
      return true;
    })
    .strict()
    .wrap(process.stdout.isTTY ? Math.min(DOCS_WIDTH, process.stdout.columns || 80) : DOCS_WIDTH)
    .exitProcess(false)
    .fail((message: string | null, error) => {
      const near = message === null ? '' : suggestFlags(message, argv, cli);
      throw new UserError(`${message ?? errorText(error)}${near}\nSee: agentd --help`, AGENTD_EXIT_CODES.usage.code);
    })
    .epilogue(formatAgentdExitCodes());
  return addClusterOptions(addDaemonOptions(cli));
}

function addClusterOptions<T>(cli: Argv<T>) {
  return cli
    .option('role', {
      choices: ['gateway', 'worker'] as const,
      requiresArg: true,
      describe: 'What this process does in a cluster (docs/cluster.md)',
      implies: 'engine',
    })
    .option('engine', {
      type: 'string',
      requiresArg: true,
      describe: "Ingress of the cluster's Restate server, such as http://10.0.0.5:8080",
      implies: 'role',
    })
    .option('listen', {
      type: 'string',
      requiresArg: true,
      describe: 'Address at which a worker takes calls of the engine, such as 10.0.0.7:9080',
      implies: 'role',
    })
    .option('files-late', {
      type: 'number',
      requiresArg: true,
      describe: 'Seconds after which a worker sees files of other hosts at the latest (a file system that caches)',
      implies: 'role',
    })
    .option('cluster-dev', {
      type: 'boolean',
      describe: 'Start a whole cluster on this machine: engine, balancer, gateway, two workers',
      conflicts: ['role', 'engine', 'listen', 'files-late'],
    });
}
