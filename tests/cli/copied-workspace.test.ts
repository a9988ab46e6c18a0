import { spawnSync } from 'node:child_process';
import { cpSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { workspacePaths } from '../../src/store/layout/layout.ts';
import { isProcessAlive, readLiveOwner, readOwner } from '../../src/store/workspace/owner-file.ts';
import { openJobStore } from '../../src/tools/jobs/job-store.ts';
import { readSupervisorIdentity } from '../../src/tools/process/call-folder.ts';
import { discardIfNeverStarted, endLeftovers, recoverCommand } from '../../src/tools/process/recover-command.ts';
import { type Setup, setup } from '../support/agentctl.ts';
import { inFolder } from '../support/daemon.ts';
import { eventually } from '../tools/tool-setup.ts';

const RUNBOOK = ['--model', 'runbook'];
const STEPS = '1. Wait: `sleep 300`\n';
const signal = new AbortController().signal;

const ownerOf = ({ root }: Setup) => readOwner(workspacePaths(root));
const isAlive = (pid: number | undefined) => {
  try {
    return process.kill(pid ?? 0, 0);
  } catch {
    return false;
  }
};

/** A workspace whose daemon runs a command, and a copy of its folder that was made meanwhile. */
async function copied() {
  const [at, copy] = [setup(), setup()];
  await at.here(['send', 'demo', STEPS]);
  writeFileSync(at.path('agentd.json'), JSON.stringify({ sandbox: 'none' }));
  const { child } = await at.serve(...RUNBOOK);
  const tools = at.path('.sessions/demo/tools');
  const running = () => inFolder(tools).flatMap((call) => readSupervisorIdentity(join(tools, call))?.pid ?? [])[0];
  await eventually(() => running() !== undefined);
  const group = running() ?? 0;
  onTestFinished(() => void process.kill(-group, 'SIGKILL'));
  // A file may go while it is copied, which `cp` only tells.
  spawnSync('cp', ['-r', at.root, copy.root]);
  return { at, copy, child, group };
}

test('of a copied workspace nothing speaks of the daemon of the first, and nothing ends it', async () => {
  const { at, copy, child, group } = await copied();
  expect(ownerOf(copy)?.pid).toBe(child.pid);
  const status = await copy.here(['status']);
  expect([status.code, status.out]).toEqual([3, expect.stringContaining('No daemon is running')]);
  const stop = await copy.here(['stop']);
  expect([stop.code, stop.err]).toEqual([3, expect.stringContaining(`No daemon is running for ${copy.root}`)]);
  const takeover = await copy.here(['takeover', '--grace', '0']);
  expect([takeover.code, takeover.err]).toEqual([3, expect.stringContaining('nothing to take over')]);
  expect([isAlive(child.pid), isAlive(-group)]).toEqual([true, true]);

  const start = await copy.ctl(['start', ...RUNBOOK]);
  expect([start.code, start.err]).toEqual([0, '']);
  const second = ownerOf(copy);
  expect(second?.pid).not.toBe(child.pid);
  expect(second?.epoch).toBe((ownerOf(at)?.epoch ?? 0) + 1);
  expect((await copy.here(['stop'])).code).toBe(0);
  expect(second && isProcessAlive(second)).toBe(false);
  expect([isAlive(child.pid), isAlive(-group)]).toEqual([true, true]);
  const { out } = await at.here(['status']);
  expect(out).toContain(`process ${child.pid}`);
  expect(out).toContain('Log:       no file; a daemon in the foreground');
}, 240_000);

test('a workspace that was moved while its daemon runs still is its own', async () => {
  const at = setup();
  await at.serve(...RUNBOOK);
  const moved = `${at.root}-moved`;
  renameSync(at.root, moved);
  expect(readLiveOwner(workspacePaths(moved))?.pid).toBe(ownerOf({ ...at, root: moved })?.pid);
  renameSync(moved, at.root);
});

test('a command or job that runs for one session is not that of a copy of its folder', async () => {
  const { at, copy, group } = await copied();
  const call = readdirSync(copy.path('.sessions/demo/tools'))[0] ?? '';
  const folder = copy.path('.sessions/demo/tools', call);
  expect(await recoverCommand(folder, { signal, timeoutMs: 100 })).toBeNull();
  expect([discardIfNeverStarted(folder), await endLeftovers(folder)]).toEqual([false, 'nothing']);
  expect(isAlive(-group)).toBe(true);

  const jobs = at.path('.sessions/demo/jobs');
  const program = { shell: '/bin/sh', command: 'sleep 300', cwd: at.root, env: { PATH: process.env['PATH'] } };
  const asked = { call: '3.0', timeoutS: 600, most: 5 };
  await openJobStore(jobs).start(program, null, asked, AbortSignal.abort());
  cpSync(jobs, copy.path('.sessions/demo/jobs'), { recursive: true });
  const theirs = openJobStore(copy.path('.sessions/demo/jobs'));
  expect(theirs.listRunning()).toEqual([]);
  await theirs.end(100);
  expect(theirs.listUnreported().join()).toContain('the session was copied');
  expect(openJobStore(jobs).listRunning()).toHaveLength(1);
});
