import yargs, { type Argv } from 'yargs';
import { UserError } from '../../protocol/errors.ts';
import { checkOnce, DOCS_WIDTH, WORKSPACE_OPTION } from '../options.ts';
import { ownVersion } from '../version.ts';
import type { Global, Parts } from './command.ts';
import { COMMANDS } from './commands/all.ts';
import { EXITS, type Exit, exitTable } from './exit-codes.ts';

/** Options that may be given several times, and positionals of several words. */
const LISTS = ['file', 'text', 'note', 'args', 'param', 'params'];

/** Options that are there or not. yargs takes any value of theirs for "no". */
const SWITCHES = new Set([
  'wait',
  'json',
  'stdin',
  'after',
  'ask',
  'yes',
  'force',
  'follow',
  'always',
  'help',
  'version',
]);

function checkSwitches(argv: string[]): void {
  const end = argv.indexOf('--');
  for (const word of end < 0 ? argv : argv.slice(0, end)) {
    const name = /^--([a-z-]+)=/.exec(word)?.[1] ?? '';
    if (SWITCHES.has(name)) throw new Error(`--${name} takes no value; ${word} was given.`);
  }
}

/** What a command line is told from outside. */
export type Setting = {
  parts: Parts;
  width: number;
  /** Is told how a command went. */
  ended: (exit: Exit) => void;
  /** Names to complete a session with. */
  sessions: string[];
};

/** The whole command line. */
export function commandLine(argv: string[], { parts, width, ended, sessions }: Setting): Argv<Global> {
  const named = COMMANDS.find(({ usage }) => argv.includes(nameOf(usage)));
  let cli: Argv<Global> = yargs(argv)
    .scriptName('agentctl')
    .locale('en')
    .version(ownVersion())
    .usage(
      'Usage: $0 <command> [options]\n\nTalks to agentd through the files of its workspace. Works while no daemon is running.',
    )
    .parserConfiguration({ 'greedy-arrays': false, 'parse-positional-numbers': false })
    .option('workspace', { ...WORKSPACE_OPTION, global: true })
    .demandCommand(1, 'A command is wanted.')
    .strict()
    .wrap(width)
    .exitProcess(false)
    .check((args) => {
      checkOnce(args, LISTS);
      checkSwitches(argv);
      if (typeof args['session'] === 'string' && args['session'].trim() === '')
        throw new Error('A session wants a name.');
      return true;
    })
    .fail((message: string | null, error) => {
      // Without a message it is what a command threw; with one it is a complaint of yargs, a `check` or a `coerce`.
      throw message === null ? error : new UserError(usageText(message, named?.usage), EXITS.usage.code);
    });
  for (const command of COMMANDS) cli = command.addTo(cli, parts, ended);
  completing(cli, sessions);
  return named ? cli : cli.epilogue(exitTable());
}

type Usual = (found: (error: Error | null, words: string[] | undefined) => void) => void;

/** Completes commands and options as yargs does, and the names of sessions where one is wanted. */
function completing(cli: Argv<Global>, sessions: string[]): void {
  cli.completion(
    'completion',
    'Print a script that completes agentctl in bash or zsh',
    (current: string, args: { _: string[] }, usual: Usual, done: (words: string[]) => void) => {
      const [, name, ...words] = args._;
      const takesSession = COMMANDS.some(({ usage }) => nameOf(usage) === name && usage.includes('<session>'));
      if (takesSession && words.length <= 1 && !current.startsWith('-')) done(sessions);
      else usual((_, found) => done(found ?? []));
    },
  );
}

const nameOf = (usage: string): string => usage.split(' ')[0] ?? usage;

function usageText(message: string, usage: string | undefined): string {
  const isUnknown = usage === undefined && message.startsWith('Unknown argument: ');
  if (isUnknown) return `Unknown command: ${message.slice('Unknown argument: '.length)}\nSee: agentctl --help`;
  const words = /^Not enough non-option arguments/.test(message) && usage ? `Wanted: agentctl ${usage}` : message;
  return `${words}\nSee: agentctl ${usage ? `${nameOf(usage)} ` : ''}--help`;
}

/**
 * Every command's help as `--help` prints it, 100 wide, for the docs. The first one is that of agentctl itself; `completion`
 * is yargs' own and has no page.
 */
export async function commandHelp(): Promise<Array<{ command: string; help: string }>> {
  const setting = {
    parts: { program: '', doctor: async () => [], jobs: async () => [] },
    width: DOCS_WIDTH,
    ended: () => {},
    sessions: [],
  };
  const pages: Array<{ command: string; help: string }> = [];
  for (const name of ['', ...COMMANDS.map(({ usage }) => nameOf(usage))]) {
    const help = await commandLine(name === '' ? [] : [name], setting).getHelp();
    pages.push({ command: name === '' ? 'agentctl' : `agentctl ${name}`, help: `${help.trimEnd()}\n` });
  }
  return pages;
}
