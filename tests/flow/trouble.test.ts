import { execFileSync, spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { limitsWithin } from '../../src/daemon/host/run-limits.ts';
import { AGENTD, type Ground, ground, until } from '../support/daemon.ts';
import { smallDisk, whyNoMount } from '../support/small-disk.ts';
import { modelServer } from '../support/temporary.ts';

const isRoot = process.getuid?.() === 0;
const noMount = whyNoMount();
const replied = (on: Ground, name: string, file: string) => fs.existsSync(join(on.session(name), 'outbox', file));
const troubleOf = (on: Ground, name: string) => on.status()?.trouble.sessions.find((one) => one.session === name);
/** A message that is answered without a model. A shell for each of many takes longer than all of them. */
function ask(on: Ground, name: string): void {
  fs.mkdirSync(join(on.session(name), 'inbox'), { recursive: true });
  fs.writeFileSync(join(on.session(name), 'inbox/1.md'), '/status\n');
}
const STACK = /\\n\s+at /;

test('one session is corrupt, one flooded, one blocked, one has a tool that floods, and a fifth is answered', async () => {
  const server = await modelServer((request) =>
    request.userText.includes('noise') && request.body.messages.at(-1)?.role === 'user'
      ? { text: '', calls: [{ name: 'shell', args: JSON.stringify({ command: 'yes flood' }) }] }
      : { text: `re: ${request.userText}` },
  );
  const on = ground();
  const first = await on.start(server.flags);
  await on.say('corrupt', '1.md', 'hi');
  await first.kill('SIGTERM');
  on.sh('corrupt', `rm -f snapshot.json && sed -i '2s/hi/ho/' events.jsonl && echo again > inbox/2.md`);
  on.sh('blocked', 'mkdir -p inbox && echo hi > inbox/1.md && ln -s /etc outbox');
  on.sh('flooded', 'mkdir -p inbox && for n in $(seq 1500); do echo /status > inbox/$n.md; done');
  on.sh('noisy', 'mkdir -p inbox && echo "make noise" > inbox/1.md');
  const daemon = await on.start(server.flags);
  await until(() => on.events('noisy').some((event) => event.type === 'tool.started'), 'the tool');
  expect(await on.say('fifth', '1.md', 'hello')).toContain('re: hello');
  await until(() => troubleOf(on, 'corrupt') && troubleOf(on, 'blocked'), 'both in status.json');
  expect(troubleOf(on, 'corrupt')).toMatchObject({ is: 'quarantined', why: expect.stringContaining('events.jsonl') });
  expect(troubleOf(on, 'blocked')).toMatchObject({ is: 'blocked', why: expect.stringContaining('must be a folder') });
  expect(fs.readdirSync('/etc')).not.toContain('read');
  expect(daemon.stderr()).not.toMatch(STACK);
});

test('a quarantined session is served again when its record was put right, without a restart', async () => {
  const on = ground();
  on.sh('demo', 'mkdir inbox && echo /status > inbox/1.md');
  const first = await on.start();
  await on.file('demo', 'outbox/1.md');
  await first.kill();
  on.sh(
    'demo',
    `rm -f snapshot.json && cp events.jsonl good && sed -i '2s/status/stotus/' events.jsonl && echo /status > inbox/2.md`,
  );
  await on.serve();
  await until(() => troubleOf(on, 'demo')?.is === 'quarantined', 'the quarantine');
  on.sh('demo', 'cp good events.jsonl && echo /status > inbox/3.md');
  await on.file('demo', 'outbox/3.md');
  await on.file('demo', 'outbox/2.md');
  await until(() => on.status()?.trouble.total === 0, 'a status without trouble');
});

test('what keeps a session from being served is said by list, show, status and --wait, and hides no other session', async () => {
  const on = ground();
  for (const name of ['linked', 'plain', 'older', 'well']) on.sh(name, 'mkdir inbox && echo /status > inbox/1.md');
  await on.serve();
  for (const name of ['linked', 'plain', 'older', 'well']) await on.file(name, 'outbox/1.md');
  on.sh('older', 'cp events.jsonl before && echo /status > inbox/2.md');
  await on.file('older', 'outbox/2.md');
  on.sh('plain', 'rm -r inbox && echo text > inbox');
  on.sh('well', 'mv ../linked ../../elsewhere && ln -s ../elsewhere ../linked');
  on.sh('older', 'cp before events.jsonl && echo /status > inbox/3.md');
  await until(() => troubleOf(on, 'older') && troubleOf(on, 'plain'), 'both in status.json');
  const reasons = {
    linked: 'linked must be a folder, but something else is there',
    plain: 'inbox must be a folder, but something else is there',
    older: 'another program wrote to it',
  };
  const [list, status] = [await on.ctl('list'), await on.ctl('status')];
  for (const [name, why] of Object.entries(reasons)) {
    for (const text of [list, status]) expect(text.split('\n').filter((line) => line.includes(why))).toHaveLength(1);
    expect(await on.ctl('show', name)).toContain(why);
  }
  expect(list).toMatch(/^well +idle/m);
  expect(await on.ctl('send', 'older', 'hello', '--wait', '--timeout', '0.1')).toContain(reasons.older);
  on.sh('plain', 'rm inbox && mkdir inbox && echo /status > inbox/2.md');
  await on.file('plain', 'outbox/2.md');
}, 60_000);

test.each([
  ['plan.json becomes a link', 'ln -sf /etc/hostname plan.json', 'rm plan.json', false],
  ['AGENTS.md grows beyond 1 MiB', 'head -c 1100000 /dev/zero > ../../AGENTS.md', 'rm ../../AGENTS.md', true],
  ['AGENTS.md of the session grows too', 'head -c 1100000 /dev/zero > AGENTS.md', 'rm AGENTS.md', true],
])('%s beside a command: the command ends by itself, and the event log says so', async (_what, harm, fix, blocks) => {
  const command = 'touch begun; until test -e go; do sleep 0.05; done; echo over >> log';
  const server = await modelServer([
    { text: '[Step] a', calls: [{ name: 'shell', args: JSON.stringify({ command }) }] },
    { text: 'a is there [Done]' },
    { text: 'Hello to you.' },
  ]);
  const on = ground();
  await on.serve(server.flags);
  on.sh('demo', 'mkdir inbox && echo "do a" > inbox/1.md');
  await on.file('demo', 'work/begun');
  on.sh('demo', `${harm} && echo hello > inbox/2.md`);
  const reported = () => on.events('demo').some((event) => event.type === 'plan.edited' && event.ignored.length > 0);
  const isSeen = blocks ? () => troubleOf(on, 'demo')?.is === 'blocked' : reported;
  await until(isSeen, 'the trouble, while the command runs');
  expect(on.events('demo').some(({ type }) => type === 'tool.interrupted' || type === 'tool.finished')).toBe(false);
  on.sh('demo', 'touch work/go');
  await until(() => on.events('demo').some(({ type }) => type === 'tool.finished'), 'the end of the command');
  // A plan that cannot be read is reported, and work goes on from the last good one; without instructions nothing new begins.
  if (blocks) expect(server.requests).toHaveLength(1);
  on.sh('demo', `${fix} && echo /status > inbox/3.md`);
  expect(await on.file('demo', 'outbox/1.md')).toContain('a is there');
  for (const reply of ['2.md', '3.md']) await on.file('demo', `outbox/${reply}`);
  expect(on.sh('demo', 'cat work/log')).toBe('over\n');
  expect(on.events('demo').filter(({ type }) => type === 'tool.interrupted' || type === 'daemon.stopped')).toEqual([]);
  await until(() => on.status()?.trouble.total === 0, 'a status without trouble');
});

test('with 128 open files a daemon serves 140 sessions at once', async () => {
  const on = ground();
  on.wrap.push('bash', '-c', 'ulimit -n 128 && exec "$@"', 'bash');
  const names = Array.from({ length: 140 }, (_, n) => `s${n}`);
  for (const name of names) ask(on, name);
  const daemon = await on.start();
  let most = 0;
  await until(
    () => {
      most = Math.max(most, fs.readdirSync(`/proc/${daemon.process.pid}/fd`).length);
      return names.every((name) => replied(on, name, '1.md'));
      // Few sessions are open at a time: beside other work 140 of them take more than half a minute.
    },
    'all replies',
    150_000,
  );
  expect(most).toBeLessThan(128);
  expect(daemon.stderr()).not.toMatch(/too many files/);
  expect(on.status()?.sessions.max_open).toBe(limitsWithin(128, 8).sessions);
  for (const name of names)
    expect(on.events(name).filter((event) => event.type === 'message.received')).toHaveLength(1);
}, 180_000);

test('limits on open files and on the size of a file are named where they bite, and end nothing', async () => {
  const on = ground();
  on.wrap.push('bash', '-c', 'ulimit -f 200; exec 70>/dev/null; ulimit -n 64 && exec "$@"', 'bash');
  const daemon = await on.start(['--model', 'runbook']);
  expect(await on.say('demo', '1.md', '1. Look: `date`')).toContain(
    'the limit on open files is too low. Raise it (ulimit -n)',
  );
  expect(daemon.stderr()).toMatch(/disk reserve.*EFBIG/);
});

/** A number that has been the same for three looks. */
async function steadyCount(count: () => number): Promise<number> {
  for (let seen = [count()]; ; seen = [...seen, count()].slice(-3)) {
    if (seen.length === 3 && new Set(seen).size === 1) return seen[0] ?? 0;
    await sleep(200);
  }
}

test('where files are short all the same, nothing is taken for missing, and all is answered once there are enough', async () => {
  const on = ground();
  const names = Array.from({ length: 20 }, (_, n) => `s${n}`);
  for (const name of names) fs.mkdirSync(join(on.session(name), 'inbox'), { recursive: true });
  const daemon = await on.start();
  const pid = String(daemon.process.pid);
  const inUse = await steadyCount(() => fs.readdirSync(`/proc/${pid}/fd`).length);
  execFileSync('prlimit', ['--pid', pid, `--nofile=${inUse}:`]);
  for (const name of names) ask(on, name);
  await until(() => /too many (?:files )?open/.test(daemon.stderr()), 'the shortage');
  expect(names.filter((name) => replied(on, name, '1.md'))).toEqual([]);
  execFileSync('prlimit', ['--pid', pid, '--nofile=1024:']);
  await until(() => names.every((name) => replied(on, name, '1.md')), 'all replies');
  for (const name of names)
    expect(on.events(name).filter((event) => event.type === 'message.received')).toHaveLength(1);
  expect(daemon.stderr()).not.toMatch(STACK);
});

test('the limit on open files is divided so that it is never reached', () => {
  for (const limit of [40, 64, 100, 256, 1024, 4096, 1_048_576, undefined]) {
    for (const wished of [1, 8, 64]) {
      const { sessions, runs } = limitsWithin(limit, wished);
      expect(runs).toBeGreaterThanOrEqual(1);
      expect(sessions).toBeGreaterThanOrEqual(1);
      if (limit !== undefined && limit >= 64) expect(32 + sessions * 4 + runs * 8).toBeLessThanOrEqual(limit);
    }
  }
  expect(limitsWithin(1024, 8)).toEqual({ sessions: 232, runs: 8 });
  // A worker of a cluster must take what it is given.
  expect([limitsWithin(20_000, 1000).sessions, limitsWithin(20_000, 1000, 'worker').sessions]).toEqual([512, 2992]);
});

test('a session this user may not enter is blocked, says where, and is served once it may', async ({ skip }) => {
  const on = ground();
  if (isRoot) {
    // Root that is held by permissions as anyone is. Another user might not be able to read this checkout.
    on.wrap.push('setpriv', '--bounding-set=-dac_override,-dac_read_search', '--');
    const reads = spawnSync(on.wrap[0] ?? '', [...on.wrap.slice(1), 'head', '-c1', AGENTD], { encoding: 'utf8' });
    skip(reads.status !== 0, `root cannot run the daemon without its rights over files: ${reads.stderr}`);
  }
  for (const name of ['shut', 'open']) on.sh(name, 'mkdir inbox && echo /status > inbox/1.md');
  fs.chmodSync(on.session('shut'), 0);
  const daemon = await on.start();
  await on.file('open', 'outbox/1.md');
  const found = await until(() => troubleOf(on, 'shut'), 'the trouble');
  expect(found).toMatchObject({ is: 'blocked', why: expect.stringContaining(on.session('shut')) });
  fs.chmodSync(on.session('shut'), 0o700);
  on.sh('shut', 'echo /status > inbox/2.md');
  await until(() => replied(on, 'shut', '1.md') && replied(on, 'shut', '2.md'), 'both replies', 40_000);
  await until(() => on.status()?.trouble.total === 0, 'a status without trouble');
  expect(daemon.stderr()).not.toMatch(STACK);
});

test.skipIf(noMount)(
  `a session on a read-only file system is blocked, the others go on, and all is answered when it can be written ${noMount}`,
  async () => {
    const on = ground();
    on.sh('a', 'true');
    const disk = smallDisk('size=4m', on.session('a'));
    for (const name of ['a', 'b']) on.sh(name, 'mkdir inbox && echo /status > inbox/1.md');
    disk.remount('ro');
    const daemon = await on.serve();
    await on.file('b', 'outbox/1.md');
    const found = await until(() => troubleOf(on, 'a'), 'the trouble');
    expect(found).toMatchObject({ is: 'blocked', why: expect.stringMatching(/sessions\/a.*read-only/) });
    disk.remount('rw');
    on.sh('a', 'echo /status > inbox/2.md');
    await until(() => replied(on, 'a', '1.md') && replied(on, 'a', '2.md'), 'both replies');
    expect(on.events('a').filter((event) => event.type === 'message.received')).toHaveLength(2);
    expect(daemon.stderr()).not.toMatch(STACK);
  },
);
