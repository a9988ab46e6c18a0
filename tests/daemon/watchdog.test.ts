import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { readCrashNote } from '../../src/daemon/crashes/crash-notes.ts';
import { tempFolder } from '../store/rig.ts';
import { childProgram } from '../support/child-program.ts';

type Under = { child: ChildProcess; stderr(): string; ended: Promise<unknown>; left: string };

/** A process that does as it is told under a watchdog with so many ms of patience. */
async function under(what: string, patienceMs: number, { reads = true } = {}): Promise<Under> {
  const left = join(tempFolder(), 'stood-still.json');
  const program = await childProgram('tests/daemon/watchdog.child.ts');
  const child = spawn(process.execPath, [program, what, `${patienceMs}`, left]);
  onTestFinished(() => void child.kill('SIGKILL'));
  let stderr = '';
  if (reads) child.stderr.on('data', (data: Buffer) => (stderr += data.toString()));
  const ended = new Promise((done) => child.once('exit', (code, signal) => done(signal ?? code)));
  await Promise.race([new Promise((done) => child.stdout.once('data', done)), ended]);
  return { child, stderr: () => stderr, ended, left };
}

test('a process whose event loop stands still ends itself with SIGKILL, says why, and leaves whose step it was', async () => {
  const { stderr, ended, left } = await under('still', 500);
  expect(await ended).toBe('SIGKILL');
  expect(stderr()).toContain('hung for');
  expect(stderr()).toContain('in a step of the session demo (merging plan.json)');
  expect(readCrashNote(left, 'then')).toMatchObject({
    session: 'demo',
    why: expect.stringMatching(/^its event loop hung for \d+ s while merging plan.json$/),
  });
});

test('no listener for a signal disarms it', async () => {
  expect(await (await under('ignores-signals', 500)).ended).toBe('SIGKILL');
});

test('a reader of stderr that takes nothing does not hold it up', async () => {
  const { ended, left } = await under('full', 500, { reads: false });
  expect(await ended).toBe('SIGKILL');
  expect(existsSync(left) && readFileSync(left, 'utf8')).toContain('demo');
});

test('one that was stopped for longer than its patience, and continued, is left alone', async () => {
  const { child, ended } = await under('busy', 2500);
  for (let n = 0; n < 2; n++) {
    await sleep(300);
    child.kill('SIGSTOP');
    await sleep(3000);
    child.kill('SIGCONT');
  }
  await sleep(500);
  child.kill('SIGTERM');
  expect(await ended).toBe(0);
});

test('a watch that was ended ends nobody, and a step that took long is reported', async () => {
  const { ended, stderr } = await under('ended', 2000);
  expect(await ended).toBe(0);
  expect(stderr()).toBe('slow: demo, merging plan.json\n');
});
