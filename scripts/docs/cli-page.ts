import { renderAgentdHelp } from '../../src/frontends/agentd/daemon-yargs.ts';
import { EXIT_CODES } from '../../src/frontends/cli/common/command.ts';
import { renderCommandHelp } from '../../src/frontends/cli/parser/yargs-parser.ts';

/** The exact `--help` output of both programs. */
export async function cliPage(): Promise<string> {
  const commands = await renderCommandHelp();
  const parts = [{ command: 'agentd', help: await renderAgentdHelp() }, ...commands];
  return [
    '# The commands',
    '',
    'Generated from `--help` by `npm run docs`. `agentd` is the daemon; `agentctl` is one more frontend: all it does, a script can do with files.',
    '',
    'Commands that work with an existing session take a unique prefix of its name: `agentctl show rep` for `report`. An exact name always wins. `send` and `run`, which',
    'create sessions, and `archive`, `remove`, `rename` and `rebuild` take whole names only.',
    '',
    'With `--json`, a command that fails prints its error to standard output as one line, besides the text on standard error:',
    '`{"error":{"code":"session","exit":4,"message":"No session …"}}`. `exit` is the exit code, and `code` names it:',
    `${Object.entries(EXIT_CODES)
      .filter(([name]) => name !== 'ok')
      .map(([name, { code }]) => `\`${name}\` ${code}`)
      .join(', ')}.`,
    '',
    ...parts.map(({ command, help }) => `## ${command}\n\n\`\`\`text\n${help.trimEnd()}\n\`\`\`\n`),
  ].join('\n');
}
