import { type ChildProcess, spawn } from 'node:child_process';
import { createWriteStream, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { arch, platform } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { UserError } from '../../base/user-error.ts';

const WORKERS = 2;
const START_MS = 30_000;
const POLL_MS = 50;
const RESPAWN_MS = 1000;

type Ports = { ingress: number; admin: number; node: number; balancer: number; workers: number[] };

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
  const ports = await freePorts();
  // Once no worker is left, a daemon alone may serve the workspace again.
  const family = openFamily(folder, () => rmSync(join(root, '.agentd', 'cluster.json'), { force: true }));
  const at = (port: number) => `http://127.0.0.1:${port}`;
  const agentd = (...words: string[]) => [
    ...process.execArgv,
    ...[process.argv[1] ?? '', '--workspace', root, ...flags, '--engine', at(ports.ingress), ...words],
  ];
  try {
    family.start('engine', engine, ['--base-dir', join(folder, 'engine')], engineEnv(ports));
    await family.until('the engine', () => isOk(`${at(ports.admin)}/health`));
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
    const register = { method: 'POST', body: JSON.stringify({ uri: at(ports.balancer) }) };
    await family.until('the balancer', () =>
      isOk(`${at(ports.admin)}/deployments`, { ...register, headers: { 'content-type': 'application/json' } }),
    );
  } catch (error) {
    await family.stop();
    throw error;
  }
  return family;
}

/** The binary of the engine, beside the package that names it. The package's own program is not used. */
function findEngine(): string {
  try {
    const wrapper = createRequire(import.meta.url).resolve('@restatedev/restate-server/package.json');
    return createRequire(wrapper).resolve(`@restatedev/restate-server-${platform()}-${arch()}/bin/restate-server`);
  } catch {
    throw new UserError(
      '--cluster-dev needs the Restate server, which is not installed. Install it beside agentd, without its scripts, one of which reports the installation to its makers: npm install --no-save --ignore-scripts @restatedev/restate-server@1.7.12 (with -g in place of --no-save, if agentd was installed so)',
    );
  }
}

function findBalancer(): string {
  const folders = [...(process.env['PATH'] ?? '').split(':'), '/usr/sbin', '/usr/local/sbin'];
  const found = folders.map((folder) => join(folder, 'haproxy')).find((path) => existsSync(path));
  if (found !== undefined) return found;
  throw new UserError('--cluster-dev needs HAProxy, which was not found. Install the package haproxy of your system.');
}

const engineEnv = ({ ingress, admin, node }: Ports): NodeJS.ProcessEnv => ({
  RESTATE_DISABLE_TELEMETRY: 'true',
  DO_NOT_TRACK: '1',
  RESTATE_LOG_FORMAT: 'compact',
  RESTATE_LISTEN_MODE: 'tcp',
  RESTATE_DEFAULT_NUM_PARTITIONS: '8',
  RESTATE_BIND_ADDRESS: `127.0.0.1:${node}`,
  RESTATE_ADVERTISED_ADDRESS: `http://127.0.0.1:${node}`,
  RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
  RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
  RESTATE_WORKER__INVOKER__HTTP2_KEEP_ALIVE_INTERVAL: '2s',
});

/** A frozen worker still has its sockets answered by the kernel, so its health is asked of the worker itself. */
const balancerConfig = ({ balancer, workers }: Ports): string => `global
  maxconn 4000
defaults
  mode http
  timeout connect 1s
  timeout client 25h
  timeout server 25h
  timeout check 1s
  retries 3
  option redispatch
frontend engine
  bind 127.0.0.1:${balancer} proto h2
  default_backend workers
backend workers
  balance leastconn
  option httpchk
  http-check send meth GET uri /health ver HTTP/2 hdr host worker
  default-server check check-proto h2 inter 500ms fall 2 rise 1 proto h2 on-marked-down shutdown-sessions
${workers.map((port, n) => `  server worker${n + 1} 127.0.0.1:${port}`).join('\n')}
`;

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

async function isOk(url: string, options: RequestInit = {}): Promise<boolean> {
  try {
    return (await fetch(url, options)).ok;
  } catch {
    return false;
  }
}

async function freePorts(): Promise<Ports> {
  const servers = await Promise.all(Array.from({ length: 4 + WORKERS }, () => listenAnywhere()));
  const [ingress = 0, admin = 0, node = 0, balancer = 0, ...workers] = servers.map(({ port }) => port);
  await Promise.all(servers.map(({ close }) => close()));
  return { ingress, admin, node, balancer, workers };
}

function listenAnywhere(): Promise<{ port: number; close: () => Promise<void> }> {
  return new Promise((resolve, reject) => {
    const server = createServer().once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      const port = typeof address === 'object' ? (address?.port ?? 0) : 0;
      resolve({ port, close: () => new Promise((done) => server.close(() => done())) });
    });
  });
}
