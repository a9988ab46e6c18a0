import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { formatLocalTime } from '../../src/base/strings.ts';
import { runHere } from '../support/agentctl-here.ts';
import { everything } from '../support/all.ts';
import { type Ground, ground, type RealDaemon, until } from '../support/daemon.ts';
import { modelServer } from '../support/temporary.ts';

const RUNBOOK = ['--model', 'runbook'];
/** A start costs half a second of a core; thirty are tried with AGENTD_TEST_ALL=1, all hundred with OWNERS=100. */
const AT_ONCE = Number(process.env['OWNERS'] ?? (everything ? 30 : 6));

const ownerFile = (on: Ground) => join(on.root, '.agentd/owner.json');
const ownerOf = (on: Ground) => JSON.parse(readFileSync(ownerFile(on), 'utf8'));
const call = (command: string) => [{ name: 'shell', args: JSON.stringify({ command }) }];
const epochs = (on: Ground, session: string) => [...new Set(on.events(session).map((event) => event.epoch))];

async function ended(daemon: RealDaemon, signal: NodeJS.Signals): Promise<number | NodeJS.Signals> {
  daemon.process.kill(signal);
  return daemon.ended;
}

/** Drops a message and waits for its reply. */
async function answered(on: Ground, session: string, name: string): Promise<string> {
  on.sh(session, `mkdir -p inbox && echo hello > inbox/${name}.md`);
  return on.file(session, `outbox/${name}.md`);
}

test(`of ${AT_ONCE} daemons started at once exactly one owns the workspace, and the others name it`, async () => {
  const on = ground();
  const all = Array.from({ length: AT_ONCE }, () => on.launch(RUNBOOK));
  const ends = await Promise.all(
    all.map((daemon) =>
      Promise.race([daemon.ended, new Promise((done) => daemon.process.stdout?.once('data', () => done('READY')))]),
    ),
  );
  expect(ends.filter((end) => end === 'READY')).toHaveLength(1);
  expect(ends.filter((end) => end === 3)).toHaveLength(AT_ONCE - 1);
  const { pid, at, epoch } = ownerOf(on);
  expect([pid, epoch]).toEqual([all[ends.indexOf('READY')]?.process.pid, 1]);
  for (const [n, daemon] of all.entries()) {
    if (ends[n] === 3)
      expect(daemon.stderr()).toMatch(new RegExp(`process ${pid} on .*, since ${formatLocalTime(at)}`));
  }
}, 600_000);

test('each owner counts one epoch on, after kill -9 as after an orderly stop, and its events carry it', async () => {
  const on = ground();
  for (const [epoch, how] of [
    [1, 'SIGTERM'],
    [2, 'SIGKILL'],
    [3, 'SIGTERM'],
  ] as const) {
    const daemon = await on.start(RUNBOOK);
    expect(ownerOf(on)).toMatchObject({ epoch, pid: daemon.process.pid });
    expect(daemon.stderr()).toContain(`epoch ${epoch}; lock: kernel lock (flock)`);
    await answered(on, 'demo', `${epoch}`);
    await ended(daemon, how);
    expect(ownerOf(on).ended_at === undefined).toBe(how === 'SIGKILL');
  }
  expect(epochs(on, 'demo')).toEqual([1, 2, 3]);
});

test('an owner.json that is gone, or makes no sense, does not set the epoch back', async () => {
  const on = ground();
  const first = await on.start(RUNBOOK);
  writeFileSync(ownerFile(on), JSON.stringify({ ...ownerOf(on), epoch: 40 }));
  await ended(first, 'SIGKILL');
  for (const [n, harm] of [
    () => {},
    () => rmSync(ownerFile(on)),
    () => writeFileSync(ownerFile(on), '{ "epoch": 3'),
    () => writeFileSync(ownerFile(on), JSON.stringify({ ...ownerOf(on), epoch: 2 ** 53 - 1 })),
  ].entries()) {
    harm();
    const daemon = await on.start(RUNBOOK);
    expect(ownerOf(on).epoch).toBe(41 + n);
    await answered(on, 'demo', `${n}`);
    await ended(daemon, 'SIGKILL');
  }
  expect(epochs(on, 'demo')).toEqual([41, 42, 43, 44]);
});

test('a session that was moved in with an event log ahead of the daemon raises its epoch before it is written to', async () => {
  const [there, here] = [ground(), ground()];
  const first = await there.start(RUNBOOK);
  const { epoch: _, ...owner } = ownerOf(there);
  await ended(first, 'SIGTERM');
  writeFileSync(ownerFile(there), JSON.stringify({ ...owner, epoch: 56 }));
  const ahead = await there.start(RUNBOOK);
  await answered(there, 'moved', '1');
  await ended(ahead, 'SIGTERM');
  const daemon = await here.start(RUNBOOK);
  await answered(here, 'own', '1');
  cpSync(there.session('moved'), here.session('moved'), { recursive: true });
  await answered(here, 'moved', '2');
  expect([epochs(here, 'own'), epochs(here, 'moved'), ownerOf(here).epoch]).toEqual([[1], [57, 58], 58]);
  expect(await ended(daemon, 'SIGTERM')).toBe(0);
  await here.serve(RUNBOOK);
  expect(ownerOf(here).epoch).toBe(59);
});

test('a daemon that sees a higher epoch ends before its next command and writes nothing more', async () => {
  const server = await modelServer([
    { text: '[Step] One\n[Step] Two', calls: call('echo one >> log') },
    { text: 'The first is there. [Done]', calls: call('echo two >> log'), hang: 'before' },
    { text: 'Go on.', calls: call('echo two >> log') },
    { text: 'Both are there. [Done]' },
  ]);
  const on = ground();
  const daemon = await on.start(server.flags);
  on.sh('demo', 'mkdir inbox && echo "write two lines" > inbox/1.md');
  await server.arrived(2);
  writeFileSync(ownerFile(on), JSON.stringify({ ...ownerOf(on), epoch: 7, pid: 1 }));
  const before = [on.events('demo').length, readFileSync(ownerFile(on), 'utf8')];
  server.release();
  expect(await daemon.ended).toBe(8);
  expect(daemon.stderr()).toContain('names process 1 on ');
  expect([on.events('demo').length, readFileSync(ownerFile(on), 'utf8')]).toEqual(before);
  expect(on.sh('demo', 'cat work/log')).toBe('one\n');
  await on.serve(server.flags);
  await on.file('demo', 'outbox/1.md');
  expect(on.sh('demo', 'cat work/log')).toBe('one\ntwo\n');
  expect([ownerOf(on).epoch, epochs(on, 'demo')]).toEqual([8, [1, 8]]);
});

test('a message dropped to a daemon that lost the workspace stays where it is', async () => {
  const on = ground();
  const daemon = await on.start(RUNBOOK);
  await answered(on, 'demo', '1');
  writeFileSync(ownerFile(on), JSON.stringify({ ...ownerOf(on), epoch: 2 }));
  on.sh('demo', 'echo hello > inbox/2.md');
  expect(await daemon.ended).toBe(8);
  expect(on.sh('demo', 'ls inbox')).toBe('2.md\n');
  expect(epochs(on, 'demo')).toEqual([1]);
});

test('a daemon whose workspace was replaced by a backup ends, writes nothing into it, and the next one serves it', async () => {
  const on = ground();
  onTestFinished(() => rmSync(`${on.root}.live`, { recursive: true, force: true }));
  const daemon = await on.start(RUNBOOK);
  await answered(on, 'demo', '1');
  await until(() => on.events('demo').at(-1)?.type === 'reply.published', 'the end of the run');
  for (const part of ['.sessions', 'agentd.json', '.agentd/owner.json'])
    cpSync(join(on.root, part), join(`${on.root}.backup`, part), { recursive: true });
  await answered(on, 'demo', '2');
  renameSync(on.root, `${on.root}.live`);
  renameSync(`${on.root}.backup`, on.root);
  const before = readFileSync(ownerFile(on), 'utf8');
  expect(await daemon.ended).toBe(8);
  expect(daemon.stderr()).toContain(`the folder ${on.root} was replaced by another one`);
  expect(readFileSync(ownerFile(on), 'utf8')).toBe(before);
  await on.serve(RUNBOOK);
  await answered(on, 'demo', '3');
  expect(epochs(on, 'demo')).toEqual([1, 2]);
});

test('a daemon whose .agentd was removed ends, `status` says so, and the next one goes on where it was', async () => {
  const on = ground();
  const daemon = await on.start(RUNBOOK);
  await answered(on, 'demo', '1');
  renameSync(join(on.root, '.agentd'), join(on.root, 'removed'));
  expect(await daemon.ended).toBe(8);
  expect(daemon.stderr()).toContain(`${join(on.root, '.agentd')} was removed while this daemon served the workspace`);
  expect(await on.ctl('status')).toMatch(/^No daemon is running\. Start one with: agentctl start/);
  await on.serve(RUNBOOK);
  await answered(on, 'demo', '2');
  expect(epochs(on, 'demo')).toEqual([1, 2]);
});

test('a daemon whose .agentd cannot be looked at for a while goes on', async () => {
  const on = ground();
  const daemon = await on.start(RUNBOOK);
  await answered(on, 'demo', '1');
  const [own, away] = [join(on.root, '.agentd'), join(on.root, 'away')];
  renameSync(own, away);
  writeFileSync(own, 'a file in its place');
  // It looks each second.
  await sleep(3000);
  rmSync(own);
  renameSync(away, own);
  await answered(on, 'demo', '2');
  expect(epochs(on, 'demo')).toEqual([1]);
  expect(daemon.process.exitCode).toBeNull();
});

test('a daemon whose owner.json alone was removed or damaged writes it again', async () => {
  const on = ground();
  await on.start(RUNBOOK);
  const before = readFileSync(ownerFile(on), 'utf8');
  for (const harm of [() => rmSync(ownerFile(on)), () => writeFileSync(ownerFile(on), '{')]) {
    harm();
    await until(() => readIf(ownerFile(on)) === before, 'owner.json as it was');
  }
  await answered(on, 'demo', '1');
});

test('a daemon beside which another one owns the workspace, with the same epoch, ends', async () => {
  const on = ground();
  const daemon = await on.start(RUNBOOK);
  writeFileSync(ownerFile(on), JSON.stringify({ ...ownerOf(on), pid: 1 }));
  expect(await daemon.ended).toBe(8);
  expect(daemon.stderr()).toContain('names process 1 on ');
});

test('a command that outlives the daemon does not keep the lock', async () => {
  const server = await modelServer([{ text: '', calls: call('echo $$ > pid; exec sleep 300') }, { text: 'ok' }]);
  const on = ground();
  const first = await on.start(server.flags);
  on.sh('demo', 'mkdir inbox && echo "sleep" > inbox/1.md');
  const pid = Number(await until(() => readIf(join(on.session('demo'), 'work/pid')), 'the pid'));
  await ended(first, 'SIGKILL');
  try {
    const listing = spawnSync('ls', ['-l', `/proc/${pid}/fd`], { encoding: 'utf8' });
    expect([listing.status, listing.stdout.includes('.agentd/lock')]).toEqual([0, false]);
    await on.serve(server.flags);
    expect(ownerOf(on).epoch).toBe(2);
  } finally {
    process.kill(pid, 'SIGKILL');
  }
});

test('an owner that was stopped for a while is still the owner, and goes on', async () => {
  const on = ground();
  const owner = await on.start(RUNBOOK);
  const { ino } = statSync(join(on.root, '.agentd/lock'));
  owner.process.kill('SIGSTOP');
  on.sh('demo', 'mkdir inbox && echo hello > inbox/1.md');
  const other = on.launch(RUNBOOK);
  expect(await other.ended).toBe(3);
  expect(other.stderr()).toContain(`process ${owner.process.pid}`);
  owner.process.kill('SIGCONT');
  await on.file('demo', 'outbox/1.md');
  expect([ownerOf(on).pid, ownerOf(on).epoch, epochs(on, 'demo')]).toEqual([owner.process.pid, 1, [1]]);
  expect(statSync(join(on.root, '.agentd/lock')).ino).toBe(ino);
});

test('a lock file that was deleted under a living owner lets nobody else in', async () => {
  const on = ground();
  const owner = await on.start(RUNBOOK);
  rmSync(join(on.root, '.agentd/lock'));
  const other = on.launch(RUNBOOK);
  expect(await other.ended).toBe(3);
  expect(other.stderr()).toContain(`process ${owner.process.pid}`);
});

test('without flock perl takes the kernel lock, without both a folder does, and none of them lets another kind in', async () => {
  for (const [programs, lock] of [
    [['perl'], 'perl'],
    [[], 'folder'],
  ] as const) {
    const on = ground();
    const PATH = join(on.root, 'bin');
    mkdirSync(PATH);
    for (const program of [...programs, 'bash']) {
      symlinkSync(spawnSync('which', [program], { encoding: 'utf8' }).stdout.trim(), join(PATH, program));
    }
    const owner = await on.start(RUNBOOK, { PATH });
    expect(ownerOf(on)).toMatchObject({ lock, pid: owner.process.pid });
    for (const env of [{ PATH }, {}]) {
      const other = on.launch(RUNBOOK, env);
      expect(await other.ended).toBe(3);
      expect(other.stderr()).toContain(`process ${owner.process.pid}`);
    }
    expect(await ended(owner, 'SIGTERM')).toBe(0);
    await on.start(RUNBOOK, { PATH });
    expect(ownerOf(on).epoch).toBe(2);
  }
});

const APART = ['unshare', '-Urupf', '--mount-proc', '--kill-child', 'sh', '-c', 'hostname c1; exec "$@"', 'sh'];
const isTogether = spawnSync(APART[0] ?? '', [...APART.slice(1), 'true']).status !== 0;

test.skipIf(isTogether)(
  'a daemon in a container is seen from outside, and is named where it has to be stopped',
  async () => {
    const on = ground();
    on.wrap.push(...APART);
    await on.start(RUNBOOK);
    expect(await on.ctl('status')).toContain(`The daemon is running: process ${ownerOf(on).pid} on c1`);
    expect(await on.ctl('send', 'demo', '1. W: `echo hi`', '--wait')).toContain('W: `hi`');
    expect((await runHere(['--workspace', on.root, 'send', 'demo', 'more'])).err).not.toContain('No daemon');
    for (const word of ['stop', 'start', 'restart']) {
      const { code, err } = await runHere(['--workspace', on.root, word]);
      expect([word, code, err]).toEqual([
        word,
        3,
        expect.stringMatching(/A daemon on c1 \(process \d+ there\) has .* it there/),
      ]);
    }
  },
);

function readIf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8') || undefined;
  } catch {
    return undefined;
  }
}
