import yargs from 'yargs';
import { errorText, UserError } from '../protocol/errors.ts';
import { AGENTD_EXITS, agentdExitTable } from './agentd-exits.ts';
import type { DaemonLine } from './agentd-line.ts';
import { checkOnce, DOCS_WIDTH, daemonOptions, WORKSPACE_OPTION } from './options.ts';
import { ownVersion } from './version.ts';

/** Any command line of `agentd`; null where help or the version was asked for, and said. Throws UserError for what it cannot read. */
export async function readByYargs(argv: string[]): Promise<DaemonLine | null> {
  const args = await command(argv).parse();
  return args['help'] || args['version'] ? null : args;
}

/** What `agentd --help` prints. */
export async function agentdHelp(): Promise<string> {
  return `${await command([]).wrap(DOCS_WIDTH).getHelp()}\n`;
}

function command(argv: string[]) {
  const cli = yargs(argv)
    .scriptName('agentd')
    .locale('en')
    .version(ownVersion())
    .usage(
      [
        'Usage: $0 [options]',
        '',
        'Serves the sessions of a workspace in the foreground: takes the messages dropped into',
        '.sessions/<session>/inbox/, works on them, and puts one reply for each into outbox/.',
        'Prints "READY <workspace>" once it serves; logs to stderr, one JSON object a line.',
        'SIGTERM or SIGINT stops it within seconds; what it was at goes on at the next start.',
        '"agentctl start" runs it in the background.',
      ].join('\n'),
    )
    .option('workspace', WORKSPACE_OPTION)
    .check((args) => {
      checkOnce(args);
      return true;
    })
    .strict()
    .wrap(process.stdout.isTTY ? Math.min(DOCS_WIDTH, process.stdout.columns || 80) : DOCS_WIDTH)
    .exitProcess(false)
    .fail((message, error) => {
      throw new UserError(`${message ?? errorText(error)}\nSee: agentd --help`, AGENTD_EXITS.usage.code);
    })
    .epilogue(agentdExitTable());
  return daemonOptions(cli);
}
