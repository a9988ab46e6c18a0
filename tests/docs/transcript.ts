import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { expect } from 'vitest';

const MARK = '@@ next command @@';

/** Programs that transcripts use and that are not installed here. */
export const missingPrograms = (): string[] =>
  ['curl', 'jq'].filter((program) => spawnSync(program, ['--version']).error);

/** Runs the commands of a page's transcript in one shell, and compares what each prints with what the page shows. */
export function checkTranscript(path: string, env: Record<string, string>, cwd?: string): void {
  const block = readFileSync(path, 'utf8').split('```console\n')[1]?.split('```')[0] ?? '';
  const commands = block.split(/^\$ /m).slice(1);
  expect(commands.length).toBeGreaterThan(5);
  const lines = commands.map((one) => one.split('\n')[0] ?? '');
  const out = execFileSync('sh', ['-c', lines.join(`\necho '${MARK}'\n`)], {
    encoding: 'utf8',
    cwd,
    env: { ...process.env, ...env },
  });
  const answers = out.split(`${MARK}\n`);
  for (const [at, command] of commands.entries()) {
    const [line = '', ...shown] = command.split('\n');
    expect(answers[at]?.trim(), line).toBe(shown.join('\n').trim());
  }
}
