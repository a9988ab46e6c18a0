import { escapeInvisible } from '../../base/strings.ts';
import { errorCode, errorText, UserError } from '../../base/user-error.ts';
import { DaemonState, NoSuchApproval, NoSuchSession, WaitedTooLong } from '../../client/sessions/client-errors.ts';
import { DOCS_WIDTH, isPlainWord } from '../command-line.ts';
import {
  type CliServices,
  EXIT_CODES,
  type ExitName,
  type GlobalOptions,
  openWorkspaceClient,
} from './common/command.ts';
import { configureOutput, print, printError } from './common/terminal.ts';
import type { ParserContext } from './parser/yargs-parser.ts';

/** Runs one command line. Resolves with its exit code; an error that a person can fix is printed without a stack. */
export async function runAgentctl(given: string[], parts: CliServices): Promise<number> {
  const argv = takeOutputFlags(given);
  for (const stream of [process.stdout, process.stderr])
    stream.on('error', (error: Error) => onStreamError(error, stream));
  let exit: ExitName = 'ok';
  try {
    const ended = (how: ExitName) => {
      exit = how;
    };
    const quick = findQuickCommand(argv, parts);
    if (quick) return EXIT_CODES[await quick()].code;
    const completed = argv[0] === COMPLETION_FLAG ? await completionWords(argv) : { sessions: [], seconds: [] };
    if (argv[0] === 'completion' && argv[1] !== undefined && !argv[1].startsWith('-')) {
      const { completionScript } = await import('./parser/completion-scripts.ts');
      const script = completionScript(argv[1], process.env);
      if (script !== undefined) process.stdout.write(script);
      if (script !== undefined) return EXIT_CODES.ok.code;
      argv.splice(1, 1);
    }
    const { buildAgentctlParser, expandHelp, isTopHelp, renderTopHelp } = await import('./parser/yargs-parser.ts');
    if (isTopHelp(argv)) {
      process.stdout.write(await renderTopHelp(terminalWidth()));
      return EXIT_CODES.ok.code;
    }
    const context = { parts, width: terminalWidth(), ended, ...completed };
    await buildAgentctlParser(expandHelp(dashToStdinFlag(argv)), context).parseAsync();
    return EXIT_CODES[exit].code;
  } catch (error) {
    const isForPeople = error instanceof UserError || isFileError(error);
    const exit = error instanceof UserError ? exitCodeOf(error) : EXIT_CODES.error.code;
    if (isForPeople) printError(error.message);
    if (isJsonWanted(argv)) print(escapeInvisible(JSON.stringify(errorEnvelope(errorText(error), exit))));
    if (!isForPeople) throw error;
    return exit;
  }
}

/** Of the system, about a file or folder that its text names: a stack tells a person nothing more. */
const isFileError = (error: unknown): error is Error =>
  error instanceof Error && errorCode(error) !== undefined && 'syscall' in error && 'path' in error;

const QUIET_FLAGS: readonly string[] = ['-q', '--quiet'];
const NO_COLOR_FLAG = '--no-color';

/**
 * Applies the flags that say how to print, and returns the other words: they hold for every command, also for those
 * that are read without yargs. Behind `--` they are words of a message.
 */
function takeOutputFlags(argv: string[]): string[] {
  if (argv[0] === COMPLETION_FLAG) return argv;
  const end = argv.indexOf('--');
  const flags = end < 0 ? argv : argv.slice(0, end);
  configureOutput({ quiet: flags.some((word) => QUIET_FLAGS.includes(word)), color: !flags.includes(NO_COLOR_FLAG) });
  const others = flags.filter((word) => word !== NO_COLOR_FLAG && !QUIET_FLAGS.includes(word));
  return end < 0 ? others : [...others, ...argv.slice(end)];
}

/** Errors that have an exit code of their own. */
const EXIT_OF_ERROR = [
  [NoSuchSession, 'session'],
  [DaemonState, 'daemon'],
  [WaitedTooLong, 'timeout'],
  [NoSuchApproval, 'approval'],
] as const;

function exitCodeOf(error: UserError): number {
  const own = EXIT_OF_ERROR.find(([kind]) => error instanceof kind);
  return own ? EXIT_CODES[own[1]].code : error.exit;
}

/** Only a flag: behind `--` it is a word of the message. */
function isJsonWanted(argv: readonly string[]): boolean {
  const end = argv.indexOf('--');
  return (end < 0 ? argv : argv.slice(0, end)).includes('--json');
}

/** What `--json` prints in place of a result. `code` is the name of the exit code, as the table has it. */
function errorEnvelope(message: string, exit: number) {
  const code = Object.entries(EXIT_CODES).find(([, one]) => one.code === exit)?.[0] ?? 'error';
  return { error: { code, exit, message } };
}

/** What the completion script of yargs calls us with. */
const COMPLETION_FLAG = '--get-yargs-completions';

/**
 * What completes a command line that is still being typed, in the workspace that is meant: the names of sessions, and
 * what the second word after its command may be.
 */
async function completionWords(argv: string[]): Promise<Pick<ParserContext, 'sessions' | 'seconds'>> {
  const flag = argv.lastIndexOf('--workspace');
  const client = await openWorkspaceClient({ workspace: flag < 0 ? undefined : argv[flag + 1] });
  const [, , command, session = ''] = argv.filter((_, n) => flag < 0 || (n !== flag && n !== flag + 1));
  const seconds = async (): Promise<string[]> => {
    if (command === 'run') return (await client.templates()).map(({ name }) => name);
    if (command === 'why') return (await client.show(session)).session.plan?.steps.map(({ id }) => id) ?? [];
    if (command !== 'config') return [];
    return (await import('../../client/actions/settings-edit.ts')).settingKeys();
  };
  return { sessions: client.sessions(), seconds: await seconds().catch(() => []) };
}

/** yargs loses a bare "-"; it means the same as `--stdin`. */
function dashToStdinFlag(argv: string[]): string[] {
  const end = argv.indexOf('--');
  return argv.map((word, place) => (word === '-' && (end < 0 || place < end) ? '--stdin' : word));
}

function terminalWidth(): number {
  return process.stdout.isTTY ? Math.min(DOCS_WIDTH, process.stdout.columns || 80) : DOCS_WIDTH;
}

/** The reader of our output closed it early, as `head` does; or it is a file on a full disk, say. */
function onStreamError(error: Error, stream: NodeJS.WriteStream): never {
  if (errorCode(error) === 'EPIPE') process.exit(0);
  if (stream !== process.stderr) printError(`Could not write the output: ${errorText(error)}`);
  process.exit(EXIT_CODES.error.code);
}

/** A command line in its plainest form: words, and flags that want no reading. */
type PlainCommandLine = { words: string[]; json: boolean | undefined; wait: boolean | undefined } & GlobalOptions;

/**
 * Reads a command line that holds nothing but words, `--json`, `--wait` and one `--workspace <folder>`; undefined where
 * there is anything else, or a word that yargs would not take as it is.
 */
export function parsePlainLine(argv: readonly string[]): PlainCommandLine | undefined {
  const line: PlainCommandLine = { words: [], json: undefined, wait: undefined, workspace: undefined };
  for (let place = 0; place < argv.length; place++) {
    const word = argv[place] ?? '';
    if (word === '--workspace' && line.workspace === undefined) {
      place++;
      line.workspace = argv[place];
      if (!isPlainWord(line.workspace)) return undefined;
    } else if (word === '--json' && isAfterCommand(line) && !line.json) line.json = true;
    else if (word === '--wait' && isAfterCommand(line) && !line.wait) line.wait = true;
    else if (isPlainWord(word)) line.words.push(word);
    else return undefined;
  }
  return line;
}

/** In front of the command yargs does not know its flags yet. */
const isAfterCommand = ({ words }: PlainCommandLine): boolean => words.length > 0;

/**
 * The commands people and scripts use most, in their plainest form, without yargs: loading it and building every
 * command's options takes longer than the commands themselves. Undefined: yargs reads this line, and finds what is
 * wrong with it.
 */
function findQuickCommand(
  argv: readonly string[],
  { jobs }: Pick<CliServices, 'jobs'>,
): (() => Promise<ExitName>) | undefined {
  const line = parsePlainLine(argv);
  if (!line) return undefined;
  const { words, json, wait, workspace } = line;
  const [name, session = '', ...text] = words;
  if (name === 'send' && text.length > 0) {
    return async () => {
      const { sendMessage } = await import('./commands/send.ts');
      return sendMessage({ text: text.join(' ') }, { session, json, wait, workspace });
    };
  }
  if (wait) return undefined;
  if (name === 'status' && words.length === 1)
    return async () => (await import('./commands/status.ts')).printStatus({ json, workspace });
  if ((name === 'list' || name === 'ls') && words.length === 1)
    return async () => (await import('./commands/list.ts')).listSessions({ json, workspace });
  if (name === 'show' && words.length === 2)
    return async () => (await import('./commands/show.ts')).showSession({ session, json, workspace }, jobs);
  return undefined;
}
