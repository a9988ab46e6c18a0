import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { OPERATIONS } from '../../src/frontends/http/server/http-app.ts';
import { serveWorkspace } from '../http/serving.ts';
import { desk } from '../support/agentctl.ts';

const page = readFileSync('docs/http.md', 'utf8');
const MARK = '@@ next command @@';

test('the transcript of docs/http.md comes out as it is shown', async (context) => {
  const missing = ['curl', 'jq'].filter((program) => spawnSync(program, ['--version']).error);
  context.skip(missing.length > 0, `not installed: ${missing.join(', ')}`);
  const block = page.split('```console\n')[1]?.split('```')[0] ?? '';
  const commands = block.split(/^\$ /m).slice(1);
  expect(commands.length).toBeGreaterThan(6);
  const place = desk();
  await place.serve('--model', 'runbook');
  const { url, token } = await serveWorkspace(place);
  const lines = commands.map((one) => one.split('\n')[0] ?? '');
  const out = execFileSync('sh', ['-c', lines.join(`\necho '${MARK}'\n`)], {
    encoding: 'utf8',
    env: { ...process.env, URL: url, TOKEN: token },
  });
  const answers = out.split(`${MARK}\n`);
  for (const [at, command] of commands.entries()) {
    const [line = '', ...shown] = command.split('\n');
    expect(answers[at]?.trim(), line).toBe(shown.join('\n').trim());
  }
});

test('the table of docs/http.md names every operation', () => {
  const named = (path: string) => page.includes(`${path}\``) || page.includes(`${path}?`);
  const paths = OPERATIONS.map(({ path }) => path.replace('/api/sessions/{session}', '…'));
  expect(paths.filter((path) => !named(path))).toEqual([]);
});
