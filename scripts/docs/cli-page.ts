import { renderAgentdHelp } from '../../src/frontends/agentd/daemon-yargs.ts';
import { renderCommandHelp } from '../../src/frontends/cli/parser/yargs-parser.ts';

/** What both programs print for `--help`, word for word. */
export async function cliPage(): Promise<string> {
  const commands = await renderCommandHelp();
  const parts = [{ command: 'agentd', help: await renderAgentdHelp() }, ...commands];
  return [
    '# The commands',
    '',
    'Generated from `--help` by `npm run docs`. `agentd` is the daemon; `agentctl` is one more frontend: all it does, a script can do with files.',
    '',
    ...parts.map(({ command, help }) => `## ${command}\n\n\`\`\`text\n${help.trimEnd()}\n\`\`\`\n`),
  ].join('\n');
}
