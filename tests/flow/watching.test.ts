import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { realClock } from '../../src/daemon/host/clock.ts';
import { fileSystemAt, openDiskMonitor } from '../../src/daemon/host/disk.ts';
import { serveWorkspace } from '../../src/daemon/serve-workspace.ts';
import { detectLostEvents } from '../../src/daemon/watch/folder-watches.ts';
import { type WatchOptions, watchWorkspace } from '../../src/daemon/watch/workspace-watch.ts';
import { openWorkspace } from '../../src/store/index.ts';
import { everything } from '../support/all.ts';
import { type Ground, ground, until } from '../support/daemon.ts';
import { modelServer } from '../support/temporary.ts';

// "/status" is answered at once and without a model. Nothing here may wait for the sweep: it comes after 30 s, and `until` gives up before.

/** So many sessions with AGENTD_TEST_ALL=1, half of them otherwise. */
const NAMES = (most: number) => Array.from({ length: everything ? most : most / 2 }, (_, n) => `s${n}`);
const answered = (on: Ground, names: string[], reply: string) =>
  until(
    () => names.every((name) => fs.existsSync(join(on.session(name), 'outbox', reply))),
    `${reply} of ${names.length}`,
  );

function make(on: Ground, name: string, file: string): void {
  const inbox = join(on.session(name), 'inbox');
  fs.mkdirSync(inbox, { recursive: true });
  fs.writeFileSync(join(inbox, file), '/status');
}

test('the first message of a session that is made with it is answered', async () => {
  const on = ground();
  await on.start();
  const names = NAMES(60);
  for (const [n, name] of names.entries()) {
    if (n % 3 === 0) {
      const staged = join(on.root, '.sessions', `.tmp-${name}`);
      fs.mkdirSync(join(staged, 'inbox'), { recursive: true });
      fs.writeFileSync(join(staged, 'inbox/1.md'), '/status');
      fs.renameSync(staged, on.session(name));
    } else {
      make(on, name, '1.md');
      if (n % 3 === 1) await new Promise((done) => setTimeout(done, n % 4));
    }
  }
  await answered(on, names, '1.md');
});

test('sessions that are removed and made again get an answer to their first message and to a later one', async () => {
  const on = ground();
  const names = NAMES(80);
  for (const name of names) fs.mkdirSync(join(on.session(name), 'inbox'), { recursive: true });
  await on.start();
  for (const name of names) {
    await until(() => isRemoved(on.session(name)), `the folder of ${name} is gone`);
    make(on, name, '2.md');
  }
  await answered(on, names, '2.md');
  for (const name of names) make(on, name, '3.md');
  await answered(on, names, '3.md');
  const records = names.map((name) => on.events(name).filter((event) => event.type === 'message.received').length);
  expect(records).toEqual(names.map(() => 2));
});

test('an inbox that is removed and made again under a running call is noticed, and the call goes on', async () => {
  const server = await modelServer([{ text: 'Here is the answer.', hang: 'before' }]);
  const on = ground();
  await on.start(server.flags);
  on.sh('demo', 'mkdir inbox && echo "a question" > inbox/1.md');
  await server.arrived(1);
  on.sh('demo', 'rm -rf inbox && sleep 0.3 && mkdir inbox && echo /status > inbox/2.md');
  expect(await on.file('demo', 'outbox/2.md')).toContain('Working on');
  on.sh('demo', 'mv inbox elsewhere && mkdir inbox && echo /status > inbox/3.md');
  expect(await on.file('demo', 'outbox/3.md')).toContain('Working on');
  server.release();
  expect(await on.file('demo', 'outbox/1.md')).toContain('Here is the answer.');
  expect(server.requests).toHaveLength(1);
});

function isRemoved(folder: string): boolean {
  try {
    fs.rmSync(folder, { recursive: true });
    return true;
  } catch {
    return false;
  }
}

test('a session that is removed in the middle of a call and made again starts afresh', async () => {
  const server = await modelServer([
    { text: '[Step] a\n[Step] b', calls: [] },
    { text: 'never said', hang: 'before' },
  ]);
  const on = ground();
  await on.start(server.flags);
  on.sh('demo', 'mkdir inbox && echo "do a and b" > inbox/1.md');
  await server.arrived(2);
  // As long as the daemon still writes there a folder may be filled again while it is emptied.
  await until(() => isRemoved(on.session('demo')), 'the folder is gone');
  make(on, 'demo', '2.md');
  expect(await on.file('demo', 'outbox/2.md')).not.toContain('Working on');
  const received = on.events('demo').filter((event) => event.type === 'message.received');
  expect(received).toMatchObject([{ name: '2.md' }]);
  expect(on.plan('demo')).toBeUndefined();
});

test('messages dropped while the queue of file events overflowed are answered', async ({ skip }) => {
  const on = ground();
  const names = NAMES(100);
  for (const name of [...names, 'noisy']) make(on, name, '0.md');
  const daemon = await on.start();
  await answered(on, [...names, 'noisy'], '0.md');
  daemon.process.kill('SIGSTOP');
  const noisy = join(on.session('noisy'), 'inbox');
  // Each of these files is three events or more: half as much again as there is room for.
  const room = Number(fs.readFileSync('/proc/sys/fs/inotify/max_queued_events', 'utf8'));
  skip(room > 100_000, `the queue has room for ${room} events`);
  for (let n = 0; n < room / 2; n++) {
    fs.writeFileSync(join(noisy, `.n${n}`), 'x');
    fs.rmSync(join(noisy, `.n${n}`));
  }
  for (const name of names) make(on, name, '1.md');
  daemon.process.kill('SIGCONT');
  await answered(on, names, '1.md');
  expect(daemon.stderr()).toMatch(/checking every session/);
});

const LIMITED = ['unshare', '-Ur', 'sh', '-c', 'echo 20 > /proc/sys/user/max_inotify_watches && exec "$@"', 'sh'];

function whyNotLimited(): string {
  try {
    execFileSync('unshare', [...LIMITED.slice(1), 'true'], { stdio: 'pipe' });
    return '';
  } catch (error) {
    return `no limit on watches can be set here: ${error instanceof Error ? error.message.split('\n')[0] : error}`;
  }
}
const unlimited = whyNotLimited();

test.skipIf(unlimited)(
  `beyond the system's limit on watches inboxes are polled, and status.json says why ${unlimited}`,
  async () => {
    const on = ground();
    on.wrap.push(...LIMITED);
    const names = NAMES(60);
    for (const name of names) make(on, name, '1.md');
    await on.start();
    await answered(on, names, '1.md');
    await until(() => on.status()?.watching.polled, 'the polled ones in status.json');
    expect(on.status()?.watching.why).toContain('limit on file watches is reached (ENOSPC)');
    for (const name of [...names, 'new']) make(on, name, '2.md');
    await answered(on, [...names, 'new'], '2.md');
  },
);

/** Watches a workspace in this process, with the seams given. */
async function watching(sessions: string[], seams: Partial<WatchOptions>) {
  const root = fs.mkdtempSync(join(tmpdir(), 'agentd-flow-'));
  const workspace = openWorkspace(root, { now: realClock.now });
  // Written to after it was made, as `.agentd` is when a daemon has taken the workspace.
  const madeAt = fs.statSync(workspace.paths.own).ctimeMs;
  do {
    await new Promise(setImmediate);
    fs.writeFileSync(workspace.paths.lock, '');
    fs.rmSync(workspace.paths.lock);
  } while (fs.statSync(workspace.paths.own).ctimeMs === madeAt);
  fs.writeFileSync(workspace.paths.lock, '');
  for (const name of sessions) await workspace.create(name);
  const received: string[] = [];
  const events = {
    found: (name: string) => void received.push(`found ${name}`),
    session: (name: string) => void received.push(name),
    gone: (name: string) => void received.push(`gone ${name}`),
    settings: () => {},
  };
  const options = { log: () => {}, clock: realClock, open: () => [], ...seams };
  const watch = await watchWorkspace(workspace, events, options);
  onTestFinished(async () => {
    await watch.close();
    fs.rmSync(root, { recursive: true, force: true });
  });
  const drop = (name: string, file: string) =>
    fs.writeFileSync(join(workspace.paths.session(name), 'inbox', file), 'hi');
  return { watch, received, drop, workspace };
}

/** `fs.watch` that gives so many watches and then says what a system at its limit says. */
function scarce(most: { count: number }): NonNullable<WatchOptions['watch']> {
  let given = 0;
  return (path, received) => {
    if (given >= most.count) throw Object.assign(new Error('no space left on device, watch'), { code: 'ENOSPC' });
    given += 1;
    const watcher = fs.watch(path, received);
    const close = watcher.close.bind(watcher);
    watcher.close = () => {
      given -= 1;
      close();
    };
    return watcher;
  };
}

test('where watches are short the sessions used last have them, and the others are polled until there are more', async () => {
  const most = { count: 3 };
  let ahead = 0;
  const clock = { ...realClock, now: () => new Date(realClock.now().getTime() + ahead) };
  const it = await watching(['a', 'b', 'c', 'd'], { watch: scarce(most), clock });
  expect(it.watch.status()).toMatchObject({ known: 4, watched: 2, why: expect.stringContaining('ENOSPC') });
  const [first = '', second = ''] = it.watch.status().polled;
  for (const name of [first, second]) {
    it.drop(name, '1.md');
    await until(() => it.received.includes(name), name);
    expect(it.watch.status().polled).not.toContain(name);
  }
  expect(it.watch.status()).toMatchObject({ watched: 2 });
  most.count = 10;
  ahead = 3_600_000;
  await until(() => it.watch.status().watched === 4, 'the sweep to give watches again');
  expect(it.watch.status().why).toBeNull();
});

test('on a network file system the daemon does not start unless a person said so, and there it polls', async () => {
  const nfs = () => 0x6969;
  expect(fileSystemAt('/', nfs)).toEqual({ local: false, name: 'nfs' });
  const it = await watching(['a', 'b'], { typeOf: nfs, open: () => ['a'] });
  expect(it.watch.status()).toMatchObject({ watched: 0, fileSystem: 'nfs', why: expect.stringContaining('nfs') });
  it.drop('a', '1.md');
  await until(() => it.received.includes('a'), 'the open session');
  const disk = openDiskMonitor({
    folder: it.workspace.paths.own,
    reserve: it.workspace.paths.reserve,
    rules: () => ({ floorMb: 0, reserveMb: 0 }),
    clock: realClock,
    log: () => {},
  });
  const options = {
    log: () => {},
    clock: realClock,
    disk,
    mostOpen: 8,
    settings: () => {},
    settingsStatus: () => ({
      ...{ file: 'agentd.json', from: 'file' as const, since: null, fault: null, warnings: [] },
      ...{ total: 0, sessions: [] },
    }),
    onLost: () => {},
    prepare: async () => {},
    sweep: async () => false,
    typeOf: nfs,
  };
  await expect(serveWorkspace(it.workspace, async () => null, { ...options, allowNetwork: false })).rejects.toThrow(
    /is on nfs.*--allow-network-fs/s,
  );
  const daemon = await serveWorkspace(it.workspace, async () => null, { ...options, allowNetwork: true });
  await daemon.stop();
});

test.each([
  ['the time of day jumps by an hour', { wall: 3_600_000, steady: 0 }, /jumped by 3600 s/],
  ['the time of day jumps back', { wall: -3_600_000, steady: 0 }, /jumped by -3600 s/],
  ['the event loop was blocked', { wall: 900, steady: 900 }, /blocked for/],
])('everything is looked at after %s', async (_what, jump, why) => {
  const off = { wall: 0, steady: 0 };
  const clock = {
    ...realClock,
    now: () => new Date(realClock.now().getTime() + off.wall),
    elapsed: () => realClock.elapsed() + off.steady,
  };
  const looks: string[] = [];
  const detector = detectLostEvents(clock, (reason) => looks.push(reason));
  onTestFinished(detector.stop);
  Object.assign(off, jump);
  await until(() => looks.some((reason) => why.test(reason)), 'the look');
});

test('so many file events in one turn that the queue may have overflowed are a reason to look at everything', async () => {
  const looks: string[] = [];
  const detector = detectLostEvents(realClock, (reason) => looks.push(reason));
  onTestFinished(detector.stop);
  for (let n = 0; n < 8192; n++) detector.countEvent();
  await until(() => looks.some((reason) => /8192 file events/.test(reason)), 'the look');
});
