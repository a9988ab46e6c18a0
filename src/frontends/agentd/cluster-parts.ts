import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { arch, platform } from 'node:os';
import { join } from 'node:path';
import { UserError } from '../../base/user-error.ts';

/** Where the parts of a cluster on this machine listen, on loopback. */
export type ClusterPorts = { ingress: number; admin: number; node: number; balancer: number; workers: number[] };

/** The binary of the engine, beside the package that names it. The package's own program is not used. */
export function findEngine(): string {
  try {
    const wrapper = createRequire(import.meta.url).resolve('@restatedev/restate-server/package.json');
    return createRequire(wrapper).resolve(`@restatedev/restate-server-${platform()}-${arch()}/bin/restate-server`);
  } catch {
    throw new UserError(
      '--cluster-dev needs the Restate server, which is not installed. Install it beside agentd, without its scripts, one of which reports the installation to its makers: npm install --no-save --ignore-scripts @restatedev/restate-server@1.7.12 (with -g in place of --no-save, if agentd was installed so)',
    );
  }
}

/** The binary of the balancer. */
export function findBalancer(): string {
  const folders = [...(process.env['PATH'] ?? '').split(':'), '/usr/sbin', '/usr/local/sbin'];
  const found = folders.map((folder) => join(folder, 'haproxy')).find((path) => existsSync(path));
  if (found !== undefined) return found;
  throw new UserError('--cluster-dev needs HAProxy, which was not found. Install the package haproxy of your system.');
}

/** The settings of an engine of one node. */
export const engineEnv = ({ ingress, admin, node }: ClusterPorts): NodeJS.ProcessEnv => ({
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
  // A session at work is one call.
  RESTATE_WORKER__INVOKER__CONCURRENT_INVOCATIONS_LIMIT: '100000',
});

/**
 * The balancer's configuration, as deploy/haproxy.cfg has it for several hosts. A frozen worker still has its
 * connections accepted by the kernel, so its health is asked of the worker itself. A session stays with one worker.
 */
export const balancerConfig = ({ balancer, workers }: Pick<ClusterPorts, 'balancer' | 'workers'>): string => `global
  maxconn 4000
defaults
  mode http
  timeout connect 1s
  timeout client 25h
  timeout server 25h
  timeout check 3s
  retries 3
  option redispatch 1
frontend engine
  bind 127.0.0.1:${balancer} proto h2
  default_backend workers
backend workers
  balance hash req.hdr(x-restate-invocation-id),bytes(0,16)
  hash-type consistent
  hash-balance-factor 110
  option httpchk
  http-check disable-on-404
  http-check connect proto h1
  http-check send meth GET uri /health
  default-server check inter 500ms fall 1 rise 1 proto h2 on-marked-down shutdown-sessions
${workers.map((port, n) => `  server worker${n + 1} 127.0.0.1:${port} port ${port + 1}`).join('\n')}
`;

/** Ports that nobody uses now; so is the one after each worker's, for its health check. */
export async function freePorts(workers: number): Promise<ClusterPorts> {
  const open: OpenPort[] = [];
  try {
    const pairs: number[] = [];
    while (pairs.length < workers) {
      const first = await listenOn(0);
      open.push(first);
      const next = await listenOn(first.port + 1).catch(() => undefined);
      if (!next) continue;
      open.push(next);
      pairs.push(first.port);
    }
    const others = await Promise.all(Array.from({ length: 4 }, () => listenOn(0)));
    open.push(...others);
    const [ingress = 0, admin = 0, node = 0, balancer = 0] = others.map(({ port }) => port);
    return { ingress, admin, node, balancer, workers: pairs };
  } finally {
    await Promise.all(open.map(({ close }) => close()));
  }
}

type OpenPort = { port: number; close: () => Promise<void> };

function listenOn(wanted: number): Promise<OpenPort> {
  return new Promise((resolve, reject) => {
    const server = createServer().once('error', reject);
    server.listen(wanted, '127.0.0.1', () => {
      const address = server.address();
      const port = typeof address === 'object' ? (address?.port ?? 0) : 0;
      resolve({ port, close: () => new Promise((done) => server.close(() => done())) });
    });
  });
}

/** Whether a request is answered well. */
export async function isAnswered(url: string, options: RequestInit = {}): Promise<boolean> {
  try {
    return (await fetch(url, options)).ok;
  } catch {
    return false;
  }
}

/** Tells the engine where the workers are: at the balancer. False if either does not answer yet. */
export function registerWorkers(admin: string, balancer: string): Promise<boolean> {
  return isAnswered(`${admin}/deployments`, {
    method: 'POST',
    body: JSON.stringify({ uri: balancer }),
    headers: { 'content-type': 'application/json' },
  });
}
