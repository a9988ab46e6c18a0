import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';

/** A process that does as it is told under a watchdog with a patience of so many ticks of 50 ms. */
async function under(
  what: string,
  ticks: number,
): Promise<{ child: ChildProcess; said(): string; ended: Promise<unknown> }> {
  const child = spawn(process.execPath, [
    '--import',
    'tsx',
    join(import.meta.dirname, 'watchdog.child.ts'),
    what,
    `${ticks}`,
  ]);
  onTestFinished(() => void child.kill('SIGKILL'));
  let said = '';
  child.stderr.on('data', (data: Buffer) => {
    said += data.toString();
  });
  const ended = new Promise((done) => child.once('close', (code, signal) => done(signal ?? code)));
  await Promise.race([new Promise((done) => child.stdout.once('data', done)), ended]);
  return { child, said: () => said, ended };
}

test('a process whose event loop stands still ends itself with SIGABRT and says why', async () => {
  const { said, ended } = await under('still', 10);
  expect(await ended).toBe('SIGABRT');
  expect(said()).toContain('stood still');
});

test('one that was stopped for longer than its patience, and continued, is left alone', async () => {
  const { child, ended } = await under('busy', 60);
  for (let n = 0; n < 2; n++) {
    await sleep(500);
    child.kill('SIGSTOP');
    await sleep(4000);
    child.kill('SIGCONT');
  }
  await sleep(500);
  child.kill('SIGTERM');
  expect(await ended).toBe(0);
});

test('a watch that was ended ends nobody', async () => {
  expect(await (await under('ended', 10)).ended).toBe(0);
});
