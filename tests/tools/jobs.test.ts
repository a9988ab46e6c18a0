import { spawn } from 'node:child_process';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { outputPage } from '../../src/tools/jobs/job-output.ts';
import { openJobStore } from '../../src/tools/jobs/job-store.ts';
import { runSupervised } from '../../src/tools/process/run-command.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { SOON_MS, testJobs } from './jobs-stories.ts';
import { eventually, setup as setupWith } from './tool-setup.ts';

testJobs('none');

test('consecutive pages give the whole output, even across multi-byte characters', async () => {
  const on = setupWith();
  await on.use('shell', { command: 'for i in $(seq 1 2000); do echo "$i äöü 漢字 🙂"; done', background: true });
  const folder = join(on.root, 'jobs/job_1');
  await on.use('jobs', { action: 'wait', job: 'job_1' });
  let text = '';
  for (let at = 0, page = outputPage(folder, at, 777, false); page.to < page.total || page.text !== ''; ) {
    expect([...page.text].length).toBeLessThanOrEqual(777);
    text += page.text;
    at = page.to;
    page = outputPage(folder, at, 777, false);
  }
  expect(text).toBe(Array.from({ length: 2000 }, (_, n) => `${n + 1} äöü 漢字 🙂\n`).join(''));
});

test('a job has ended only once all its output is stored, however long that takes after its command', async () => {
  const bin = temporaryFolder('slow');
  // Keeps the output, as on a machine that is busy with other things.
  writeFileSync(join(bin, 'dd'), '#!/bin/sh\nsleep 0.5\nPATH=/usr/bin:/bin exec dd "$@"\n', { mode: 0o755 });
  const on = setupWith({ env: { ...process.env, PATH: `${bin}:${process.env['PATH']}` } });
  const begun = await on.use('shell', { command: 'echo said; exit 3', background: true });
  const waited = await on.use('jobs', { action: 'wait', job: 'job_1' });
  expect(begun.text + waited.text).toContain('\nsaid\n');
  expect(waited.text).toMatch(/^job_1: exit 3, /);
});

test('a call repeated after a crash shows the same again', async () => {
  const on = setupWith({ settleMs: SOON_MS });
  await on.use('shell', { command: 'echo one; sleep 300', background: true });
  await eventually(() => outputPage(join(on.root, 'jobs/job_1'), 0, 9, true).text === 'one\n');
  writeFileSync(join(on.root, 'jobs/job_1/seen.json'), JSON.stringify({ call: 'call-2', from: 0, to: 4 }));
  expect((await on.use('jobs', { action: 'look', job: 'job_1' })).text).toContain('\none\n');
  expect((await on.use('jobs', { action: 'look', job: 'job_1' })).text).toContain('(nothing new)');
});

test('no more jobs run at once than are allowed, and the model is told which do', async () => {
  const on = setupWith({ settleMs: SOON_MS });
  for (let n = 0; n < 5; n++)
    expect(await on.use('shell', { command: `sleep 30${n}`, background: true })).toMatchObject({ ok: true });
  const refused = await on.use('shell', { command: 'touch begun', background: true });
  expect(refused).toMatchObject({ ok: false });
  expect(refused.text).toMatch(/5 jobs may run at once \(`limits\.jobs`\).* job_1 \(sleep 300\), .*Nothing was begun/);
  await on.use('jobs', { action: 'stop', job: 'job_3' });
  expect((await on.use('shell', { command: 'touch begun; sleep 300', background: true })).text).toContain(
    'Begun as job_6',
  );
  await eventually(() => existsSync(join(on.work, 'begun')));
  expect(await on.jobs.end(Number.MAX_SAFE_INTEGER)).toEqual([]);
});

test('invalid arguments are refused with what is expected', async () => {
  const on = setupWith({ settleMs: SOON_MS });
  await on.use('shell', { command: 'sleep 300', background: true });
  expect((await on.use('jobs', { action: 'look' })).text).toBe(
    '"look" needs `job`, the name of one of these: job_1; got none.',
  );
  expect((await on.use('jobs', { action: 'stop', job: 'job_2' })).text).toContain('got `job_2`');
  expect((await on.use('jobs', { action: 'pause', job: 'job_1' })).text).toMatch(/"list"|list/);
  expect(await on.use('jobs', { action: 'wait', job: 'job_1', seconds: 601 })).toMatchObject({ ok: false });
  const long = await on.use('shell', { command: 'true', timeout_s: 4000 });
  expect(long).toMatchObject({ ok: false });
  expect(long.text).toContain('with `background`');
  expect(await on.use('shell', { command: 'true', timeout_s: 86_401, background: true })).toMatchObject({ ok: false });
});

test('the end of a job is reported until the model has received it', async () => {
  const on = setupWith({ settleMs: SOON_MS });
  await on.use('shell', { command: 'while [ ! -e go ]; do sleep 0.05; done; exit 4', background: true });
  expect(on.jobs.listUnreported()).toEqual([]);
  expect(on.jobs.listRunning()).toEqual(['job_1 (while [ ! -e go ]; do sleep 0.05; done; exit 4)']);
  writeFileSync(join(on.work, 'go'), '');
  await eventually(() => on.jobs.listRunning().length === 0);
  expect(on.jobs.listUnreported()).toEqual([expect.stringMatching(/^job_1 \(while .*\) has ended: exit 4\. /)]);
  expect(openJobStore(join(on.root, 'jobs')).listUnreported()).toHaveLength(1);
  on.jobs.markAllReported();
  expect(on.jobs.listUnreported()).toEqual([]);
  expect(openJobStore(join(on.root, 'jobs')).listUnreported()).toEqual([]);
});

test('a wait ends when the run is stopped, and the job continues', async () => {
  const on = setupWith({ settleMs: SOON_MS });
  await on.use('shell', { command: 'sleep 300', background: true });
  const control = new AbortController();
  const waiting = on.use('jobs', { action: 'wait', job: 'job_1' }, control.signal);
  control.abort(new Error('stopped by a person'));
  await expect(waiting).rejects.toThrow('stopped by a person');
  expect(on.jobs.listRunning()).toHaveLength(1);
});

test('a call begun by an earlier daemon is answered with its job and not started twice', async () => {
  const on = setupWith({ settleMs: SOON_MS });
  const args = { command: 'echo once >> executions; sleep 300', background: true };
  await on.use('shell', args);
  await eventually(() => existsSync(join(on.work, 'executions')));
  const reported = await on.resume('shell', args);
  expect(reported?.text).toMatch(/^Begun as job_1\. /);
  expect(readFileSync(join(on.work, 'executions'), 'utf8')).toBe('once\n');
  expect(await on.resume('shell', { ...args, command: 'other' })).toMatchObject({ ok: true });
});

test('a job whose supervisor has not started never will, once that was checked', async () => {
  const on = setupWith({ settleMs: SOON_MS });
  const args = { command: 'sleep 300', background: true };
  await on.use('shell', args);
  const pid = join(on.root, 'jobs/job_1/pid');
  const was = readFileSync(pid, 'utf8');
  renameSync(pid, `${pid}.away`);
  expect((await on.resume('shell', args))?.text).toContain('Nothing was begun');
  expect(readFileSync(pid, 'utf8')).toBe('');
  renameSync(`${pid}.away`, pid);
  expect(was).not.toBe('');
});

test('the output of the last ten ended jobs is kept, and no name is reused', async () => {
  const on = setupWith();
  for (let n = 1; n <= 13; n++) await on.use('shell', { command: 'true', background: true });
  const names = on.jobs.list().map((job) => job.id);
  expect(names).toContain('job_13');
  expect(names).not.toContain('job_1');
  expect(names.length).toBeLessThanOrEqual(11);
});

test('a job from before a reboot has ended', async () => {
  const on = setupWith({ settleMs: SOON_MS });
  await on.use('shell', { command: 'sleep 300', background: true });
  const pid = join(on.root, 'jobs/job_1/pid');
  const was = readFileSync(pid, 'utf8');
  writeFileSync(pid, was.replace(/\n.*\n$/, '\n11111111-2222-3333-4444-555555555555\n'));
  expect((await on.use('jobs', {})).text).toContain('the machine was restarted');
});

test('the control group of a command that is not started is removed: one job too many, a stop before it, a folder in use', async () => {
  const root = temporaryFolder('groups');
  let held = 0;
  const program = { shell: '/bin/sh', command: 'true', cwd: root, env: process.env };
  const sandboxed = () => {
    held++;
    return {
      ...{ endReportedBy: 'itself' as const, words: ['true'], env: process.env, cwd: root, group: '' },
      release: () => void held--,
    };
  };
  const { signal } = new AbortController();
  const request = { call: 'call-1', timeoutS: 9, most: 0 };
  await expect(openJobStore(join(root, 'jobs')).start(program, sandboxed(), request, signal)).rejects.toThrow(
    '`limits.jobs`',
  );
  expect(held).toBe(0);
  const stopped = { signal: AbortSignal.abort(new Error('stopped')), timeoutMs: 9000 };
  await expect(runSupervised(program, sandboxed(), join(root, 'call'), stopped)).rejects.toThrow('stopped');
  expect(held).toBe(0);
  await expect(runSupervised(program, sandboxed(), root, { signal, timeoutMs: 9000 })).rejects.toThrow(
    'started before',
  );
  expect(held).toBe(0);
});

test.skipIf(process.platform !== 'linux')(
  'stopping a job ends no stranger that has its pid by now, nor one of an earlier boot',
  async () => {
    const on = setupWith();
    await on.use('shell', { command: 'true', background: true });
    await on.use('jobs', { action: 'wait', job: 'job_1' });
    const stranger = spawn('sleep', ['300'], { detached: true, stdio: 'ignore' });
    onTestFinished(() => void stranger.kill('SIGKILL'));
    const file = join(on.root, 'jobs/job_1/pid');
    const [own = '', mark = ''] = readFileSync(file, 'utf8').split('\n');
    const stat = readFileSync(`/proc/${stranger.pid}/stat`, 'utf8').trim();
    const anotherBoot = mark.replace(/^\S+/, '00000000-0000-0000-0000-000000000000');
    for (const [line, boot] of [
      [own.replace(/^\d+/, String(stranger.pid)), mark],
      [stat, anotherBoot],
    ]) {
      writeFileSync(file, `${line}\n${boot}\n`);
      const [job] = openJobStore(join(on.root, 'jobs')).list();
      if (!job) throw new Error('no job');
      await on.jobs.stop(job, 'person', AbortSignal.abort());
      expect(readFileSync(`/proc/${stranger.pid}/stat`, 'utf8')).toMatch(/\(sleep\) [RS]/);
    }
  },
);
