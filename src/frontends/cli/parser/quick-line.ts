import { isPlainWord } from '../../command-line.ts';
import type { CliServices, GlobalOptions } from '../common/command.ts';
import type { ExitName } from '../common/exit-codes.ts';

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
export function findQuickCommand(
  argv: readonly string[],
  { jobs }: Pick<CliServices, 'jobs'>,
): (() => Promise<ExitName>) | undefined {
  const line = parsePlainLine(argv);
  if (!line) return undefined;
  const { words, json, wait, workspace } = line;
  const [name, session = '', ...text] = words;
  if (name === 'send' && text.length > 0) {
    return async () => {
      const { sendMessage } = await import('../commands/send.ts');
      return sendMessage({ text: text.join(' ') }, { session, json, wait, workspace });
    };
  }
  if (wait) return undefined;
  if (name === 'status' && words.length === 1)
    return async () => (await import('../commands/status.ts')).printStatus({ json, workspace });
  if ((name === 'list' || name === 'ls') && words.length === 1)
    return async () => (await import('../commands/list.ts')).listSessions({ json, workspace });
  if (name === 'show' && words.length === 2)
    return async () => (await import('../commands/show.ts')).showSession({ session, json, workspace }, jobs);
  return undefined;
}
