import { readdirSync, readFileSync } from 'node:fs';
import { nearestName } from '../../../base/strings.ts';
import { UserError } from '../../../base/user-error.ts';
import { DOCS_FOLDER } from '../../command-line.ts';
import { defineCommand, EXIT_CODES } from '../common/command.ts';
import { print, stripControls } from '../common/terminal.ts';

/** What `agentctl help` alone is read as: yargs would print the help of all commands. */
export const PAGES = 'pages';

export const help = defineCommand({
  usage: 'help [topic]',
  describe: 'Show a page of the documentation, or the help of a command; without a topic, list the pages',
  builder: (cli) =>
    cli
      .positional('topic', { type: 'string', describe: 'Name of a page, such as models or undo.md, or of a command' })
      .example('$0 help models', '')
      .example('$0 help undo.md', 'the page; without ".md" the command')
      .example('$0 help models | less', ''),
  async run({ topic }) {
    const pages = listPages();
    if (topic === undefined || topic === PAGES) {
      print(['Pages:', ...pages.map((name) => `  ${name.padEnd(14)} ${titleOf(name)}`)].join('\n'));
      print(
        '\nRead one with: agentctl help <page>, or <page>.md if it has the name of a command: agentctl help undo.md',
      );
      print('The commands: agentctl --help');
      return;
    }
    const name = topic.replace(/\.md$/, '');
    if (!pages.includes(name)) {
      const near = nearestName(name, pages);
      throw new UserError(
        `No page ${JSON.stringify(topic)}.${near ? ` Did you mean "${near}"?` : ''} Pages: ${pages.join(', ')}.`,
        EXIT_CODES.usage.code,
      );
    }
    print(stripControls(readPage(name).trimEnd().replaceAll('\\|', '|')));
  },
});

/** The names of the pages, without `.md`. */
export function listPages(): string[] {
  return readdirSync(DOCS_FOLDER)
    .filter((name) => /^[a-z-]+\.md$/.test(name))
    .map((name) => name.slice(0, -'.md'.length))
    .sort();
}

const readPage = (name: string): string => readFileSync(new URL(`${name}.md`, DOCS_FOLDER), 'utf8');

const titleOf = (name: string): string => /^# (.+)$/m.exec(readPage(name))?.[1] ?? '';
