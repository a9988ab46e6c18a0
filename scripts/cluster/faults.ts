import { execFileSync, spawn } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ms } from '../bench/numbers.ts';
import { type Cluster, ownerOf, type Part, until } from './cluster.ts';
import type { Ledger } from './ledger.ts';

export type Trial = { root: string; cluster: Cluster; ledger: Ledger };

const COMMANDS = 6;
/** A world of its own for a worker, in which it sees other mounts. */
const OWN_MOUNTS = ['unshare', '-m', '--propagation', 'private'];
let tasks = 0;

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

async function restart(cluster: Cluster, place: number, surroundings?: object): Promise<void> {
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
    cluster.engine.signal('SIGKILL');
    await cluster.engine.ended;
    const name = `engine-${tasks++}`;
    ledger.task(name, 2);
    await until(() => cluster.gateway.printed().includes('does not take wakes'), 'the gateway to say so');
    cluster.engine = await cluster.startEngine();
    await ledger.ended([name]);
    return 'the gateway said so and kept the message; it was answered once the engine was back';
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
