import { nearestName } from '../../../base/strings.ts';
import { UserError } from '../../../base/user-error.ts';
import { EXIT_CODES } from '../common/command.ts';

/** Asks for words as a shell whose name is not zsh: for that one yargs adds descriptions. */
const FISH = `# Completion of agentctl for fish:
#   agentctl completion fish > ~/.config/fish/completions/agentctl.fish
function __agentctl_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    env SHELL=fish agentctl --get-yargs-completions $words "$current"
end
complete -c agentctl -f -a '(__agentctl_complete)'
complete -c agentctl -l file -r -F
complete -c agentctl -l config -r -F
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
const SHELLS = ['bash', 'zsh', 'fish', 'powershell'] as const;

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
