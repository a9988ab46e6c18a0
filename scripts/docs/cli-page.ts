import { renderAgentdHelp } from '../../src/frontends/agentd/daemon-yargs.ts';
import { EXIT_CODES } from '../../src/frontends/cli/common/command.ts';
import { renderCommandHelp } from '../../src/frontends/cli/parser/yargs-parser.ts';

/** So wide that no line of a help text is wrapped. */
const UNWRAPPED = 1000;

/** An option or argument: its names, what it takes, and what it does. */
type Entry = { name: string; takes: string; text: string };

/** A help text, taken apart. `others`: sections that only this command has, such as "Exit codes". */
type Help = { usage: string; intro: string[]; entries: Entry[]; examples: string[]; others: string[][] };

/** Both programs and all commands, from their `--help`; what many commands share is said once. */
export async function cliPage(): Promise<string> {
  const agentd = parseHelp(await renderAgentdHelp(UNWRAPPED));
  const [first, ...others] = (await renderCommandHelp(UNWRAPPED)).map(({ help }) => help);
  const agentctl = parseHelp(first ?? '');
  const commands = [
    ...others.map((help) => withAliases(parseHelp(help), first ?? '')),
    ...commandsWithoutHelp(first ?? '', others),
  ];
  const everywhere = new Set(agentctl.entries.map(keyOf));
  const shared = sharedEntries([agentd, ...commands], everywhere);
  const said = new Set([...everywhere, ...shared.map(keyOf)]);
  return [
    '# The commands',
    '',
    'Generated from `--help` by `npm run docs`. `agentd` is the daemon; `agentctl` is one more frontend: all it does, a script can do with files.',
    '',
    'Commands that work with an existing session take a unique prefix of its name: `agentctl show rep` for `report`. An exact name always wins. `send` and `run`, which',
    'create sessions, and `archive`, `remove`, `rename` and `rebuild` take whole names only.',
    '',
    'With `--json`, a command that fails prints its error to standard output as one line, besides the text on standard error:',
    '`{"error":{"code":"session","exit":4,"message":"No session …"}}`.',
    '',
    '| exit code | `code` | meaning |',
    '| --- | --- | --- |',
    ...Object.entries(EXIT_CODES).map(([name, { code, when }]) => `| ${code} | \`${name}\` | ${when} |`),
    '',
    'Every command has:',
    '',
    ...agentctl.entries.map(formatEntry),
    '',
    'Several commands have these, which below are only named:',
    '',
    ...joinByName(shared).map(formatEntry),
    '',
    ...[agentd, ...commands].flatMap((help) => formatHelp(help, said, everywhere)),
  ].join('\n');
}

function formatHelp({ usage, intro, entries, examples, others }: Help, said: Set<string>, everywhere: Set<string>) {
  const own = entries.filter((entry) => !said.has(keyOf(entry)));
  const named = entries.filter((entry) => said.has(keyOf(entry)) && !everywhere.has(keyOf(entry)));
  const options = named.filter(({ name }) => name.startsWith('-')).map(({ name }) => `\`${name}\``);
  return [
    `## \`${usage}\``,
    '',
    escapeTags(intro.join(' ')),
    ...(own.length + options.length > 0 ? [''] : []),
    ...own.map(formatEntry),
    ...(options.length > 0 ? [`- ${options.join(', ')}`] : []),
    ...others.flatMap((lines) => ['', ...formatSection(lines)]),
    ...(examples.length > 0 ? ['', '```sh', ...examples, '```'] : []),
    '',
  ];
}

/** Lines below a heading keep their columns; a remark is a paragraph. */
const formatSection = (lines: string[]): string[] =>
  lines.some((line) => line.startsWith('  ')) ? ['```text', ...lines, '```'] : lines.map(escapeTags);

/** `<name>` is a tag in Markdown. */
const escapeTags = (text: string): string => text.replace(/<(?=\w)/g, '\\<');

const formatEntry = ({ name, takes, text }: Entry): string => `- \`${name}\`${takes}${text && `: ${escapeTags(text)}`}`;

const keyOf = ({ name, takes, text }: Entry): string => `${name}${takes} ${text}`;

/** What at least three commands have, with the same words. */
function sharedEntries(helps: Help[], except: Set<string>): Entry[] {
  const all = helps.flatMap(({ entries }) => entries).filter((entry) => !except.has(keyOf(entry)));
  const groups = [...new Set(all.map(keyOf))].map((key) => all.filter((entry) => keyOf(entry) === key));
  return groups.flatMap((group) => (group.length > 2 ? group.slice(0, 1) : []));
}

/** What a name means here and there, in one line. */
function joinByName(entries: Entry[]): Entry[] {
  const isFirst = (entry: Entry) => entries.find(({ name }) => name === entry.name) === entry;
  const textsOf = (name: string) => entries.filter((entry) => entry.name === name).map(({ text }) => text);
  return entries.filter(isFirst).map((entry) => ({ ...entry, text: textsOf(entry.name).join('; or: ') }));
}

/** Those that only the list of all commands has, such as `completion`. */
function commandsWithoutHelp(list: string, helps: string[]): Help[] {
  const lines = [...list.matchAll(/^ {2}(agentctl \S+.*?) {2,}(.*)$/gm)];
  return lines
    .filter(([, usage = '']) => !helps.some((help) => help.startsWith(usage)))
    .map(([, usage = '', text = '']) => ({ usage, intro: [text.trim()], entries: [], examples: [], others: [] }));
}

/** Only the list of all commands says other names of a command. */
function withAliases(help: Help, list: string): Help {
  const line = list.split('\n').find((one) => one.startsWith(`  ${help.usage} `)) ?? '';
  const aliases = /\[aliases: (.*?)\]/.exec(line)?.[1];
  return aliases === undefined ? help : { ...help, intro: [...help.intro, `(also \`${aliases}\`)`] };
}

function parseHelp(help: string): Help {
  const [first = '', ...rest] = help.trimEnd().split('\n\n');
  const sections = rest.map((text) => text.split('\n'));
  const of = (title: RegExp) => sections.filter(([line = '']) => title.test(line)).flatMap(([, ...lines]) => lines);
  const own = sections.filter(([line = '']) => !/^(Positionals|Options|Examples|Commands):$/.test(line));
  return {
    usage: first.replace(/^Usage: /, ''),
    intro: own.slice(0, 1).flat(),
    entries: of(/^(Positionals|Options):$/).map(parseEntry),
    examples: of(/^Examples:$/).map((line) => line.trim().replace(/ {2,}/, '   # ')),
    others: own.slice(1),
  };
}

/** A line such as `  -f, --follow  Keep watching  [boolean]`. */
function parseEntry(line: string): Entry {
  const [, name = '', text = '', marks = ''] =
    /^\s*(\S+(?:, \S+)?)\s{2,}(.*?)\s*((?:\[[^[\]]*(?:\[\])?\]\s*)*)$/.exec(line) ?? [];
  if (name === '') throw new Error(`Expected a line of an option, got ${JSON.stringify(line)}`);
  const given = /\[default: (?!\[\]|false)(.*?)\]/.exec(marks)?.[1];
  const choices = /\[choices: (.*?)\]/.exec(marks)?.[1];
  const takes = [choices?.replaceAll('"', ''), given && `default ${given.replaceAll('"', '')}`].filter(Boolean);
  return { name, takes: takes.length > 0 ? ` (${takes.join('; ')})` : '', text };
}
