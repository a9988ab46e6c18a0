import type { Argv } from 'yargs';
import yargs from 'yargs';
import { nearestName } from '../../../base/strings.ts';
import { UserError } from '../../../base/user-error.ts';
import { emptyValue } from '../../../client/sessions/client-errors.ts';
import {
  DOCS_WIDTH,
  rejectEmptyFlags,
  rejectRepeatedFlags,
  suggestFlags,
  versionWithCommit,
  WORKSPACE_OPTION,
} from '../../command-line.ts';
import { PAGES } from '../admin/help-pages.ts';
import type { CliServices, GlobalOptions } from '../common/command.ts';
import { EXIT_CODES, type ExitName, formatExitCodes } from '../common/command.ts';
import { COMMAND_GROUPS, COMMANDS } from './all-commands.ts';
import { addCompletion, COMPLETION_COMMAND, COMPLETION_TEXT, commandName, isCalled } from './completion-scripts.ts';

/** Options that may be given several times, and positionals of several words. */
const REPEATABLE_FLAGS = [
  ...['file', 'path', 'text', 'note', 'args', 'param', 'params', 'sessions', 'allow-host', 'allowHost'],
];

/** Options that are set or not. yargs reads any value of theirs as "no". */
const BOOLEAN_FLAGS = new Set([
  ...['wait', 'check', 'json', 'stdin', 'after', 'ask', 'yes', 'full', 'dry-run', 'files', 'keep-files', 'force'],
  ...['follow', 'always', 'once', 'all', 'quiet', 'no-color', 'answer-approvals', 'print', 'verbose', 'system'],
  ...['help', 'version'],
  ...['a', 'f', 'y', 'q', 'h', 'V'],
]);

function rejectSwitchValues(argv: string[]): void {
  const end = argv.indexOf('--');
  for (const word of end < 0 ? argv : argv.slice(0, end)) {
    const name = /^--([a-z-]+)=/.exec(word)?.[1] ?? '';
    if (BOOLEAN_FLAGS.has(name)) throw new Error(`--${name} takes no value; got ${word}.`);
  }
}

/** `config set <key> ""` sets an empty text; of an empty name the commands themselves say what it must be. */
const MAY_BE_EMPTY: readonly string[] = ['value', 'name'];

function rejectEmptyArguments(args: Record<string, unknown>): void {
  for (const [name, value] of Object.entries(args))
    if ((Array.isArray(value) ? value.includes('') : value === '') && !MAY_BE_EMPTY.includes(name))
      throw new Error(emptyValue(`<${name}>`));
}

/** Behind the command, those in front of it: there, yargs would take the command for their value. */
function moveSwitchesBack(argv: readonly string[]): string[] {
  const place = argv.findIndex((_, at) => isCommandPlace(argv, at));
  const isSwitch = (one: string) => one.startsWith('--') && BOOLEAN_FLAGS.has(one.slice(2));
  const before = argv.slice(0, Math.max(0, place));
  const others = before.filter((one) => !isSwitch(one));
  return [...others, ...argv.slice(before.length, place + 1), ...before.filter(isSwitch), ...argv.slice(place + 1)];
}

/** A word with a space in it, such as "- [ ] Buy milk", is a text and no option. No word given has a NUL. */
const hideDash = (word: string, place: number, all: readonly string[]): string =>
  /^-[^=]*\s/.test(word) && !all.slice(0, place).includes('--') ? `\0${word}` : word;

function showDashes(args: Record<string, unknown>): void {
  const shown = (value: unknown): unknown =>
    Array.isArray(value) ? value.map(shown) : typeof value === 'string' ? value.replace(/^\0/, '') : value;
  for (const [name, value] of Object.entries(args)) args[name] = shown(value);
}

/** What a command line needs from outside. */
export type ParserContext = {
  parts: CliServices;
  width: number;
  /** Receives how a command ended. */
  ended: (exit: ExitName) => void;
  /** Names to complete a session with, and words to complete what follows it. */
  sessions: string[];
  seconds?: string[];
};

/** The whole command line. */
export function buildAgentctlParser(
  argv: string[],
  { parts, width, ended, sessions, seconds = [] }: ParserContext,
): Argv<GlobalOptions> {
  const word = findCommandWord(argv);
  const named = COMMANDS.find((command) => isCalled(command, word));
  let cli: Argv<GlobalOptions> = yargs(moveSwitchesBack(argv).map(hideDash))
    .scriptName('agentctl')
    .locale('en')
    .alias('help', 'h')
    .version(versionWithCommit())
    .alias('version', 'V')
    .usage(
      'Usage: $0 <command> [options]\n\nTalks to agentd through the files of its workspace. Also works while no daemon is running.',
    )
    .parserConfiguration({ 'greedy-arrays': false, 'parse-positional-numbers': false })
    .option('workspace', { ...WORKSPACE_OPTION, global: true })
    // Both are taken off the command line before; here they are for the help and the completion.
    .option('quiet', { type: 'boolean', alias: 'q', describe: 'Print results and errors only, no notes', global: true })
    .option('no-color', { type: 'boolean', describe: 'Print no colours; NO_COLOR=1 does the same', global: true })
    .demandCommand(1, 'No command given.')
    .strict()
    .wrap(width)
    .exitProcess(false)
    .middleware(showDashes)
    .check((args) => {
      if (word === undefined && argv.includes('--')) throw new Error('No command given in front of "--".');
      rejectRepeatedFlags(args, REPEATABLE_FLAGS);
      rejectSwitchValues(argv);
      rejectEmptyFlags(argv, BOOLEAN_FLAGS);
      rejectEmptyArguments(args);
      if (typeof args['session'] === 'string' && args['session'].trim() === '')
        throw new Error('The name of the session is empty.');
      return true;
    })
    .fail((message: string | null, error) => {
      // Without a message it is what a command threw; with one it is a complaint of yargs, a `check` or a `coerce`.
      throw message === null
        ? error
        : new UserError(formatUsageError(message, named?.usage, argv, cli), EXIT_CODES.usage.code);
    });
  for (const command of COMMANDS) cli = command.register(cli, parts, ended);
  addCompletion(cli, argv, sessions, seconds);
  return named ? cli : cli.epilogue(formatExitCodes());
}

/** `help <command>` is `<command> --help`; of a page of the docs it is a command. */
export function expandHelp(argv: string[]): string[] {
  const [first, topic] = argv;
  if (first !== 'help') return argv;
  if (topic === undefined || topic.startsWith('-')) return ['help', PAGES, ...argv.slice(1)];
  return COMMANDS.some((command) => isCalled(command, topic)) ? [topic, '--help'] : argv;
}

/** Whether this word is neither a flag nor the value of `--workspace`. */
const isCommandPlace = (argv: readonly string[], place: number): boolean =>
  !argv[place]?.startsWith('-') && argv[place - 1] !== '--workspace' && !argv.slice(0, place).includes('--');

/** The first word that may be a command. */
const findCommandWord = (argv: readonly string[]): string | undefined =>
  argv.find((_, place) => isCommandPlace(argv, place));

/** What other programs call a command, or what people type for it. */
const OTHER_NAMES: Readonly<Record<string, readonly string[]>> = {
  remove: ['rm', 'delete', 'del'],
  rename: ['mv'],
  list: ['ps', 'sessions'],
  send: ['ask', 'message', 'msg'],
  reply: ['replies', 'read', 'cat', 'answer'],
  continue: ['resume'],
  cancel: ['kill', 'abort'],
  watch: ['tail', 'follow', 'attach'],
  'plan <session> …': ['done', 'skip', 'add', 'move', 'reword', 'edit', 'history', 'diff'],
  '--version': ['version'],
  validate: ['check'],
};

const findOtherName = (word: string, among?: readonly string[]): string | undefined =>
  Object.entries(OTHER_NAMES).find(
    ([name, others]) => others.includes(word) && (among === undefined || among.includes(name)),
  )?.[0];

function formatUsageError(message: string, usage: string | undefined, argv: readonly string[], cli: object): string {
  const word = findCommandWord(argv);
  const isUnknown = usage === undefined && word !== undefined && word !== COMPLETION_COMMAND;
  const flags = suggestFlags(message, argv, cli, BOOLEAN_FLAGS);
  // Otherwise the word is the value of the mistyped flag.
  if (isUnknown && flags === '' && /^Unknown arguments?: /.test(message)) {
    const names = COMMANDS.map((command) => commandName(command.usage));
    const nearest = findOtherName(word) ?? nearestName(word.slice(0, 80), names);
    return `Unknown command: ${word}${nearest ? `. Did you mean "${nearest}"?` : ''}\nSee: agentctl --help`;
  }
  const words = /^Not enough non-option arguments/.test(message) && usage ? `Usage: agentctl ${usage}` : message;
  const dash =
    flags === '' && /^Unknown argument/.test(message) && usage?.includes('..]')
      ? `\nA text that begins with "-" comes behind "--", as in: agentctl ${commandName(usage)} … -- "-5"`
      : '';
  return `${words}${message.startsWith('No command given') ? whatIsInFront(argv) : ''}${suggestChoice(message, argv)}${flags}${dash}\nSee: agentctl ${usage ? `${commandName(usage)} ` : ''}--help`;
}

/** What a line without a command has in its place. */
function whatIsInFront(argv: readonly string[]): string {
  const place = argv.indexOf('--workspace');
  const value = place < 0 ? undefined : argv[place + 1];
  if (value !== undefined && COMMANDS.some((command) => isCalled(command, value)))
    return ` "${value}" is read as the value of --workspace.`;
  const flag = argv.find((one) => /^--?[^-=]/.test(one) && !/^--workspace(?:=|$)/.test(one));
  return flag === undefined ? '' : ` ${flag.split('=')[0]} is no option of agentctl itself.`;
}

/** What was probably meant by a word that is none of the choices, such as `plan history demo`. */
function suggestChoice(message: string, argv: readonly string[]): string {
  const [, given = '', list = ''] = /Argument: \S+, Given: "(.*)", Choices: (.*)/.exec(message) ?? [];
  const choices = [...list.matchAll(/"([^"]*)"/g)].map(([, choice = '']) => choice);
  const before = argv[argv.indexOf(given) - 1] ?? '';
  if (choices.includes(before)) return `\nThe session comes first: "${given} ${before}".`;
  const nearest = findOtherName(given, choices) ?? nearestName(given.slice(0, 80), choices);
  return nearest ? `\nDid you mean "${nearest}"?` : '';
}

/** Whether the help of agentctl itself is asked for, which `renderTopHelp` has. */
export const isTopHelp = (argv: readonly string[]): boolean =>
  findCommandWord(argv) === undefined && argv.some((word) => word === '--help' || word === '-h');

/** What `agentctl --help` prints: yargs lists commands, and knows no groups of them. */
export async function renderTopHelp(width = DOCS_WIDTH): Promise<string> {
  const help = await buildAgentctlParser([], { ...FOR_HELP, width }).getHelp();
  const rows = Object.entries(COMMAND_GROUPS).map(([title, commands]) => ({
    title,
    rows: commands.map(({ usage, aliases, describe }) => ({
      usage,
      text: aliases.length > 0 ? `${describe} (or: ${aliases.join(', ')})` : describe,
    })),
  }));
  rows.at(-1)?.rows.push({ usage: `${COMPLETION_COMMAND} [shell]`, text: COMPLETION_TEXT });
  const column = Math.max(...rows.flatMap((group) => group.rows.map(({ usage }) => usage.length))) + 4;
  const groups = rows.map((group) => {
    const lines = group.rows.map(({ usage, text }) => `  ${usage}`.padEnd(column) + hang(text, column, width));
    return `${group.title}:\n${lines.join('\n')}\n\n`;
  });
  return `${help.replace(/^Commands:\n.*?\n\n(?=Options:)/ms, () => groups.join('')).trimEnd()}\n`;
}

/** Text in lines of at most `width`, the first of which begins at `column`, where the others are indented to. */
function hang(text: string, column: number, width: number): string {
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1) ?? '';
    if (line !== '' && column + line.length + word.length >= width) lines.push(word);
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
  }
  return lines.join(`\n${' '.repeat(column)}`);
}

/** A parser that runs nothing. */
const FOR_HELP = {
  parts: { program: '', doctor: async () => [], jobs: async () => [], login: async () => '' },
  ended: () => {},
  sessions: [],
};

/**
 * Every command's help as `--help` prints it at that width, for the docs. The first one is that of agentctl itself;
 * `completion` is yargs' own and has no page.
 */
export async function renderCommandHelp(width = DOCS_WIDTH): Promise<Array<{ command: string; help: string }>> {
  const pages = [{ command: 'agentctl', help: await renderTopHelp(width) }];
  for (const name of COMMANDS.map(({ usage }) => commandName(usage))) {
    const help = await buildAgentctlParser([name], { ...FOR_HELP, width }).getHelp();
    pages.push({ command: `agentctl ${name}`, help: `${help.trimEnd()}\n` });
  }
  return pages;
}
