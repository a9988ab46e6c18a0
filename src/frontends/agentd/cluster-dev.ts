import { type ChildProcess, spawn } from 'node:child_process';
import { createWriteStream, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../../base/user-error.ts';
import {
  balancerConfig,
  engineEnv,
  findBalancer,
  findEngine,
  freePorts,
  isAnswered,
  registerWorkers,
} from './cluster-parts.ts';

const WORKERS = 2;
const START_MS = 30_000;
const POLL_MS = 50;
const RESPAWN_MS = 1000;

/**
 * A cluster on this machine for trying it out: the engine, a balancer, a gateway and two workers, each a process of its
 * own. Resolves when sessions are served. A worker that ends is started again; if another part ends, all do. The engine
 * begins without data each time: the event logs say what is left to do.
 */
export async function startClusterDev(root: string, flags: string[]): Promise<{ stop(): Promise<void> }> {
  const [engine, balancer] = [findEngine(), findBalancer()];
  const folder = join(root, '.agentd', 'cluster-dev');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const ports = await freePorts(WORKERS);
  // Once no worker is left, a daemon alone may serve the workspace again.
  const family = openFamily(folder, () => rmSync(join(root, '.agentd', 'cluster.json'), { force: true }));
  const at = (port: number) => `http://127.0.0.1:${port}`;
  const agentd = (...words: string[]) => [
    ...process.execArgv,
    ...[process.argv[1] ?? '', '--workspace', root, ...flags, '--engine', at(ports.ingress), ...words],
  ];
  try {
    family.start('engine', engine, ['--base-dir', join(folder, 'engine')], engineEnv(ports));
    await family.until('the engine', () => isAnswered(`${at(ports.admin)}/health`));
    await family.startReady('gateway', process.execPath, agentd('--role', 'gateway'));
    await Promise.all(
      ports.workers.map((port, n) => {
        const role = agentd('--role', 'worker', '--listen', `127.0.0.1:${port}`);
        return family.startReady(`worker ${n + 1}`, process.execPath, role);
      }),
    );
    const config = join(folder, 'haproxy.cfg');
    writeFileSync(config, balancerConfig(ports));
    family.start('balancer', balancer, ['-db', '-f', config]);
    await family.until('the balancer', () => registerWorkers(at(ports.admin), at(ports.balancer)));
  } catch (error) {
    await family.stop();
    throw error;
  }
  return family;
}

/** The processes of the cluster. Unless they are agentd, what they print goes to a file in `folder`. */
function openFamily(folder: string, onEnd: () => void) {
  const running = new Map<string, ChildProcess>();
  let isGatewayOurs = false;
  let isStopping = false;

  function start(name: string, program: string, argv: string[], env?: NodeJS.ProcessEnv, onReady?: () => void): void {
    const isOurs = program === process.execPath;
    const child = spawn(program, argv, {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', isOurs ? 'inherit' : 'pipe'],
    });
    running.set(name, child);
    process.stderr.write(`${name}: process ${child.pid}\n`);
    if (isOurs) child.stdout?.on('data', (text) => String(text).startsWith('READY') && onReady?.());
    else {
      const log = createWriteStream(join(folder, `${name}.log`));
      for (const stream of [child.stdout, child.stderr]) stream?.pipe(log, { end: false });
    }
    child.once('error', (error) => endAll(`${name} could not be started: ${error.message}`));
    child.once('exit', (code, signal) => {
      running.delete(name);
      if (isStopping) return;
      const how = `${name} ended (${signal ?? `exit code ${code}`})`;
      if (!name.startsWith('worker')) return endAll(`${how}; see ${folder}`, code ?? 1);
      process.stderr.write(`${how}; its sessions go on at the other one, and it is started again.\n`);
      setTimeout(() => isStopping || start(name, program, argv, env), RESPAWN_MS);
    });
  }

  function endAll(why: string, exit = 1): void {
    if (isStopping) return;
    process.stderr.write(`${why}. The cluster is stopped.\n`);
    void stop().then(() => process.exit(exit));
  }

  /** In order: nothing new is handed out, what runs ends, and then the engine does. */
  async function stop(): Promise<void> {
    isStopping = true;
    for (const part of [/^(gateway|worker)/, /./]) {
      const ending = [...running].filter(([name]) => part.test(name)).map(([, child]) => child);
      await Promise.all(ending.map(end));
    }
    if (isGatewayOurs) onEnd();
  }

  async function until(what: string, isThere: () => Promise<boolean>): Promise<void> {
    for (const end = performance.now() + START_MS; performance.now() < end && !isStopping; await sleep(POLL_MS))
      if (await isThere()) return;
    throw new UserError(`${what} did not start within ${START_MS / 1000} s; what it printed is in ${folder}.`);
  }

  return {
    start,
    stop,
    until,
    async startReady(name: string, program: string, argv: string[]): Promise<void> {
      let isReady = false;
      start(name, program, argv, undefined, () => {
        isReady = true;
      });
      await until(name, async () => isReady);
      isGatewayOurs ||= name === 'gateway';
    },
  };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  await ended;
}
