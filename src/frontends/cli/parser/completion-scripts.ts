import type { Argv } from 'yargs';
import { nearestName } from '../../../base/strings.ts';
import { UserError } from '../../../base/user-error.ts';
import { listPages } from '../admin/help-pages.ts';
import { type CliCommand, EXIT_CODES, type GlobalOptions } from '../common/command.ts';
import { COMMANDS } from './all-commands.ts';

/** Asks for words as a shell whose name is not zsh: for that one yargs adds descriptions. */
const FISH = `# Completion of agentctl for fish:
#   agentctl completion fish > ~/.config/fish/completions/agentctl.fish
function __agentctl_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    env SHELL=fish agentctl --get-yargs-completions $words "$current"
end
complete -c agentctl -f -a '(__agentctl_complete)'
complete -c agentctl -n '__fish_seen_subcommand_from send' -l file -r -F
complete -c agentctl -n '__fish_seen_subcommand_from start restart config' -l config -r -F
complete -c agentctl -l workspace -r -F
`;

const POWERSHELL = `# Completion of agentctl for PowerShell 7.3 or newer; add the output to your profile:
#   agentctl completion powershell >> $PROFILE
Register-ArgumentCompleter -Native -CommandName agentctl -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements | ForEach-Object { $_.ToString() })
    if ($wordToComplete -eq '') { $words += '' }
    env SHELL=pwsh agentctl --get-yargs-completions @words |
        Where-Object { $_ -like "$wordToComplete*" } |
        ForEach-Object { [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_) }
}
`;

/** Of bash and zsh, yargs writes the script: it goes by the shell it is called from. */
export const SHELLS = ['bash', 'zsh', 'fish', 'powershell'] as const;

/**
 * What `agentctl completion <shell>` prints; undefined if yargs prints it, with the shell set in `env`.
 * Throws UserError for a shell that is not known.
 */
export function completionScript(shell: string, env: NodeJS.ProcessEnv): string | undefined {
  const known = SHELLS.find((name) => name === (shell === 'pwsh' ? 'powershell' : shell));
  if (known === 'fish') return FISH;
  if (known === 'powershell') return POWERSHELL;
  if (known === undefined) {
    const near = nearestName(shell, SHELLS);
    throw new UserError(
      `No completion for ${JSON.stringify(shell)}.${near ? ` Did you mean "${near}"?` : ''} Shells: ${SHELLS.join(', ')}.`,
      EXIT_CODES.usage.code,
    );
  }
  env['SHELL'] = known;
  return undefined;
}

/** Added by yargs itself. */
export const COMPLETION_COMMAND = 'completion';
export const COMPLETION_TEXT = 'Print a completion script; name a shell: bash, zsh, fish or powershell';

/** Options that take a file or folder. */
const FILE_FLAGS: readonly string[] = ['--file', '--config', '--workspace'];

type DefaultCompletion = (found: (error: Error | null, words: string[] | undefined) => void) => void;

/** Completes commands and options as yargs does, and the names of sessions where one is expected. */
export function addCompletion(
  cli: Argv<GlobalOptions>,
  argv: readonly string[],
  sessions: string[],
  seconds: string[],
): void {
  cli.completion(
    COMPLETION_COMMAND,
    COMPLETION_TEXT,
    (current: string, args: { _: string[] }, usual: DefaultCompletion, done: (words: string[]) => void) => {
      const [, name, ...words] = args._;
      const before = argv.at(-2) ?? '';
      // Nothing found: the shell offers files.
      if (FILE_FLAGS.includes(before)) return done([]);
      if (name === 'help' && words.length <= 1)
        return done([...listPages(), ...COMMANDS.map(({ usage }) => commandName(usage))]);
      if (name === COMPLETION_COMMAND) return done([...SHELLS]);
      if (seconds.length > 0 && words.length === 2 && !current.startsWith('-')) return done(seconds);
      const takesSession = COMMANDS.some(
        (command) => isCalled(command, name) && /[<[]session[>\]]/.test(command.usage),
      );
      if (takesSession && words.length <= 1 && !current.startsWith('-')) done(sessions);
      // Of short options yargs has a long form too, which nobody types.
      else usual((_, found) => done((found ?? []).filter((one) => !/^--.(?::|$)/.test(one))));
    },
  );
}

/** The name in its usage. */
export const commandName = (usage: string): string => usage.split(' ')[0] ?? usage;

/** Whether it is called so, by its name or another. */
export const isCalled = ({ usage, aliases }: CliCommand, word: string | undefined): boolean =>
  word !== undefined && (commandName(usage) === word || aliases.includes(word));
