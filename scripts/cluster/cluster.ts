import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  balancerConfig,
  type ClusterPorts,
  engineEnv,
  findBalancer,
  findEngine,
  freePorts,
  isAnswered,
  registerWorkers,
} from '../../src/frontends/agentd/cluster-parts.ts';

const AGENTD = resolve('dist/agentd.js');
const START_MS = 30_000;
const POLL_MS = 10;
/** A cluster may get so many workers more than it begins with. */
const SPARE_WORKERS = 4;

const alive = new Set<ChildProcess>();
// A run that fails must not leave its processes behind.
process.on('exit', () => {
  for (const child of alive) child.kill('SIGKILL');
});
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => process.exit(1));

/** A process of the cluster. */
export type Part = {
  name: string;
  pid: number;
  /** What it has printed so far. */
  printed(): string;
  signal(signal: NodeJS.Signals): void;
  /** Resolves with exit code or signal. */
  ended: Promise<number | string>;
};

/** Words before the command line of a process, and more environment, to run it in a world of its own. */
export type Surroundings = { wrap?: string[]; env?: NodeJS.ProcessEnv; root?: string; words?: string[] };

/** A cluster on this machine, each part a process that the run can kill, freeze, or start again. */
export type Cluster = {
  ports: ClusterPorts;
  /** The nodes of the engine. */
  engines: Part[];
  gateway: Part;
  workers: Part[];
  balancer(): Part;
  /** The folder of engine and balancer. */
  folder: string;
  /** Starts the node of the engine with that number again. */
  startEngine(n?: number): Promise<Part>;
  startGateway(): Promise<Part>;
  /** Starts the worker with that number, or one more, and waits for READY. */
  startWorker(n?: number, surroundings?: Surroundings): Promise<Part>;
  /** Starts a process of agentd in that role without waiting for anything. */
  launch(name: string, words: string[], surroundings?: Surroundings): Part;
  stop(): Promise<void>;
};

/** `nodes`: of the engine. More than one are behind the balancer, which asks those that answer. */
export type ClusterOptions = { root: string; folder: string; flags: string[]; workers: number; nodes?: number };

/** Starts engine, balancer, gateway and workers; resolves when sessions are served. */
export async function startCluster({
  root,
  folder,
  flags,
  workers: count,
  nodes = 1,
}: ClusterOptions): Promise<Cluster> {
  mkdirSync(folder, { recursive: true });
  const all = [await freePorts(count + SPARE_WORKERS)];
  while (all.length < nodes) all.push(await freePorts(0));
  const [ports = await freePorts(0)] = all;
  const ingress = all[1]?.balancer ?? ports.ingress;
  const at = (port: number): string => `http://127.0.0.1:${port}`;
  const launch = (
    name: string,
    own: string[],
    { wrap = [], env = {}, root: other = root, words = [] }: Surroundings = {},
  ) => {
    const [program = '', ...rest] = [...wrap, process.execPath, AGENTD, '--workspace', other];
    return startPart(name, program, [...rest, ...flags, '--engine', at(ingress), ...own, ...words], env);
  };
  const ready = async (part: Part): Promise<Part> => {
    await until(() => part.printed().includes('READY '), `${part.name} to be ready: ${part.printed()}`, part);
    return part;
  };
  const engines: Part[] = [];
  const startEngine = async (n = 0): Promise<Part> => {
    const env = { ...engineEnv(all[n] ?? ports), ...(nodes > 1 && nodeEnv(n, all)) };
    const part = startPart(`engine ${n + 1}`, findEngine(), ['--base-dir', join(folder, `engine-${n}`)], env);
    engines[n] = part;
    await until(() => isAnswered(`${at((all[n] ?? ports).admin)}/health`), 'the engine', part);
    return part;
  };
  await Promise.all(all.map((_, n) => startEngine(n)));
  writeFileSync(join(folder, 'haproxy.cfg'), `${balancerConfig(ports)}${nodes > 1 ? ingressConfig(ingress, all) : ''}`);
  const balancer = startPart('balancer', findBalancer(), ['-db', '-f', join(folder, 'haproxy.cfg')]);
  const startGateway = () => ready(launch('gateway', ['--role', 'gateway']));
  const workers: Part[] = [];
  const startWorker = async (n = workers.length, surroundings?: Surroundings): Promise<Part> => {
    const listen = ['--role', 'worker', '--listen', `127.0.0.1:${ports.workers[n]}`];
    const part = await ready(launch(`worker ${n + 1}`, listen, surroundings));
    workers[n] = part;
    return part;
  };
  const cluster: Cluster = {
    ...{ ports, engines, workers, folder, balancer: () => balancer, startEngine, startGateway, startWorker, launch },
    gateway: await startGateway(),
    async stop() {
      const parts = [cluster.gateway, ...workers, balancer, ...engines];
      for (const part of parts) part.signal('SIGCONT');
      for (const part of parts) part.signal('SIGKILL');
      await Promise.all(parts.map(({ ended }) => ended));
    },
  };
  await Promise.all(Array.from({ length: count }, (_, n) => startWorker(n)));
  await until(() => registerWorkers(at(ports.admin), at(ports.balancer)), 'the balancer', balancer);
  return cluster;
}

/** What a node of an engine of several needs beside the settings of one alone. */
const nodeEnv = (n: number, all: ClusterPorts[]): NodeJS.ProcessEnv => ({
  ...{ RESTATE_CLUSTER_NAME: 'agentd', RESTATE_NODE_NAME: `node-${n}`, RESTATE_DEFAULT_REPLICATION: '2' },
  RESTATE_AUTO_PROVISION: String(n === 0),
  RESTATE_METADATA_CLIENT__ADDRESSES: `[${all.map(({ node }) => `http://127.0.0.1:${node}`)}]`,
});

/** Gives what is for the engine to a node that answers, as deploy/haproxy.cfg does. */
const ingressConfig = (port: number, all: ClusterPorts[]): string => `listen ingress
  bind 127.0.0.1:${port}
  option httpchk GET /restate/health
  default-server check inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions
${all.map(({ ingress }, n) => `  server node${n + 1} 127.0.0.1:${ingress}`).join('\n')}
`;

function startPart(name: string, program: string, words: string[], env: NodeJS.ProcessEnv = {}): Part {
  const { PATH, HOME } = process.env;
  const child = spawn(program, words, { stdio: ['ignore', 'pipe', 'pipe'], env: { PATH, HOME, ...env } });
  alive.add(child);
  let printed = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (data: Buffer) => {
      printed = `${printed}${data}`.slice(-100_000);
    });
  const ended = new Promise<number | string>((end) => {
    child.once('error', (error) => end(error.message));
    child.once('close', (code, signal) => {
      alive.delete(child);
      end(code ?? signal ?? 'gone');
    });
  });
  return { name, pid: child.pid ?? 0, printed: () => printed, signal: (signal) => void child.kill(signal), ended };
}

/** Waits until something holds; fails with what was waited for, or when that part has ended. */
export async function until(
  holds: () => boolean | Promise<boolean>,
  what: string,
  part?: Part,
  ms = START_MS,
): Promise<void> {
  let end: number | string | undefined;
  void part?.ended.then((how) => {
    end = how;
  });
  for (const last = performance.now() + ms; ; await sleep(POLL_MS)) {
    if (await holds()) return;
    if (end !== undefined) throw new Error(`${part?.name} ended with ${end}: ${part?.printed()}`);
    if (performance.now() > last) throw new Error(`waited ${ms} ms for ${what}${part ? `: ${part.printed()}` : ''}`);
  }
}

/** The process that has the newest claim on a session; undefined if nobody has claimed it. */
export function ownerOf(session: string): number | undefined {
  const folder = join(session, 'events');
  try {
    const epochs = readdirSync(folder).flatMap((name) => Number(/^owner-(\d+)\.json$/.exec(name)?.[1]) || []);
    return JSON.parse(readFileSync(join(folder, `owner-${Math.max(...epochs)}.json`), 'utf8')).pid;
  } catch {
    return undefined;
  }
}
