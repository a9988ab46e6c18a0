import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { sessionPaths } from '../../src/store/layout/layout.ts';
import { opened, planned, received, record, started } from '../client/rig.ts';
import { bench, runHere } from '../support/agentctl-here.ts';

test('completion prints a script for each shell that asks agentctl for the words, and names the shells it knows', async () => {
  const { SHELL } = process.env;
  try {
    for (const [shell, sign] of [
      ['bash', 'complete -o bashdefault'],
      ['zsh', '#compdef agentctl'],
      ['fish', 'complete -c agentctl'],
      ['powershell', 'Register-ArgumentCompleter -Native -CommandName agentctl'],
      ['pwsh', 'Register-ArgumentCompleter'],
    ] as const) {
      const { code, out } = await runHere(['completion', shell]);
      expect([shell, code, out]).toEqual([shell, 0, expect.stringContaining(sign)]);
      expect(out).toContain('agentctl --get-yargs-completions');
    }
    const { code, err } = await runHere(['completion', 'fishh']);
    expect([code, err]).toEqual([
      2,
      'No completion for "fishh". Did you mean "fish"? Shells: bash, zsh, fish, powershell.\n',
    ]);
  } finally {
    if (SHELL === undefined) Reflect.deleteProperty(process.env, 'SHELL');
    else Object.assign(process.env, { SHELL });
  }
});

test('what is completed is what is wanted at that place', async () => {
  const at = bench();
  await at.ctl('send', 'job1', 'hi');
  const words = async (...line: string[]) =>
    (await runHere(['--get-yargs-completions', 'agentctl', '--workspace', at.root, ...line])).out
      .split('\n')
      .filter(Boolean);
  // Nothing is offered: the shell completes files.
  expect(await words('send', 'job1', '--file', '')).toEqual([]);
  expect(await words('help', '')).toEqual(expect.arrayContaining(['models', 'send']));
  expect(await words('completion', '')).toEqual(['bash', 'zsh', 'fish', 'powershell']);
  expect(await words('list', '--')).not.toContain('--q');
  expect(await words('config', 'get', '')).toEqual(expect.arrayContaining(['limits.iterations', 'language']));
  at.write('templates/weekly.md', '1. Look');
  expect(await words('run', 'job1', '')).toEqual(['weekly']);
  await record(sessionPaths(at.path('.sessions/job1')), [
    opened,
    received('1.md'),
    started('1.md'),
    ...planned('p', 'x'),
  ]);
  expect(await words('why', 'job1', '')).toEqual(['step_1']);
});

test('help prints a page of the docs or the help of a command, and lists the pages', async () => {
  const at = bench();
  expect((await at.ctl('help', 'models')).out.trimEnd()).toBe(readFileSync('docs/models.md', 'utf8').trimEnd());
  expect((await at.ctl('help')).out).toMatch(/^Pages:\n(?: {2}.+\n)*? {2}plans +Plans/);
  expect((await runHere(['help', 'list'])).out).toBe((await runHere(['list', '--help'])).out);
  // A page with the name of a command: the list says how to read it.
  expect((await at.ctl('help')).out).toContain('agentctl help undo.md\n');
  expect((await at.ctl('help', 'undo.md')).out).toMatch(/^# /);
  expect((await at.ctl('help', 'commands')).out).toContain('/plan [done|skip|');
  const wrong = await at.ctl('help', 'setings');
  expect(wrong).toMatchObject({ code: 2, err: expect.stringContaining('Did you mean "settings"?') });
});

test('the npm package has the pages that help shows', () => {
  const { files }: { files: string[] } = JSON.parse(readFileSync('package.json', 'utf8'));
  expect(files).toContain('docs/*.md');
});
