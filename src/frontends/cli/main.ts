import { errorCode, UserError } from '../../protocol/errors.ts';
import { DOCS_WIDTH } from '../options.ts';
import { clientOf, type Parts } from './command.ts';
import { EXITS, type Exit } from './exit-codes.ts';
import { note } from './print.ts';
import { quickCommand } from './quick-line.ts';

/** Runs one command line. Resolves with its exit code; faults a person can mend are said without a stack. */
export async function agentctl(argv: string[], parts: Parts): Promise<number> {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', endOfPipe);
  let exit: Exit = 'ok';
  try {
    const ended = (how: Exit) => {
      exit = how;
    };
    const quick = quickCommand(argv, parts);
    if (quick) return EXITS[await quick()].code;
    const sessions = argv[0] === COMPLETION ? await sessionNames(argv) : [];
    const { commandLine } = await import('./cli.ts');
    await commandLine(dashAsFlag(argv), { parts, width: width(), ended, sessions }).parseAsync();
    return EXITS[exit].code;
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    note(error.message);
    return exitOf(error);
  }
}

/** Faults that have an exit code of their own, by name: the client is loaded only where it is used. */
const EXIT_OF_ERROR: Record<string, Exit> = {
  NoSuchSession: 'session',
  DaemonState: 'daemon',
  WaitedTooLong: 'timeout',
  NoSuchApproval: 'approval',
};

function exitOf(error: UserError): number {
  const own = EXIT_OF_ERROR[error.name];
  return own ? EXITS[own].code : error.exit;
}

/** What the completion script of yargs calls us with. */
const COMPLETION = '--get-yargs-completions';

/** Names of the sessions of the workspace that is meant in a command line that is still being typed. */
async function sessionNames(argv: string[]): Promise<string[]> {
  const flag = argv.lastIndexOf('--workspace');
  return (await clientOf({ workspace: flag < 0 ? undefined : argv[flag + 1] })).sessions();
}

/** yargs loses a bare "-"; it means the same as `--stdin`. */
function dashAsFlag(argv: string[]): string[] {
  const end = argv.indexOf('--');
  return argv.map((word, place) => (word === '-' && (end < 0 || place < end) ? '--stdin' : word));
}

function width(): number {
  return process.stdout.isTTY ? Math.min(DOCS_WIDTH, process.stdout.columns || 80) : DOCS_WIDTH;
}

/** Whoever read us has seen enough, as `head` does. */
function endOfPipe(error: Error): void {
  if (errorCode(error) !== 'EPIPE') throw error;
  process.exit(0);
}
