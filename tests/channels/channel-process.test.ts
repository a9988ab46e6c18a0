import { type ChildProcess, spawn } from 'node:child_process';
import { resolve } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { until } from '../support/daemon.ts';
import { startFakeMatrix } from './fake-matrix.ts';
import { servedChannel } from './promises.ts';

test('channel run is a process: killed at once after each message, it takes and answers each once, and ends on SIGTERM', async () => {
  const matrix = await startFakeMatrix();
  const entry = { type: 'matrix', token_env: 'M', server: matrix.url };
  const served = { name: 'matrix', entry, account: '@ada:here' };
  const { on, files } = await servedChannel([{ text: 'Done.', repeat: true }], served);

  async function start(env: NodeJS.ProcessEnv = { M: 'syt' }) {
    const words = [resolve('dist/agentctl.js'), '--workspace', on.root, 'channel', 'run', 'matrix'];
    const child: ChildProcess = spawn(process.execPath, words, { env: { ...process.env, ...env }, stdio: 'pipe' });
    onTestFinished(() => void child.kill('SIGKILL'));
    let out = '';
    child.stdout?.on('data', (text) => {
      out += text;
    });
    child.stderr?.on('data', (text) => {
      out += text;
    });
    const ended = new Promise<number | null>((done) => child.once('exit', done));
    await until(() => out !== '', 'a word of it');
    return { child, ended, out: () => out };
  }
  const without = await start({ M: '' });
  expect([await without.ended, without.out()]).toEqual([1, expect.stringContaining('in the variable M, got nothing')]);

  let running = await start();
  await until(() => files.readMark(), 'that it has begun');
  for (let n = 1; n <= 5; n += 1) {
    matrix.say('ada', { body: `message ${n}` });
    running.child.kill('SIGKILL');
    await running.ended;
    running = await start();
  }
  // A message that comes during the run of another joins it, and is answered with that.
  const session = 'matrix=3a=21ada=3ahere';
  const replies = () => on.events(session).flatMap((event) => (event.type === 'reply.committed' ? [event.reply] : []));
  const isSent = () => on.sh(session, 'ls outbox/read').trim().split('\n').length === 5;
  await until(() => replies().length === 5 && isSent(), 'the replies');
  expect(on.events(session).filter(({ type }) => type === 'message.received')).toHaveLength(5);
  running.child.kill('SIGTERM');
  expect(await running.ended).toBe(0);
  const done = replies().filter(({ status }) => status === 'done');
  expect(matrix.texts('ada').filter((text) => text === 'Done.')).toHaveLength(done.length);
  expect(await on.ctl('channel', 'status', 'matrix')).toContain('matrix: stopped');
});
