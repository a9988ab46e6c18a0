import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openJobStore } from '../../src/tools/jobs/job-store.ts';
import { type Setup, setup } from '../support/agentctl.ts';
import { eventually } from '../tools/tool-setup.ts';

/** A session with one job, which no daemon began or looks after. */
async function withJob(): Promise<{ at: Setup; runs: () => boolean }> {
  const at = setup();
  await at.here(['send', 'demo', 'hello']);
  // So that `doctor` does not try to get out of a sandbox.
  writeFileSync(at.path('agentd.json'), '{ "sandbox": "none" }');
  const folder = at.path('.sessions/demo');
  mkdirSync(join(folder, 'work'), { recursive: true });
  const jobStore = openJobStore(join(folder, 'jobs'));
  const env = { PATH: process.env['PATH'] };
  const program = { shell: '/bin/sh', command: 'echo hi; sleep 300', cwd: join(folder, 'work'), env };
  const signal = AbortSignal.abort();
  await jobStore.start(program, null, { call: '3.0', timeoutS: 600, most: 5 }, signal);
  return { at, runs: () => jobStore.listRunning().length > 0 };
}

test('jobs are listed and stopped without a daemon; show and doctor name those that run', async () => {
  const { at, runs } = await withJob();
  expect((await at.here(['jobs', 'demo'])).out).toMatch(
    /^JOB +STATE +SECONDS +COMMAND\njob_1 +running +\d+ +echo hi; sleep 300\n$/,
  );
  expect((await at.here(['show', 'demo'])).out).toContain('Background jobs\n  job_1: echo hi; sleep 300\n');
  expect((await at.here(['doctor', '--model', 'runbook'])).out).toContain('demo: job_1 runs: echo hi; sleep 300');
  const unnamed = await at.here(['jobs', 'demo', 'stop']);
  expect([unnamed.code, unnamed.err]).toEqual([2, expect.stringContaining('Which job?')]);
  expect((await at.here(['jobs', 'demo', 'stop', 'job_2'])).err).toContain('There is no job job_2. There are: job_1.');
  expect(runs()).toBe(true);
  expect((await at.ctl(['jobs', 'demo', 'stop', 'job_1'])).out).toContain('stopped by a person');
  expect(runs()).toBe(false);
  expect((await at.here(['show', 'demo'])).out).not.toContain('Background jobs');
  expect(JSON.parse((await at.here(['jobs', 'demo', '--json'])).out)).toMatchObject([{ id: 'job_1', running: false }]);
});

test.each(['remove', 'archive'])('%s of a session ends its jobs', async (command) => {
  const { at } = await withJob();
  const group = Number.parseInt(readFileSync(at.path('.sessions/demo/jobs/job_1/pid'), 'utf8'), 10);
  expect(group).toBeGreaterThan(1);
  const isThere = () => {
    try {
      return process.kill(-group, 0);
    } catch {
      return false;
    }
  };
  expect(isThere()).toBe(true);
  const words = command === 'remove' ? ['remove', 'demo', '--yes'] : ['archive', 'demo'];
  expect(await at.here(words)).toMatchObject({ code: 0 });
  await eventually(() => !isThere());
});
