import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ms } from '../bench/numbers.ts';
import { type Cluster, ownerOf, type Part, type Surroundings, startCluster, until } from './cluster.ts';
import { type Ledger, openLedger } from './ledger.ts';

export type Trial = { root: string; cluster: Cluster; ledger: Ledger };

const COMMANDS = 6;
/** A world of its own for a worker, in which it sees other mounts. */
const OWN_MOUNTS = ['unshare', '-m', '--propagation', 'private'];
/** How late a file system may be, in s. */
const LATE_S = 3;
let tasks = 0;

/** A cluster in a workspace of its own below `base`, and its sessions' ledger. `nodes`: of the engine. */
export async function openTrial(base: string, workers: number, nodes = 1): Promise<Trial> {
  const root = join(base, 'w');
  mkdirSync(root, { recursive: true, mode: 0o700 });
  const settings = { version: 1, sandbox: 'none', disk: { min_free_mb: 1, reserve_mb: 1 } };
  writeFileSync(join(root, 'agentd.json'), JSON.stringify(settings));
  const ledger = await openLedger(root, join(base, 'ledger'));
  const flags = ['--base-url', ledger.url, '--model', 'm', '--log-level', 'info'];
  return { root, ledger, cluster: await startCluster({ root, folder: join(base, 'parts'), flags, workers, nodes }) };
}

/** A session that has begun its work, the worker that has it, and that worker's place. */
async function atWork({ cluster, ledger }: Trial, kind: string) {
  const name = `${kind}-${tasks++}`;
  const folder = ledger.task(name, COMMANDS);
  await until(() => ledger.lines(name).length >= 2, `the first lines of ${name}`);
  const pid = ownerOf(folder);
  const place = cluster.workers.findIndex((one) => one.pid === pid);
  const worker = cluster.workers[place];
  if (!worker) throw new Error(`no worker has the process ${pid}`);
  return { name, folder, worker, place };
}

/** Waits for another owner than that process; returns how long it took. */
async function passedOn(folder: string, from: Part): Promise<string> {
  const began = performance.now();
  await until(() => ownerOf(folder) !== from.pid, 'another owner');
  return `another worker had its session after ${ms(performance.now() - began)} ms`;
}

/** Starts one worker anew in other surroundings, has some sessions served beside it, and ends it again. */
async function odd(
  trial: Trial,
  kind: string,
  surroundings: { wrap?: string[]; env?: NodeJS.ProcessEnv },
  strike: (worker: Part) => Promise<() => void> | (() => void),
): Promise<string> {
  const { cluster, ledger } = trial;
  const place = cluster.workers.length - 1;
  const [program, ...words] = surroundings.wrap ?? [];
  if (program !== undefined) run(program, ...words, 'true');
  await restart(cluster, place, surroundings);
  const worker = cluster.workers[place];
  if (!worker) throw new Error('no such worker');
  const undo = await strike(worker);
  const names = Array.from({ length: 8 }, (_, n) => `${kind.replaceAll(' ', '-')}-${tasks++}-${n}`);
  for (const name of names) ledger.task(name, 3, 0.1);
  try {
    await ledger.ended(names);
  } finally {
    undo();
  }
  const served = names.filter((name) => ownerOf(join(trial.root, '.sessions', name)) === worker.pid).length;
  const said = worker
    .printed()
    .split('\n')
    .findLast((line) => / takes no sessions: /.test(line));
  await restart(cluster, place);
  return `8 of 8 sessions ended, ${served} of them at that worker${said ? `; it said:${said.split('takes no sessions:')[1]}` : ''}`;
}

async function restart(cluster: Cluster, place: number, surroundings?: Surroundings): Promise<void> {
  const worker = cluster.workers[place];
  worker?.signal('SIGKILL');
  await worker?.ended;
  await cluster.startWorker(place, surroundings);
  // Until the balancer knows of it.
  await sleep(1500);
}

/** Something that this fault needs is not on this machine. */
export class NotRun extends Error {}

function run(program: string, ...words: string[]): void {
  try {
    execFileSync(program, words, { stdio: 'pipe' });
  } catch (error) {
    throw new NotRun(`${program} does not work here: ${error instanceof Error ? error.message : error}`);
  }
}

/** Faults of the system calls of a process, made by strace while it runs. */
async function injected(worker: Part, ...words: string[]): Promise<() => void> {
  run('strace', '-V');
  const tracer = spawn('strace', ['-f', '-qq', '-o', '/dev/null', '-p', String(worker.pid), ...words]);
  await sleep(1000);
  return () => void tracer.kill('SIGTERM');
}

/** A worker that has another machine's identity: what runs there cannot be seen from elsewhere. */
function otherMachine(root: string, place: number): { wrap: string[] } {
  const id = join(root, '..', `boot-${place}`);
  writeFileSync(id, `0000000${place}-1111-4222-8333-444444444444\n`);
  const inside = `mount --bind ${id} /proc/sys/kernel/random/boot_id && exec "$0" "$@"`;
  return { wrap: [...OWN_MOUNTS, 'sh', '-c', inside] };
}

/** The process groups of a session's commands. */
function groupsOf(folder: string): number[] {
  const calls = readdirSync(join(folder, 'tools'));
  return calls
    .map((call) => join(folder, 'tools', call, 'pid'))
    .filter((path) => existsSync(path))
    .map((path) => Number.parseInt(readFileSync(path, 'utf8'), 10));
}

/** The environment of a process whose clock is off. Without libfaketime the run says so. */
function skewed(by: string): NodeJS.ProcessEnv {
  const library = execFileSync('sh', ['-c', 'ls /usr/lib/*/faketime/libfaketime.so.1 || true'], {
    encoding: 'utf8',
  }).trim();
  if (library === '') throw new NotRun('libfaketime is not installed');
  return { LD_PRELOAD: library, FAKETIME: by, FAKETIME_DONT_FAKE_MONOTONIC: '1' };
}

/** Each fault: strikes, waits until all have ended, and says what was seen. Throws if something does not hold. */
export const FAULTS: Record<string, (trial: Trial) => Promise<string>> = {
  async kill(trial) {
    const { name, folder, worker, place } = await atWork(trial, 'kill');
    worker.signal('SIGKILL');
    const seen = await passedOn(folder, worker);
    await trial.ledger.ended([name]);
    await trial.cluster.startWorker(place);
    return seen;
  },
  async freeze(trial) {
    const { name, folder, worker } = await atWork(trial, 'freeze');
    worker.signal('SIGSTOP');
    const seen = await passedOn(folder, worker);
    worker.signal('SIGCONT');
    await trial.ledger.ended([name]);
    return `${seen}; then it woke up, and nothing it did counted`;
  },
  /** The packets between one worker and engine and balancer are dropped; the worker still has its files and its model. */
  async partition(trial) {
    const { name, folder, worker, place } = await atWork(trial, 'partition');
    const port = trial.cluster.ports.workers[place] ?? 0;
    const rules = (how: string) => {
      for (const end of ['--dport', '--sport'])
        run('iptables', how, 'INPUT', '-p', 'tcp', end, `${port}:${port + 1}`, '-j', 'DROP');
    };
    rules('-A');
    const seen = await passedOn(folder, worker);
    await trial.ledger.ended([name]);
    rules('-D');
    await until(() => worker.printed().includes('took the session over'), 'the lost worker to notice');
    return `${seen}; the lost one saw its claim and stopped`;
  },
  /** Each worker mounts the workspace through a file system that shows names and sizes up to 3 s late. */
  async 'late files'(trial) {
    const { cluster, ledger, root } = trial;
    const late = `attr_timeout=${LATE_S},entry_timeout=${LATE_S},negative_timeout=${LATE_S},nonempty`;
    const inside = `bindfs -o ${late} ${root} ${root} && cd / && exec "$0" "$@"`;
    run('bindfs', '--version');
    for (const place of cluster.workers.keys())
      await restart(cluster, place, {
        wrap: [...OWN_MOUNTS, 'sh', '-c', inside],
        words: ['--files-late', `${LATE_S}`],
      });
    const names = Array.from({ length: 8 }, (_, n) => `late-${tasks++}-${n}`);
    for (const name of names) ledger.task(name, 3, 0.5);
    const { folder, worker, name } = await atWork(trial, 'late');
    worker.signal('SIGSTOP');
    const seen = await passedOn(folder, worker);
    worker.signal('SIGCONT');
    await ledger.ended([...names, name]);
    for (const place of cluster.workers.keys()) await restart(cluster, place);
    return `frozen: ${seen}; 9 of 9 sessions ended`;
  },
  /** Workers of different machines: a lost one's command is awaited by its heartbeat, and nothing runs twice. */
  async 'other host'(trial) {
    const { cluster, ledger } = trial;
    for (const place of cluster.workers.keys()) await restart(cluster, place, otherMachine(trial.root, place));
    const seen: string[] = [];
    for (const isWhole of [false, true]) {
      const name = `host-${tasks++}`;
      const folder = ledger.task(name, 2, 4);
      await until(() => ledger.lines(name).length >= 1, `the first line of ${name}`);
      const worker = cluster.workers.find(({ pid }) => pid === ownerOf(folder));
      if (!worker) throw new Error('no worker has it');
      worker.signal('SIGKILL');
      if (isWhole) for (const group of groupsOf(folder)) process.kill(-group, 'SIGKILL');
      await ledger.ended([name]);
      const log = readdirSync(join(folder, 'events')).map((one) => join(folder, 'events', one));
      const isKnown = !log.some((path) => readFileSync(path, 'utf8').includes('"outcome":"unknown"'));
      if (isKnown === isWhole) throw new Error(`the end of its command is ${isKnown ? 'known' : 'unknown'}`);
      seen.push(
        `${isWhole ? 'with its commands' : 'alone'}: the end of its command is ${isKnown ? 'known' : 'unknown'}`,
      );
      await cluster.startWorker(
        cluster.workers.indexOf(worker),
        otherMachine(trial.root, cluster.workers.indexOf(worker)),
      );
    }
    for (const place of cluster.workers.keys()) await restart(cluster, place);
    return `a worker of another machine was lost ${seen.join('; ')}`;
  },
  async stop(trial) {
    const { name, folder, worker, place } = await atWork(trial, 'stop');
    worker.signal('SIGTERM');
    const seen = await passedOn(folder, worker);
    if ((await worker.ended) !== 0) throw new Error('it did not stop in order');
    await trial.ledger.ended([name]);
    await trial.cluster.startWorker(place);
    return seen;
  },
  'read-only': (trial) =>
    odd(trial, 'read-only', { wrap: OWN_MOUNTS }, (worker) => {
      const inside = ['-t', String(worker.pid), '-m'];
      run('nsenter', ...inside, 'mount', '--bind', trial.root, trial.root);
      run('nsenter', ...inside, 'mount', '-o', 'remount,bind,ro', trial.root);
      return () => {};
    }),
  'not mounted': (trial) =>
    odd(trial, 'not-mounted', { wrap: OWN_MOUNTS }, (worker) => {
      run('nsenter', '-t', String(worker.pid), '-m', 'mount', '-t', 'tmpfs', 'tmpfs', trial.root);
      return () => {};
    }),
  'missing folder': (trial) =>
    odd(trial, 'missing-folder', { wrap: OWN_MOUNTS }, (worker) => {
      run('nsenter', '-t', String(worker.pid), '-m', 'mount', '-t', 'tmpfs', 'tmpfs', join(trial.root, '.sessions'));
      return () => {};
    }),
  'full disk': (trial) =>
    odd(trial, 'full-disk', {}, (worker) =>
      injected(worker, '-e', 'trace=fdatasync,pwrite64', '-e', 'inject=fdatasync,pwrite64:error=ENOSPC'),
    ),
  'slow disk': (trial) =>
    odd(trial, 'slow-disk', {}, (worker) =>
      injected(worker, '-e', 'trace=fsync,fdatasync', '-e', 'inject=fsync,fdatasync:delay_enter=200000'),
    ),
  'clock skew': async (trial) => {
    const seen: string[] = [];
    for (const skew of ['+3600s', '-3600s'])
      seen.push(`${skew}: ${await odd(trial, 'clock-skew', { env: skewed(skew) }, () => () => {})}`);
    return seen.join('; ');
  },
  async 'engine down'({ cluster, ledger }) {
    cluster.engines[0]?.signal('SIGKILL');
    await cluster.engines[0]?.ended;
    const name = `engine-${tasks++}`;
    ledger.task(name, 2);
    await until(() => cluster.gateway.printed().includes('does not take wakes'), 'the gateway to say so');
    await cluster.startEngine();
    await ledger.ended([name]);
    return 'the gateway said so and kept the message; it was answered once the engine was back';
  },
  /** An engine of three nodes: each is killed in turn, while sessions are at work and others begin. */
  async 'engine node'({ root }) {
    const base = join(root, '..', 'three');
    const own = await openTrial(base, 2, 3);
    const seen: string[] = [];
    try {
      for (const n of own.cluster.engines.keys()) {
        const { name } = await atWork(own, 'node');
        const names = Array.from({ length: 6 }, (_, place) => `new-${tasks++}-${place}`);
        own.cluster.engines[n]?.signal('SIGKILL');
        const killed = performance.now();
        const first = names.map((one) => own.ledger.nextRequest(one));
        for (const one of names) own.ledger.task(one, 2);
        const asked = await Promise.all(first);
        await own.ledger.ended([name, ...names]);
        seen.push(ms(Math.max(...asked) - killed));
        await own.cluster.startEngine(n);
        await sleep(2000);
      }
      const wrong = own.ledger.wrong();
      if (wrong.length > 0) throw new Error(wrong.join('; '));
    } finally {
      await own.cluster.stop();
    }
    return `each of three killed: the last of 6 new sessions asked its model after ${seen.join(', ')} ms; all 21 ended`;
  },
  async 'two gateways'({ cluster }) {
    const second = cluster.launch('gateway 2', ['--role', 'gateway']);
    const code = await second.ended;
    if (code !== 3) throw new Error(`the second one ended with ${code}: ${second.printed()}`);
    return `the second one ended with 3: ${second.printed().trim().split('\n').at(-1)}`;
  },
  async 'other version'(trial) {
    const { cluster, ledger, root } = trial;
    const { name, worker } = await atWork(trial, 'version');
    const file = join(root, '.agentd', 'cluster.json');
    const mark = readFileSync(file, 'utf8');
    writeFileSync(file, mark.replace(/"reducers": "\w+"/, '"reducers": "0123456789abcdef"'));
    await ledger.ended([name]);
    await until(() => worker.printed().includes('takes no sessions'), 'the worker to say so');
    const late = `version-${tasks++}`;
    ledger.task(late, 2);
    const refused = cluster.launch('worker 9', [
      '--role',
      'worker',
      '--listen',
      `127.0.0.1:${cluster.ports.workers.at(-1)}`,
    ]);
    if ((await refused.ended) !== 1) throw new Error('a worker of another version started');
    if (existsSync(join(root, '.sessions', late, 'outbox', '1.md'))) throw new Error('it was served nevertheless');
    writeFileSync(file, mark);
    await ledger.ended([late]);
    return 'what ran ended, nothing new was taken, and a worker that starts is refused';
  },
  async 'session removed'({ ledger, root }) {
    const name = `removed-${tasks++}`;
    const folder = ledger.task(name, 50);
    await until(() => ledger.lines(name).length >= 2, 'its first lines');
    rmSync(folder, { recursive: true, force: true });
    await sleep(3000);
    const before = ledger.lines(name).length;
    await sleep(1500);
    if (ledger.lines(name).length !== before) throw new Error('it goes on without its folder');
    ledger.forget();
    return `its work ended; ${existsSync(join(root, '.sessions', name)) ? 'its folder is back' : 'its folder is gone'}`;
  },
};
