import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ms } from '../bench/numbers.ts';
import { type Cluster, ownerOf, type Part, type Surroundings, startCluster, until } from './cluster.ts';
import { openTasks, type Tasks } from './tasks.ts';

export type Trial = { root: string; cluster: Cluster; tasks: Tasks };

const COMMANDS = 6;
/** A world of its own for a worker, in which it sees other mounts. */
export const OWN_MOUNTS = ['unshare', '-m', '--propagation', 'private'];
let named = 0;
/** A name that no session has yet. */
export const nameOf = (kind: string): string => `${kind.replaceAll(' ', '-')}-${named++}`;

/** A cluster in a workspace of its own below `base`, and its sessions' tasks. `nodes`: of the engine. */
export async function openTrial(base: string, workers: number, nodes = 1): Promise<Trial> {
  const root = join(base, 'w');
  mkdirSync(root, { recursive: true, mode: 0o700 });
  const settings = { version: 1, sandbox: 'none', disk: { min_free_mb: 1, reserve_mb: 1 } };
  writeFileSync(join(root, 'agentd.json'), JSON.stringify(settings));
  const tasks = await openTasks(root, join(base, 'tasks'));
  const flags = ['--base-url', tasks.url, '--model', 'm', '--log-level', 'info'];
  return { root, tasks, cluster: await startCluster({ root, folder: join(base, 'parts'), flags, workers, nodes }) };
}

/** A session that has begun its work, the worker that has it, and that worker's place. */
export async function atWork({ cluster, tasks }: Trial, kind: string) {
  const name = nameOf(kind);
  const folder = tasks.send(name, COMMANDS);
  await until(() => tasks.lines(name).length >= 2, `the first lines of ${name}`);
  const pid = ownerOf(folder);
  const place = cluster.workers.findIndex((one) => one.pid === pid);
  const worker = cluster.workers[place];
  if (!worker) throw new Error(`no worker has the process ${pid}`);
  return { name, folder, worker, place };
}

/** Waits for another owner than that process; returns how long it took. */
export async function passedOn(folder: string, from: Part): Promise<string> {
  const began = performance.now();
  await until(() => ownerOf(folder) !== from.pid, 'another owner');
  return `another worker had its session after ${ms(performance.now() - began)} ms`;
}

/** Starts one worker anew in other surroundings, has some sessions served beside it, and ends it again. */
export async function odd(
  trial: Trial,
  kind: string,
  surroundings: { wrap?: string[]; env?: NodeJS.ProcessEnv },
  strike: (worker: Part) => Promise<() => void> | (() => void),
): Promise<string> {
  const { cluster, tasks } = trial;
  const place = cluster.workers.length - 1;
  const [program, ...words] = surroundings.wrap ?? [];
  if (program !== undefined) run(program, ...words, 'true');
  await restart(cluster, place, surroundings);
  const worker = cluster.workers[place];
  if (!worker) throw new Error('no such worker');
  const undo = await strike(worker);
  const names = Array.from({ length: 8 }, () => nameOf(kind));
  for (const name of names) tasks.send(name, 3, 0.1);
  try {
    await tasks.ended(names);
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

export async function restart(cluster: Cluster, place: number, surroundings?: Surroundings): Promise<void> {
  const worker = cluster.workers[place];
  worker?.signal('SIGKILL');
  await worker?.ended;
  await cluster.startWorker(place, surroundings);
  // Until the balancer knows of it.
  await sleep(1500);
}

/** Something that this fault needs is not on this machine. */
export class NotRun extends Error {}

export function run(program: string, ...words: string[]): void {
  try {
    execFileSync(program, words, { stdio: 'pipe' });
  } catch (error) {
    throw new NotRun(`${program} does not work here: ${error instanceof Error ? error.message : error}`);
  }
}

/** Faults of the system calls of a process, made by strace while it runs. */
export async function injected(worker: Part, ...words: string[]): Promise<() => void> {
  run('strace', '-V');
  const tracer = spawn('strace', ['-f', '-qq', '-o', '/dev/null', '-p', String(worker.pid), ...words]);
  await sleep(1000);
  return () => void tracer.kill('SIGTERM');
}

/** A worker that has another machine's identity: what runs there cannot be seen from elsewhere. */
export function otherMachine(root: string, place: number): { wrap: string[] } {
  const id = join(root, '..', `boot-${place}`);
  writeFileSync(id, `0000000${place}-1111-4222-8333-444444444444\n`);
  const inside = `mount --bind ${id} /proc/sys/kernel/random/boot_id && exec "$0" "$@"`;
  return { wrap: [...OWN_MOUNTS, 'sh', '-c', inside] };
}

/** The process groups of a session's commands. */
export function groupsOf(folder: string): number[] {
  const calls = readdirSync(join(folder, 'tools'));
  return calls
    .map((call) => join(folder, 'tools', call, 'pid'))
    .filter((path) => existsSync(path))
    .map((path) => Number.parseInt(readFileSync(path, 'utf8'), 10));
}

/** The environment of a process whose clock is off. Without libfaketime the run says so. */
export function skewed(by: string): NodeJS.ProcessEnv {
  const library = execFileSync('sh', ['-c', 'ls /usr/lib/*/faketime/libfaketime.so.1 || true'], {
    encoding: 'utf8',
  }).trim();
  if (library === '') throw new NotRun('libfaketime is not installed');
  return { LD_PRELOAD: library, FAKETIME: by, FAKETIME_DONT_FAKE_MONOTONIC: '1' };
}
