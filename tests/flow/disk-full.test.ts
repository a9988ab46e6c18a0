import { spawn, spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test, vi } from 'vitest';
import { isDiskFull } from '../../src/base/user-error.ts';
import { realClock } from '../../src/daemon/host/clock.ts';
import { type FreeSpace, openDiskMonitor } from '../../src/daemon/host/disk.ts';
import { diskRig, tempFolder } from '../store/rig.ts';
import { type Ground, ground, inFolder, until } from '../support/daemon.ts';
import { startOpenAI } from '../support/openai-server.ts';
import { smallDisk, whyNoMount } from '../support/small-disk.ts';

const DISK = { min_free_mb: 4, reserve_mb: 1 };
const AGENTCTL = resolve('dist/agentctl.js');
const none = whyNoMount();

/** Each message was received once and has one reply. */
function oneReplyEach(on: Ground, session: string, names: string[]): void {
  const of = (type: string) => on.events(session).filter((event) => event.type === type).length;
  expect(
    inFolder(join(on.session(session), 'outbox'))
      .filter((name) => !name.startsWith('.') && name !== 'read')
      .sort(),
  ).toEqual(names);
  expect(of('message.received')).toBe(names.length);
  expect(of('reply.committed')).toBe(names.length);
}

test.skipIf(none)(
  `a disk that fills up in the middle of a run loses nothing and takes in nothing, nor does an upgrade then, and all goes on when it is freed ${none}`,
  async () => {
    const disk = smallDisk();
    const on = ground(disk.path);
    fs.mkdirSync(on.root, { mode: 0o700 });
    const server = await startOpenAI([
      {
        text: '[Step] a',
        calls: [
          {
            name: 'shell',
            args: JSON.stringify({ command: 'echo once >> log; until test -e go; do sleep 0.1; done; echo done' }),
          },
        ],
      },
      { text: 'a is there [Done]' },
      { text: 'Hello to you.' },
    ]);
    on.config({ version: 1, disk: DISK });
    await on.start(['--base-url', server.url, '--model', 'm']);
    await until(() => on.status()?.disk.reserve, 'the reserve');
    on.sh('demo', 'mkdir inbox && echo "do a" > inbox/1.md');
    await on.file('demo', 'work/log');
    // Nothing else may take the room in which the command tells that it may end.
    fs.writeFileSync(join(on.session('demo'), 'go-there'), '');
    disk.fill();
    await until(() => on.status()?.disk.space === 'full', 'the daemon to notice');
    expect(on.status()?.disk.why).toMatch(/MB free, at least 4 MB required|disk is full/);
    fs.renameSync(join(on.session('demo'), 'go-there'), join(on.session('demo'), 'work/go'));
    await until(
      () => on.events('demo').some((event) => event.type === 'tool.finished'),
      'the end of the command in the event log',
    );
    fs.linkSync(join(on.session('demo'), 'work/log'), join(on.root, 'letter'));
    fs.rmSync(join(on.root, 'letter'));
    fs.writeFileSync(join(on.session('demo'), 'inbox/2.md'), '');
    expect(await on.ctl('upgrade')).toContain('The daemon is running');
    expect(server.requests).toHaveLength(1);
    expect(on.events('demo').filter((event) => event.type === 'message.received')).toHaveLength(1);
    disk.free();
    fs.writeFileSync(join(on.session('demo'), 'inbox/2.md'), 'hello');
    expect(await on.file('demo', 'outbox/1.md')).toContain('a is there');
    // Taken up before the run ended or after it: either is right.
    expect(await on.file('demo', 'outbox/2.md')).toMatch(/Hello to you\.|status: joined/);
    await until(() => on.status()?.disk.space === 'ok' && on.status()?.disk.reserve, 'the reserve to be back');
    oneReplyEach(on, 'demo', ['1.md', '2.md']);
    expect(on.sh('demo', 'cat work/log')).toBe('once\n');
    await on.ctl('stop');
    await server.close();
  },
);

/** Takes every byte that becomes free, as a process that writes a log does. */
function greedy(disk: string): void {
  const script = `const fs = require('fs'); const fd = fs.openSync(process.argv[1], 'a');
    setInterval(() => { try { for (;;) fs.writeSync(fd, Buffer.alloc(4096, 'x')); } catch {} }, 5);`;
  const child = spawn(process.execPath, ['-e', script, join(disk, 'greedy')], { stdio: 'ignore' });
  onTestFinished(() => void child.kill('SIGKILL'));
}

test.skipIf(none)(
  `on a disk that somebody keeps full the end of a command with megabytes of output is in the event log; after kill -9 the daemon starts, and is asked and told to cancel ${none}`,
  async () => {
    const disk = smallDisk('size=24m');
    const on = ground(disk.path);
    fs.mkdirSync(on.root, { mode: 0o700 });
    const command = 'seq 1 400000; echo there > log; until test -e go; do sleep 0.1; done';
    const server = await startOpenAI([
      { text: '[Step] count', calls: [{ name: 'shell', args: JSON.stringify({ command }) }] },
      // Asked only if there was room for a moment, before the other process took it.
      { text: 'x', hang: 'before' },
    ]);
    on.config({ version: 1, disk: DISK });
    const first = await on.start(['--base-url', server.url, '--model', 'm']);
    await until(() => on.status()?.disk.reserve, 'the reserve');
    on.sh('demo', 'mkdir inbox && echo "count" > inbox/1.md');
    await on.file('demo', 'work/log');
    fs.writeFileSync(join(on.session('demo'), 'go-there'), '');
    disk.fill();
    greedy(join(disk.path, '..'));
    fs.renameSync(join(on.session('demo'), 'go-there'), join(on.session('demo'), 'work/go'));
    const end = await until(
      () => on.events('demo').find((event) => event.type === 'tool.finished'),
      'its end in the event log',
    );
    expect(end).toMatchObject({ ok: true, output: { text: expect.stringContaining('there was no room for it') } });
    expect(JSON.stringify(end)).toContain('\\n400000');
    await first.kill();
    await on.start(['--base-url', server.url, '--model', 'm']);
    expect(on.events('demo').map((event) => event.type)).not.toContain('tool.interrupted');
    const ask = (...words: string[]) =>
      spawnSync(process.execPath, [AGENTCTL, '--workspace', on.root, ...words], { encoding: 'utf8' });
    for (const words of [['status'], ['list'], ['show', 'demo']]) expect(ask(...words)).toMatchObject({ status: 0 });
    expect(ask('cancel', 'demo')).toMatchObject({ status: 0 });
    const last = await until(() => on.events('demo').find((event) => event.type === 'run.ended'), 'the cancel');
    expect(last).toMatchObject({ status: 'cancelled' });
    await server.close();
  },
);

test.skipIf(none)(
  `below the floor messages stay in the inbox, in old sessions and new ones, and are answered when there is room ${none}`,
  async () => {
    const disk = smallDisk();
    const on = ground(disk.path);
    fs.mkdirSync(on.root, { mode: 0o700 });
    on.config({ version: 1, disk: DISK });
    for (const name of ['old', 'new']) on.sh(name, 'mkdir -p inbox');
    on.sh('old', 'echo /status > inbox/1.md');
    const daemon = await on.start();
    await on.file('old', 'outbox/1.md');
    const big = join(on.root, 'big');
    const { bavail, bsize } = fs.statfsSync(on.root);
    fs.writeFileSync(big, Buffer.alloc(bavail * bsize - 2 * 2 ** 20, 'x'));
    await until(() => on.status()?.disk.space === 'low', 'the daemon to notice');
    on.sh('old', 'echo /status > inbox/2.md');
    on.sh('new', 'echo /status > inbox/1.md');
    await until(() => on.status()?.sessions.open === 2, 'both to be looked at');
    expect(fs.existsSync(join(on.session('old'), 'inbox/2.md'))).toBe(true);
    expect(on.events('new')).toEqual([]);
    fs.rmSync(big);
    await on.file('old', 'outbox/2.md');
    await on.file('new', 'outbox/1.md');
    oneReplyEach(on, 'old', ['1.md', '2.md']);
    oneReplyEach(on, 'new', ['1.md']);
    expect(daemon.stderr()).toMatch(/no new messages are accepted/);
    expect(daemon.stderr()).not.toMatch(/\n\s+at /);
  },
);

test.skipIf(none)(`a disk without names for new files counts as full, and a run is stopped on it ${none}`, async () => {
  const disk = smallDisk('size=12m,nr_inodes=500');
  const on = ground(disk.path);
  fs.mkdirSync(on.root, { mode: 0o700 });
  const calls = [{ name: 'shell', args: JSON.stringify({ command: 'echo there > log; sleep 60' }) }];
  const server = await startOpenAI([{ text: 'Waiting.', calls }]);
  on.config({ version: 1, disk: DISK });
  await on.start(['--base-url', server.url, '--model', 'm']);
  await until(() => on.status()?.disk.reserve, 'the reserve');
  await on.ctl('send', 'long', 'Look around');
  await on.file('long', 'work/log');
  disk.fill('names');
  await until(() => on.status()?.disk.space === 'full', 'the daemon to notice');
  expect(on.status()?.disk.why).toContain('inodes');
  for (const face of ['list', 'show long']) expect(await on.ctl(...face.split(' '))).toContain('inodes');
  expect(await on.ctl('stop-run', 'long', '--wait')).toContain('Stopped.');
  expect(on.events('long').find((event) => event.type === 'run.ended')).toMatchObject({ reason: 'stopped' });
  disk.free();
  await server.close();
  on.sh('demo', 'mkdir inbox');
  on.sh('demo', 'echo /status > inbox/1.md');
  await on.file('demo', 'outbox/1.md');
  oneReplyEach(on, 'demo', ['1.md']);
});

test.skipIf(none)(
  `a reply is placed where no name is free, with names that are given up one at a time ${none}`,
  async () => {
    const disk = smallDisk('size=12m,nr_inodes=60');
    fs.mkdirSync(disk.path);
    const spare = [0, 1, 2, 3].map((n) => join(disk.path, '..', `spare-${n}`));
    for (const path of spare) fs.writeFileSync(path, '');
    const makeRoom = (error: unknown) => {
      expect(isDiskFull(error)).toBe(true);
      const path = spare.pop();
      if (path) fs.rmSync(path);
      return path !== undefined;
    };
    const { store, replies } = diskRig(disk.path, {
      disk: { write: (fd, bytes, offset) => fs.writeSync(fd, bytes, offset), sync: promisify(fs.fdatasync), makeRoom },
    });
    disk.fill('names');
    await store.outbox.publish('1.md', 'Stopped.');
    expect(replies()).toEqual({ '1.md': 'Stopped.' });
    await store.close();
  },
);

const MIB = 2 ** 20;

function disk(free: { mb: number; inodes?: number }) {
  const folder = tempFolder();
  let ms = 0;
  const clock = { ...realClock, elapsed: () => ms };
  const pass = (by: number) => {
    ms += by;
  };
  const logged: string[] = [];
  const ask = (): FreeSpace => ({ bavail: free.mb, bsize: MIB, files: 1e6, ffree: free.inodes ?? 1e6 });
  const one = openDiskMonitor(
    {
      folder,
      reserve: join(folder, 'reserve'),
      rules: () => ({ floorMb: 64, reserveMb: 1 }),
      clock,
      log: (_level, text) => logged.push(text),
    },
    ask,
  );
  return { one, logged, reserve: join(folder, 'reserve'), pass };
}

test('between stopping and going on again there is a quarter of the floor', () => {
  const free = { mb: 100 };
  const { one, logged } = disk(free);
  const at = (mb: number) => {
    free.mb = mb;
    return one.capacity();
  };
  const found = [100, 64, 63, 65, 79, 80, 63, 15, 17, 19, 20, 80].map(at).join(' ');
  expect(found).toBe('ok ok low low low ok low full full full low ok');
  expect(logged.filter((text) => /disk/.test(text))).toHaveLength(5);
});

test('few inodes count like few bytes, and a file system that tells of none has enough', () => {
  const free = { mb: 1000, inodes: 1000 };
  const { one } = disk(free);
  expect(one.capacity()).toBe('low');
  expect(one.status().why).toContain('inodes');
  free.inodes = 200;
  expect(one.capacity()).toBe('full');
});

test('a quota that statfs does not tell stops everything, and it is tried by writing whether there is room', () => {
  const free = { mb: 1000 };
  const { one, reserve, pass } = disk(free);
  one.reportFull(Object.assign(new Error('quota'), { code: 'EDQUOT' }));
  expect(one.capacity()).toBe('full');
  pass(1000);
  expect(one.capacity()).toBe('ok');
  expect(fs.statSync(reserve).size).toBe(MIB);
});

test('the reserve takes real room, and only where there is room to spare', () => {
  const { one, reserve } = disk({ mb: 64 + 3 });
  one.start(() => {});
  expect(fs.existsSync(reserve)).toBe(false);
  one.stop();
  const other = disk({ mb: 64 + 4 });
  other.one.start(() => {});
  expect(fs.statSync(other.reserve).blocks * 512).toBeGreaterThanOrEqual(MIB);
  for (let left = MIB; left > 0; left -= 16 * 1024) expect(other.one.freeReserve(10)).toBe(true);
  expect(other.one.freeReserve(10)).toBe(false);
  other.one.stop();
});

test('a reserve that cannot be created is tried less and less often, and reported once', () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const { one, reserve, logged, pass } = disk({ mb: 100 });
  fs.mkdirSync(join(reserve, 'of somebody'), { recursive: true });
  const changed = () => fs.statSync(dirname(reserve), { bigint: true }).mtimeNs;
  let tries = 0;
  one.start(() => {});
  for (let second = 0; second < 600; second++) {
    const before = changed();
    pass(1000);
    vi.advanceTimersByTime(1000);
    if (changed() !== before) tries++;
  }
  one.stop();
  expect(tries).toBeLessThan(20);
  expect(logged).toEqual([expect.stringContaining('could not create the disk reserve')]);
});
