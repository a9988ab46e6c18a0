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
import { token } from '../admin/access-tokens.ts';
import { channel } from '../admin/channel-command.ts';
import { config } from '../admin/config-file.ts';
import { exportCommand, fork, importCommand } from '../admin/copy-sessions.ts';
import { help, PAGES } from '../admin/help-pages.ts';
import { acceptLog, archive, doctor, rebuild, remove, rename, settings } from '../admin/maintenance.ts';
import { service } from '../admin/service-command.ts';
import { usage } from '../admin/usage-report.ts';
import { acp, mcp, open, restart, serve, start, stop, takeover } from '../commands/daemon-lifecycle.ts';
import { list } from '../commands/list.ts';
import { plan } from '../commands/plan-actions.ts';
import {
  approvals,
  approve,
  cancel,
  continueRun,
  deny,
  jobs,
  newConversation,
  pause,
  stopRun,
} from '../commands/run-control.ts';
import { schedule } from '../commands/schedule-command.ts';
import { reply, send } from '../commands/send.ts';
import { log, why } from '../commands/session-history.ts';
import { show } from '../commands/show.ts';
import { status } from '../commands/status.ts';
import { run, saveTemplate, templates } from '../commands/template-commands.ts';
import { watch } from '../commands/watch-run.ts';
import { diff, files, restore, undo } from '../commands/work-files-commands.ts';
import type { CliCommand, CliServices, GlobalOptions } from '../common/command.ts';
import { EXIT_CODES, type ExitName, formatExitCodes } from '../common/command.ts';
import { chat, top } from '../live/live-commands.ts';

/** Options that may be given several times, and positionals of several words. */
const REPEATABLE_FLAGS = [
  'file',
  'path',
  'text',
  'note',
  'args',
  'param',
  'params',
  'sessions',
  'allow-host',
  'allowHost',
];

/** Options that are set or not. yargs reads any value of theirs as "no". */
const BOOLEAN_FLAGS = new Set([
  'wait',
  'check',
  'json',
  'stdin',
  'after',
  'ask',
  'yes',
  'full',
  'dry-run',
  'files',
  'keep-files',
  'force',
  'follow',
  'always',
  'once',
  'all',
  'quiet',
  'no-color',
  'answer-approvals',
  'print',
  'system',
  'help',
  'version',
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

/** What a command line needs from outside. */
export type ParserContext = {
  parts: CliServices;
  width: number;
  /** Receives how a command ended. */
  ended: (exit: ExitName) => void;
  /** Names to complete a session with. */
  sessions: string[];
};

/** The whole command line. */
export function buildAgentctlParser(
  argv: string[],
  { parts, width, ended, sessions }: ParserContext,
): Argv<GlobalOptions> {
  const word = findCommandWord(argv);
  const named = COMMANDS.find((command) => isCalled(command, word));
  let cli: Argv<GlobalOptions> = yargs(moveSwitchesBack(argv))
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
    .check((args) => {
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
  addCompletion(cli, sessions);
  return named ? cli : cli.epilogue(formatExitCodes());
}

/** Added by yargs itself. */
const COMPLETION_COMMAND = 'completion';

type DefaultCompletion = (found: (error: Error | null, words: string[] | undefined) => void) => void;

/** Completes commands and options as yargs does, and the names of sessions where one is expected. */
function addCompletion(cli: Argv<GlobalOptions>, sessions: string[]): void {
  cli.completion(
    COMPLETION_COMMAND,
    'Print a completion script; name a shell: bash, zsh, fish or powershell',
    (current: string, args: { _: string[] }, usual: DefaultCompletion, done: (words: string[]) => void) => {
      const [, name, ...words] = args._;
      const takesSession = COMMANDS.some(
        (command) => isCalled(command, name) && /[<[]session[>\]]/.test(command.usage),
      );
      if (takesSession && words.length <= 1 && !current.startsWith('-')) done(sessions);
      else usual((_, found) => done(found ?? []));
    },
  );
}

/** `help <command>` is `<command> --help`; of a page of the docs it is a command. */
export function expandHelp(argv: string[]): string[] {
  const [first, topic] = argv;
  if (first !== 'help') return argv;
  if (topic === undefined || topic.startsWith('-')) return ['help', PAGES, ...argv.slice(1)];
  return COMMANDS.some((command) => isCalled(command, topic)) ? [topic, '--help'] : argv;
}

const commandName = (usage: string): string => usage.split(' ')[0] ?? usage;

const isCalled = ({ usage, aliases }: CliCommand, word: string | undefined): boolean =>
  word !== undefined && (commandName(usage) === word || aliases.includes(word));

/** Whether this word is neither a flag nor the value of `--workspace`. */
const isCommandPlace = (argv: readonly string[], place: number): boolean =>
  !argv[place]?.startsWith('-') && argv[place - 1] !== '--workspace';

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
};

const findOtherName = (word: string): string | undefined =>
  Object.entries(OTHER_NAMES).find(([, others]) => others.includes(word))?.[0];

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
  return `${words}${suggestChoice(message, argv)}${flags}\nSee: agentctl ${usage ? `${commandName(usage)} ` : ''}--help`;
}

/** What was probably meant by a word that is none of the choices, such as `plan history demo`. */
function suggestChoice(message: string, argv: readonly string[]): string {
  const [, given = '', list = ''] = /Argument: \S+, Given: "(.*)", Choices: (.*)/.exec(message) ?? [];
  const choices = [...list.matchAll(/"([^"]*)"/g)].map(([, choice = '']) => choice);
  const before = argv[argv.indexOf(given) - 1] ?? '';
  if (choices.includes(before)) return `\nThe session comes first: "${given} ${before}".`;
  const nearest = nearestName(given.slice(0, 80), choices);
  return nearest ? `\nDid you mean "${nearest}"?` : '';
}

/**
 * Every command's help as `--help` prints it at that width, for the docs. The first one is that of agentctl itself;
 * `completion` is yargs' own and has no page.
 */
export async function renderCommandHelp(width = DOCS_WIDTH): Promise<Array<{ command: string; help: string }>> {
  const setting = {
    parts: { program: '', doctor: async () => [], jobs: async () => [] },
    width,
    ended: () => {},
    sessions: [],
  };
  const pages: Array<{ command: string; help: string }> = [];
  for (const name of ['', ...COMMANDS.map(({ usage }) => commandName(usage))]) {
    const help = await buildAgentctlParser(name === '' ? [] : [name], setting).getHelp();
    pages.push({ command: name === '' ? 'agentctl' : `agentctl ${name}`, help: `${help.trimEnd()}\n` });
  }
  return pages;
}

/** Every command, in the order of `--help`. */
const COMMANDS: readonly CliCommand[] = [
  ...[start, stop, restart, takeover, status, service],
  ...[send, run, continueRun, pause, stopRun, cancel, undo, newConversation, approvals, approve, deny],
  ...[chat, top],
  ...[list, show, reply, plan, why, jobs, watch, log],
  ...[files, diff, restore],
  ...[templates, saveTemplate, schedule],
  ...[settings, config, usage, help],
  ...[serve, open, token, channel, acp, mcp],
  ...[archive, remove, rename, fork, exportCommand, importCommand, rebuild, acceptLog, doctor],
];
