import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { balancerConfig } from '../../src/frontends/agentd/cluster-parts.ts';
import { type Ground, ground, inFolder, statusOf, until } from '../support/daemon.ts';
import { modelServer } from '../support/temporary.ts';

const STEPS = 8;

/** What the tests need and this machine does not have. */
function missingParts(): string[] {
  const folders = [...(process.env['PATH'] ?? '').split(':'), '/usr/sbin', '/usr/local/sbin'];
  const missing = folders.some((folder) => existsSync(join(folder, 'haproxy'))) ? [] : ['haproxy'];
  try {
    createRequire(import.meta.url).resolve('@restatedev/restate-server/package.json');
    return missing;
  } catch {
    return [...missing, '@restatedev/restate-server'];
  }
}

const missing = missingParts();
if (missing.length > 0)
  console.warn(`NOT RUN: the tests of a cluster, for want of ${missing.join(' and ')} (docs/cluster.md)`);

/** A model that has one line written by each of its calls, whoever asks it. */
async function cluster() {
  const server = await modelServer(({ body }) => {
    const done = body.messages.filter(({ role }) => role === 'tool').length;
    if (done >= STEPS) return { text: '[Done]' };
    const args = JSON.stringify({ command: `: > began-${done + 1}; sleep 0.2; echo ${done + 1} >> lines` });
    return { text: done === 0 ? '[Step] Write the lines' : '', calls: [{ id: `c${done}`, name: 'shell', args }] };
  });
  const on = ground();
  const flags = server.flags;
  const daemon = await on.start(['--cluster-dev', ...flags]);
  // Killed, it would leave its processes behind.
  onTestFinished(async () => {
    await daemon.kill('SIGTERM');
  });
  return { on, flags, daemon };
}

const lines = (on: Ground) => {
  const path = join(on.session('demo'), 'work', 'lines');
  return existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n') : [];
};
const count = Array.from({ length: STEPS }, (_, n) => String(n + 1));

/** The process of the worker that has the session. */
function workerOf(on: Ground): number {
  const folder = join(on.session('demo'), 'events');
  const newest = readdirSync(folder)
    .filter((name) => name.startsWith('owner-'))
    .sort((a, b) => Number.parseInt(a.slice(6), 10) - Number.parseInt(b.slice(6), 10))
    .at(-1);
  return JSON.parse(readFileSync(join(folder, newest ?? ''), 'utf8')).pid;
}

describe.skipIf(missing.length > 0)('a cluster on one machine', () => {
  test('a worker killed in the middle of a plan: the plan goes on at another one, and no command runs twice', async () => {
    const { on, daemon, flags } = await cluster();
    on.sh('demo', 'mkdir -p inbox && echo "write lines" > inbox/1.md');
    await until(() => existsSync(join(on.session('demo'), 'work', 'began-4')), 'the fourth command');
    const first = workerOf(on);
    process.kill(first, 'SIGKILL');
    expect(statusOf(await on.file('demo', 'outbox/1.md'))).toBe('done');
    expect(lines(on)).toEqual(count);
    expect(workerOf(on)).not.toBe(first);
    expect(readdirSync(join(on.session('demo'), 'outbox')).filter((name) => name.endsWith('.md'))).toEqual(['1.md']);
    expect(await daemon.kill('SIGTERM')).toBe(0);
    // Afterwards a daemon alone serves the same files.
    const alone = await on.start(flags);
    await on.say('demo', '2.md', '/status');
    await alone.kill('SIGTERM');
  });

  test('what the workers spend is counted together: a budget is not overspent by more than one call', async () => {
    let asked = 0;
    const usage = { prompt_tokens: 10, completion_tokens: 990, total_tokens: 1000 };
    const server = await modelServer(() => {
      asked += 1;
      return { text: 'looking', calls: [{ name: 'list_files', args: '{"path":"."}' }], usage };
    });
    const on = ground();
    on.config({ limits: { repeats: 0, iterations: 1000 }, budgets: { day: { tokens: 60_000 } } });
    const daemon = await on.start(['--cluster-dev', '--base-url', server.url, '--model', 'm']);
    onTestFinished(async () => {
      await daemon.kill('SIGTERM');
    });
    const sessions = Array.from({ length: 6 }, (_, place) => `s${place}`);
    for (const name of sessions) on.sh(name, 'mkdir -p inbox && echo "look around" > inbox/1.md');
    const waits = (name: string) =>
      on.events(name).some((event) => event.type === 'model.failed' && event.kind === 'budget');
    await until(() => sessions.every(waits), 'every session to wait', 60_000);
    // The last call may exceed what was held back for it.
    expect(asked * 1000).toBeLessThanOrEqual(61_000);
    expect(asked).toBeGreaterThan(3);
    const counted = await until(
      () => inFolder(join(on.root, 'usage')).map((day) => readFileSync(join(on.root, 'usage', day), 'utf8'))[0],
      'the file of the day',
    );
    // A session for which nothing was left has made no call.
    expect(JSON.parse(counted).entries.length).toBeGreaterThan(1);
  }, 90_000);

  test('a stop reaches the call in flight, whatever worker has the session', async () => {
    const { on } = await cluster();
    on.sh('demo', 'mkdir -p inbox && echo "write lines" > inbox/1.md');
    await until(() => lines(on).length >= 1, 'the first line');
    await on.say('demo', '2.md', '/stop');
    expect(lines(on).length).toBeLessThan(STEPS);
  });
});

test('a worker without a gateway, and a daemon alone in a workspace of a cluster, are refused', async () => {
  const on = ground();
  const engine = ['--engine', 'http://127.0.0.1:9'];
  const worker = on.launch(['--role', 'worker', ...engine, '--listen', '127.0.0.1:9']);
  expect(await worker.ended).toBe(1);
  expect(worker.stderr()).toContain('start its gateway first');
  const gateway = await on.start(['--role', 'gateway', ...engine]);
  await gateway.kill('SIGTERM');
  const alone = on.launch();
  expect(await alone.ended).toBe(1);
  expect(alone.stderr()).toContain('is served by a cluster');
});

test('the configurations in deploy/ have the lines of the balancer that is tested here', () => {
  const config = balancerConfig({ balancer: 9300, workers: [] });
  const lines = config.slice(config.indexOf('backend workers')).trim().split('\n');
  expect(lines.length).toBeGreaterThan(5);
  for (const name of ['haproxy.cfg', 'haproxy-dns.cfg', 'kubernetes.yaml']) {
    const text = readFileSync(join('deploy', name), 'utf8');
    expect(lines.filter((line) => !text.includes(line.trim()))).toEqual([]);
  }
});

test('addresses that are none, and a worker without one, are refused as a command line', async () => {
  const on = ground();
  const cases = [
    [['--role', 'gateway', '--engine', 'engine:8080'], '--engine takes an address'],
    [['--role', 'worker', '--engine', 'http://e:1'], 'A worker needs --listen'],
    [
      ['--role', 'worker', '--engine', 'http://e:1', '--listen', 'a:1', '--files-late', '-1'],
      '--files-late takes seconds',
    ],
    [['--role', 'gateway'], 'engine'],
    [['--cluster-dev', '--role', 'gateway', '--engine', 'http://e:1'], 'mutually exclusive'],
  ] as const;
  for (const [flags, words] of cases) {
    const daemon = on.launch([...flags]);
    expect(await daemon.ended).toBe(2);
    expect(daemon.stderr()).toContain(words);
  }
});
