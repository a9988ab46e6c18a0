import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { runAgentd } from '../../src/frontends/agentd/daemon-process.ts';
import { bench, runHere } from '../support/agentctl-here.ts';
import { temporaryFolder } from '../support/temporary.ts';

afterEach(() => vi.unstubAllEnvs());

/** A home with a workspace that has a session, which no command may touch. */
async function homeWithSession() {
  const home = temporaryFolder('home');
  vi.stubEnv('HOME', home);
  vi.stubEnv('AGENTD_WORKSPACE', undefined);
  await runHere(['send', 'demo', 'hello']);
  return () => existsSync(join(home, '.workspace/.sessions/demo'));
}

test('an empty --workspace or AGENTD_WORKSPACE is an error, and the default workspace stays as it is', async () => {
  const hasSession = await homeWithSession();
  for (const words of [
    ['remove', 'demo', '--yes', '--workspace', ''],
    ['remove', 'demo', '--yes', '--workspace='],
    ['--workspace', '', 'remove', 'demo', '--yes'],
    ['list', '--workspace', ''],
  ])
    expect(await runHere(words), words.join(' ')).toMatchObject({
      code: 2,
      err: expect.stringContaining('--workspace is empty'),
    });
  vi.stubEnv('AGENTD_WORKSPACE', '');
  for (const words of [['remove', 'demo', '--yes'], ['list'], ['send', 'demo', 'more']])
    expect(await runHere(words), words.join(' ')).toMatchObject({
      code: 2,
      err: expect.stringContaining('AGENTD_WORKSPACE is empty'),
    });
  expect(hasSession()).toBe(true);
  // What is named wins, and commands to copy then name it.
  const { ctl, root } = bench();
  expect((await ctl('send', 'other', 'hello')).code).toBe(0);
  expect((await ctl('show', 'other')).out).toContain(`--workspace ${root}`);
});

test.each([
  ['usage', ''],
  ['settings', ''],
  ['help', ''],
  ['send', 'demo', 'hello', '--from', ''],
  ['send', 'demo', 'hello', '--model='],
  ['send', 'demo', 'hello', '--file', ''],
  ['send', 'demo', 'hello', '--iterations', ''],
  ['send', '', 'hello'],
  ['log', 'demo', '-n', ''],
  ['why', 'demo', ''],
  ['approve', 'demo', ''],
  ['jobs', 'demo', 'stop', ''],
  ['token', 'add', 'ana', '--sessions', ''],
  ['token', 'add', 'ana', '--role', ''],
  ['serve', '--port', ''],
  ['serve', '--socket', ''],
  ['takeover', '--grace', ''],
  ['config', 'list', '--session', ''],
  ['config', 'get', ''],
  ['doctor', '--config', ''],
  ['mcp', '--from', ''],
  ['plan', 'demo', 'add', 'x', '--after', ''],
  ['plan', 'demo', 'done', ''],
  ['start', '--api-key-env', ''],
])('an empty value is an error: agentctl %s %s %s %s', async (...words) => {
  const at = bench();
  await at.ctl('send', 'demo', 'hello');
  const ran = await at.ctl(...words);
  expect(ran, words.join(' ')).toMatchObject({ code: 2, out: '' });
  expect(ran.err).toMatch(/is empty|takes a|Invalid values|given 2 times/);
});

test('agentd refuses an empty value of a flag, and of a variable that no flag replaces', async () => {
  const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  onTestFinished(() => said.mockRestore());
  const neverRun = async (): Promise<never> => Promise.reject(new Error('it was started'));
  const { root } = bench();
  const lines = [
    [{}, ['--workspace', ''], '--workspace is empty'],
    [{}, ['--workspace', root, '--config='], '--config is empty'],
    [{}, ['--workspace', root, '--model', ''], '--model is empty'],
    [{ AGENTD_WORKSPACE: '' }, [], 'AGENTD_WORKSPACE is empty'],
    [{ OPENAI_BASE_URL: '' }, ['--workspace', root], 'OPENAI_BASE_URL is empty'],
    [{ OPENAI_MODEL: '' }, ['--workspace', root], 'OPENAI_MODEL is empty'],
  ] as const;
  for (const [env, words, why] of lines) {
    for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
    expect(await runAgentd([...words], neverRun), why).toBe(2);
    expect(said).toHaveBeenLastCalledWith(expect.stringContaining(why));
    vi.unstubAllEnvs();
  }
  vi.stubEnv('OPENAI_MODEL', '');
  await expect(runAgentd(['--workspace', root, '--model', 'runbook'], neverRun)).rejects.toThrow('it was started');
});
