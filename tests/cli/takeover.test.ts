import { spawnSync } from 'node:child_process';
import { chownSync, readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import { type Setup, setup } from '../support/agentctl.ts';

const RUNBOOK = ['--model', 'runbook'];
const ownerFile = (at: Setup) => at.path('.agentd/owner.json');
const ownerOf = (at: Setup) => JSON.parse(readFileSync(ownerFile(at), 'utf8'));

/** Says something else of the owner than is true. */
function claim(at: Setup, claims: object): void {
  writeFileSync(ownerFile(at), JSON.stringify({ ...ownerOf(at), ...claims }));
}

test('an owner that hangs is asked, then killed, and the next daemon can be started at once', async () => {
  const at = setup();
  const { child, ended } = await at.serve(...RUNBOOK);
  child.kill('SIGSTOP');
  const { code, out, err } = await at.ctl(['takeover', '--grace', '1', '--json']);
  expect([code, err]).toEqual([0, '']);
  expect(JSON.parse(out)).toMatchObject({ pid: child.pid, epoch: 1, ended_by: 'SIGKILL', next: null });
  expect((await ended).code).toBe(null);
  expect((await at.here(['status'])).code).toBe(3);
  await at.serve(...RUNBOOK);
  expect(ownerOf(at).epoch).toBe(2);
});

test('an owner that responds is not killed, and the message says what to do next', async () => {
  const at = setup();
  const { child, ended } = await at.serve(...RUNBOOK);
  const { code, out } = await at.here(['takeover']);
  expect([code, out]).toEqual([0, expect.stringContaining(`Process ${child.pid}`)]);
  expect(out).toContain('ended on SIGTERM');
  expect(out).toContain('agentctl start');
  expect((await ended).code).toBe(0);
});

test('where there is no owner there is nothing to take over, before the first start and after the last stop', async () => {
  const at = setup();
  const none = { code: 3, err: expect.stringContaining('No daemon owns') };
  expect(await at.here(['takeover'])).toMatchObject(none);
  const { child, ended } = await at.serve(...RUNBOOK);
  child.kill('SIGKILL');
  await ended;
  expect(await at.here(['takeover'])).toMatchObject(none);
});

test('a stranger with the number of the owner is not touched', async () => {
  const at = setup();
  const { child } = await at.serve(...RUNBOOK);
  const { start_time, boot_id, host } = ownerOf(at);
  for (const claims of [{ start_time: '1' }, { boot_id: 'another' }, { ended_at: '2026-01-02T03:04:05.678Z' }]) {
    claim(at, { start_time, boot_id, host, ...claims });
    const { code, err } = await at.here(['takeover', '--grace', '0']);
    expect([code, err]).toEqual([3, expect.stringContaining('fuser')]);
  }
  expect(child.exitCode ?? child.signalCode).toBe(null);
});

test('an owner on another machine is named and left alone', async () => {
  const at = setup();
  const { child } = await at.serve(...RUNBOOK);
  claim(at, { host: 'elsewhere', boot_id: 'another' });
  const { code, err } = await at.here(['takeover']);
  expect([code, err]).toEqual([3, expect.stringContaining(`process ${child.pid} on elsewhere`)]);
  expect(child.exitCode ?? child.signalCode).toBe(null);
});

test.skipIf(process.getuid?.() !== 0)(
  'who may not end the owner, or not look at it, is told so in a sentence',
  async ({ skip }) => {
    const at = setup();
    const uid = 65_534;
    const ctl = (words: string[]) =>
      spawnSync(process.execPath, [resolve('dist/agentctl.js'), ...words], { uid, encoding: 'utf8' });
    if (ctl(['--version']).status !== 0) skip('another user cannot read the programs here');
    const { child } = await at.serve(...RUNBOOK);
    const give = (to: number) => {
      for (const path of ['..', '.', '.agentd', '.agentd/owner.json', '.agentd/lock']) chownSync(at.path(path), to, to);
    };
    const takeover = ['takeover', '--workspace', at.root, '--grace', '0'];
    expect(ctl(takeover)).toMatchObject({ status: 1, stderr: expect.stringMatching(/^Could not look at .*\n$/) });
    give(uid);
    const refused = {
      status: 1,
      stderr: `Process ${child.pid} belongs to another user. Run this as that user, or as root.\n`,
    };
    expect(ctl(takeover)).toMatchObject(refused);
    give(0);
    expect(child.exitCode ?? child.signalCode).toBe(null);
  },
);

test('a grace that is no number of seconds is refused', async () => {
  const at = setup();
  expect((await at.here(['takeover', '--grace', '-1'])).code).toBe(2);
  expect((await at.here(['takeover', '--grace', 'soon'])).code).toBe(2);
});

test('status and doctor say which lock keeps a second daemon out', async () => {
  const at = setup();
  await at.serveHere(...RUNBOOK);
  expect((await at.here(['status'])).out).toContain('Lock:      kernel lock (flock)');
  expect(JSON.parse((await at.here(['status', '--json'])).out).daemon).toMatchObject({ epoch: 1, lock: 'flock' });
  expect((await at.here(['doctor', '--verbose', ...RUNBOOK])).out).toContain('kernel lock (flock)');
});
