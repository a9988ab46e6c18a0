import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ms } from '../bench/numbers.ts';
import { ownerOf, until } from './cluster.ts';
import {
  atWork,
  groupsOf,
  injected,
  nameOf,
  OWN_MOUNTS,
  odd,
  openTrial,
  otherMachine,
  passedOn,
  restart,
  run,
  skewed,
  type Trial,
} from './trial.ts';

/** How late a file system may be, in s. */
const LATE_S = 3;

/** Each fault: strikes, waits until all have ended, and says what was seen. Throws if something does not hold. */
export const FAULTS: Record<string, (trial: Trial) => Promise<string>> = {
  async kill(trial) {
    const { name, folder, worker, place } = await atWork(trial, 'kill');
    worker.signal('SIGKILL');
    const seen = await passedOn(folder, worker);
    await trial.tasks.ended([name]);
    await trial.cluster.startWorker(place);
    return seen;
  },
  async freeze(trial) {
    const { name, folder, worker } = await atWork(trial, 'freeze');
    worker.signal('SIGSTOP');
    const seen = await passedOn(folder, worker);
    worker.signal('SIGCONT');
    await trial.tasks.ended([name]);
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
    await trial.tasks.ended([name]);
    rules('-D');
    await until(() => worker.printed().includes('took the session over'), 'the lost worker to notice');
    return `${seen}; the lost one saw its claim and stopped`;
  },
  /** Each worker mounts the workspace through a file system that shows names and sizes up to 3 s late. */
  async 'late files'(trial) {
    const { cluster, tasks, root } = trial;
    const late = `attr_timeout=${LATE_S},entry_timeout=${LATE_S},negative_timeout=${LATE_S},nonempty`;
    const inside = `bindfs -o ${late} ${root} ${root} && cd / && exec "$0" "$@"`;
    run('bindfs', '--version');
    for (const place of cluster.workers.keys())
      await restart(cluster, place, {
        wrap: [...OWN_MOUNTS, 'sh', '-c', inside],
        words: ['--files-late', `${LATE_S}`],
      });
    const names = Array.from({ length: 8 }, () => nameOf('late'));
    for (const name of names) tasks.send(name, 3, 0.5);
    const { folder, worker, name } = await atWork(trial, 'late');
    worker.signal('SIGSTOP');
    const seen = await passedOn(folder, worker);
    worker.signal('SIGCONT');
    await tasks.ended([...names, name]);
    for (const place of cluster.workers.keys()) await restart(cluster, place);
    return `frozen: ${seen}; 9 of 9 sessions ended`;
  },
  /** Workers of different machines: a lost one's command is awaited by its heartbeat, and nothing runs twice. */
  async 'other host'(trial) {
    const { cluster, tasks } = trial;
    for (const place of cluster.workers.keys()) await restart(cluster, place, otherMachine(trial.root, place));
    const seen: string[] = [];
    for (const isWhole of [false, true]) {
      const name = nameOf('host');
      const folder = tasks.send(name, 2, 4);
      await until(() => tasks.lines(name).length >= 1, `the first line of ${name}`);
      const worker = cluster.workers.find(({ pid }) => pid === ownerOf(folder));
      if (!worker) throw new Error('no worker has it');
      worker.signal('SIGKILL');
      if (isWhole) for (const group of groupsOf(folder)) process.kill(-group, 'SIGKILL');
      await tasks.ended([name]);
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
    await trial.tasks.ended([name]);
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
  async 'engine down'({ cluster, tasks }) {
    cluster.engines[0]?.signal('SIGKILL');
    await cluster.engines[0]?.ended;
    const name = nameOf('engine');
    tasks.send(name, 2);
    await until(() => cluster.gateway.printed().includes('does not take wakes'), 'the gateway to say so');
    await cluster.startEngine();
    await tasks.ended([name]);
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
        const names = Array.from({ length: 6 }, () => nameOf('new'));
        own.cluster.engines[n]?.signal('SIGKILL');
        const killed = performance.now();
        const first = names.map((one) => own.tasks.nextRequest(one));
        for (const one of names) own.tasks.send(one, 2);
        const asked = await Promise.all(first);
        await own.tasks.ended([name, ...names]);
        seen.push(ms(Math.max(...asked) - killed));
        await own.cluster.startEngine(n);
        await sleep(2000);
      }
      const wrong = own.tasks.wrong();
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
    const { cluster, tasks, root } = trial;
    const { name, worker } = await atWork(trial, 'version');
    const file = join(root, '.agentd', 'cluster.json');
    const mark = readFileSync(file, 'utf8');
    writeFileSync(file, mark.replace(/"reducers": "\w+"/, '"reducers": "0123456789abcdef"'));
    await tasks.ended([name]);
    await until(() => worker.printed().includes('takes no sessions'), 'the worker to say so');
    const late = nameOf('version');
    tasks.send(late, 2);
    const refused = cluster.launch('worker 9', [
      '--role',
      'worker',
      '--listen',
      `127.0.0.1:${cluster.ports.workers.at(-1)}`,
    ]);
    if ((await refused.ended) !== 1) throw new Error('a worker of another version started');
    if (existsSync(join(root, '.sessions', late, 'outbox', '1.md'))) throw new Error('it was served nevertheless');
    writeFileSync(file, mark);
    await tasks.ended([late]);
    return 'what ran ended, nothing new was taken, and a worker that starts is refused';
  },
};
