import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parsePlainLine } from '../../src/frontends/cli/index.ts';
import { bench, runHere } from '../support/agentctl-here.ts';

test('a plain command line and one that yargs reads do and say the same', async () => {
  const { root, ctl } = bench();
  await ctl('send', 'demo', 'hello');
  const run = (line: string[]) => runHere(['--workspace', root, ...line]);
  const lines = [
    ['status', '--json'],
    ['list'],
    ['ls'],
    ['show', 'demo'],
    ['show', 'nobody'],
    ['show', '1e3'],
    ['send', 'demo', 'two', 'words'],
    ['send', 'demo', '007', '--json'],
  ];
  for (const line of lines) {
    // What follows is no flag: that is for yargs to know.
    const [quick, read] = [await run(line), await run([...line, '--'])];
    expect(parsePlainLine(line), line.join(' ')).toBeDefined();
    expect(parsePlainLine([...line, '--'])).toBeUndefined();
    expect(alike(quick), line.join(' ')).toEqual(alike(read));
  }
});

/** Each message has an id of its own, and raises the number of those that wait. */
const alike = ({ code, out, err }: { code: number | null; out: string; err: string }) => ({
  code,
  output: (out + err).replace(/[0-9A-HJKMNP-TV-Z]{26}/g, 'ID').replace(/\d+ not taken/, 'N not taken'),
});

test('a text that begins with a dash is a text, and what is none is named with what to do', async () => {
  const at = bench();
  for (const text of ['- [ ] Buy milk', '-5 degrees', '-q is broken'])
    expect(await at.ctl('send', 'demo', 'Do', text, 'now', '--json')).toMatchObject({ code: 0 });
  const log = readdirSync(at.path('.sessions', 'demo', 'inbox')).filter((name) => !name.startsWith('.'));
  const texts = log.map((name) => JSON.parse(readFileSync(at.path('.sessions', 'demo', 'inbox', name), 'utf8')).text);
  expect(texts.sort()).toEqual(['Do - [ ] Buy milk now', 'Do -5 degrees now', 'Do -q is broken now']);
  const refused: Array<[words: string[], said: string]> = [
    [['send', 'demo', '-x'], 'comes behind "--"'],
    [['--', 'send', 'demo', 'hi'], 'No command given in front of "--".'],
    [['--bogus'], '--bogus is no option of agentctl itself'],
    [['--workspace', 'list'], '"list" is read as the value of --workspace'],
    [['log', 'demo', '--tail', '3'], 'Did you mean "--last"?'],
    [['config', 'check'], 'Did you mean "validate"?'],
  ];
  for (const [words, said] of refused) {
    const { code, err } = await runHere(words);
    expect([words, code, err]).toEqual([words, 2, expect.stringContaining(said)]);
  }
});

test('a command line with anything that wants to be read is left to yargs', () => {
  expect(parsePlainLine(['send', 'demo', 'hi', '--wait', '--workspace', '/w'])).toEqual({
    words: ['send', 'demo', 'hi'],
    json: undefined,
    wait: true,
    workspace: '/w',
  });
  const others = [
    ['send', 'demo', '-'],
    ['send', 'demo', '"quoted"'],
    ['send', 'demo', 'hi', '--after'],
    ['send', ' ', 'hi'],
    ['--json', 'show', 'demo'],
    ['status', '--json', 'false'],
    ['status', '--json', '--json'],
    ['status', '--json=true'],
    ['status', '--workspace'],
    ['status', '--workspace', '--json'],
    ['status', '--workspace', '/a', '--workspace', '/b'],
  ];
  for (const line of others) expect(parsePlainLine(line), line.join(' ')).toBeUndefined();
});
