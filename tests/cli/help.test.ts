import { readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { UserError } from '../../src/base/user-error.ts';
import { renderAgentdHelp } from '../../src/frontends/agentd/daemon-yargs.ts';
import { EXIT_CODES } from '../../src/frontends/cli/common/command.ts';
import { buildAgentctlParser, renderCommandHelp } from '../../src/frontends/cli/parser/yargs-parser.ts';
import { packageVersion, versionWithCommit } from '../../src/frontends/command-line.ts';
import { setup } from '../support/agentctl.ts';

/** All pages, rendered once. */
let rendered: ReturnType<typeof renderCommandHelp> | undefined;
const helpPages = () => {
  rendered ??= renderCommandHelp();
  return rendered;
};

test('the help of agentctl and of each command reads as it was agreed', async () => {
  const pages = await helpPages();
  expect(pages.map(({ command, help }) => `## ${command}\n\n${help}`).join('\n')).toMatchSnapshot();
});

test('the help of agentd reads as it was agreed', async () => {
  expect(await renderAgentdHelp()).toMatchSnapshot();
});

test('every command that a file defines has a help page, with no line wider than 100', async () => {
  const pages = await helpPages();
  const commands = pages.map(({ command }) => command.replace(/^agentctl ?/, '')).filter((name) => name !== '');
  const folders = ['commands', 'admin', 'live'];
  const files = folders.flatMap((folder) =>
    readdirSync(`src/frontends/cli/${folder}`).map((file) => `../../src/frontends/cli/${folder}/${file}`),
  );
  const modules: object[] = await Promise.all(files.map((file) => import(file)));
  const defined = modules.flatMap((module) => Object.values(module).flatMap(commandNameIn));
  expect([...commands].sort()).toEqual(defined.sort());
  for (const { help } of pages) for (const line of help.split('\n')) expect([...line].length).toBeLessThanOrEqual(100);
});

test('the program prints the pages the docs are made of, with every exit code on the first', async () => {
  const { ctl } = setup();
  const [first] = await helpPages();
  const { out, code } = await ctl(['--help']);
  expect(code).toBe(0);
  expect(out.trimEnd()).toBe(first?.help.trimEnd());
  for (const { when } of Object.values(EXIT_CODES)) expect(out).toContain(when);
});

test('what is not understood names the fault and says where to look', async () => {
  for (const [words, message] of [
    [['bogus'], 'Unknown command: bogus\n'],
    [['lsit'], 'Unknown command: lsit. Did you mean "list"?'],
    [['shwo', 'list', '--json'], 'Unknown command: shwo. Did you mean "show"?'],
    [['rm', 'demo'], 'Unknown command: rm. Did you mean "remove"?'],
    [['resume', 'demo'], 'Unknown command: resume. Did you mean "continue"?'],
    [['skip', 'demo', '2'], 'Unknown command: skip. Did you mean "plan <session> …"?'],
    [['logs'], 'Usage: agentctl log <session>'],
    [['completion', '--zork'], 'Unknown argument: zork'],
    [[], 'No command given'],
    [['send'], 'Usage: agentctl send <session> [text..]'],
    [['list', '--zork'], 'Unknown argument: zork'],
    [
      ['config', '--sesion', 'demo', 'get'],
      'Unknown argument: sesion\nDid you mean "--session"?\nSee: agentctl config --help',
    ],
    [['list', '--jsno=1', '--al'], 'Did you mean "--json", "--all"?'],
    [['list', '--no-colour'], 'Did you mean "--no-color"?'],
    [['serve', '--alow-host', 'x'], 'Did you mean "--allow-host"?'],
    [['--worksapce', 'demo', 'list'], 'Unknown argument: worksapce\nDid you mean "--workspace"?'],
    [['--quite', 'list'], 'No command given. --quite is no option of agentctl itself.\nDid you mean "--quiet"?'],
    [['send', 'demo', 'hi', '--iterations', 'x'], '--iterations takes a whole number'],
    [['send', 'demo', 'hi', '--from', 'a', '--from', 'b'], '--from was given 2 times'],
    [['send', 'demo', 'hi', '--timeout', '3'], 'timeout -> wait'],
    [['approve', 'demo', 'x'], 'id takes a whole number of 1 or more.\nSee: agentctl approve --help'],
    [['deny'], 'Usage: agentctl deny <session> [id]\nSee: agentctl deny --help'],
    [['rename', 'demo', ''], 'The new name of the session is empty.'],
    [['stop', 'demo'], 'To stop the run of a session: agentctl stop-run '],
    [['plan', 'history', 'demo'], 'The session comes first: "demo history".'],
    [['plan', 'demo', 'histroy'], 'Did you mean "history"?'],
  ] as const) {
    const fault = await read([...words]).catch((error: unknown) => error);
    expect(fault, words.join(' ')).toMatchObject({ message: expect.stringContaining(message), exit: 2 });
    expect(fault).toBeInstanceOf(UserError);
  }
});

test('the program ends with 2 where a command line is not understood, and says the same', async () => {
  const { ctl } = setup();
  for (const [words, message, exit] of [
    [['lsit'], 'Unknown command: lsit. Did you mean "list"?\nSee: agentctl --help\n', 2],
    [['send', 'demo', 'hi', '--zork'], 'Unknown argument: zork\nA text that begins with "-" comes behind "--"', 2],
    [['send', 'demo'], 'standard input is empty', 2],
    [['remove', 'demo'], 'No session', 4],
  ] as const) {
    const { code, err } = await ctl([...words]);
    expect([words.join(' '), code]).toEqual([words.join(' '), exit]);
    expect(err).toContain(message);
  }
});

test('-h and -V mean --help and --version, in both programs', async () => {
  const { ctl, here, serve } = setup();
  const version = versionWithCommit();
  expect(version).toContain(packageVersion());
  expect(await ctl(['-V'])).toEqual({ code: 0, out: `${version}\n`, err: '' });
  expect(await ctl(['-h'])).toEqual(await ctl(['--help']));
  const help = await here(['list', '-h']);
  expect(help).toEqual(await here(['list', '--help']));
  expect(help.out).toContain('agentctl list');
  expect(await (await serve('-V')).ended).toMatchObject({ code: 0, out: `${version}\n` });
  expect((await (await serve('-h')).ended).out.trimEnd()).toBe((await renderAgentdHelp()).trimEnd());
});

test('ls and logs are list and log, with their options, help and completion', async () => {
  const { here, complete } = setup();
  await here(['send', 'demo', 'hello']);
  for (const [alias, command, ...rest] of [
    ['ls', 'list'],
    ['ls', 'list', '--json'],
    ['ls', 'list', '--help'],
    ['logs', 'log', 'demo'],
    ['logs', 'log', 'demo', '--last', '3'],
    ['logs', 'log', 'nobody'],
    ['logs', 'log', '--help'],
  ] as const) {
    expect(await here([alias, ...rest]), `${alias} ${rest.join(' ')}`).toEqual(await here([command, ...rest]));
  }
  expect((await complete('logs', '')).out).toBe('demo\n');
});

test('session names are completed', async () => {
  const { here, complete } = setup();
  await here(['send', 'demo', 'hello']);
  expect(await complete('show', '')).toMatchObject({ code: 0, out: 'demo\n' });
  expect((await complete('sh')).out).toContain('show');
});

/** Reads a command line in this process, for a workspace that cannot be. */
const read = async (argv: string[]) =>
  buildAgentctlParser(['--workspace', '/dev/null/none', ...argv], {
    parts: { program: '', doctor: async () => [], jobs: async () => [], login: async () => '' },
    width: 80,
    ended: () => {},
    sessions: [],
  }).parseAsync();

/** The name of a command, where what a module exports is one. */
function commandNameIn(exported: unknown): string[] {
  const isCommand = typeof exported === 'object' && exported !== null && 'usage' in exported && 'register' in exported;
  return isCommand && typeof exported.usage === 'string' ? [exported.usage.split(' ')[0] ?? ''] : [];
}
