import { join } from 'node:path';
import { type Cluster, ownerOf, startCluster, until } from '../cluster/cluster.ts';
import { startAgentd } from './children.ts';
import { agentd, drop, FREE, makeSession, makeWorkspace, replied, TASK, TRUE } from './contender.ts';
import { crowd, taskOf } from './crowd.ts';
import { type Endpoint, MARK, openEndpoint } from './endpoint.ts';
import { count, median, ms, quantile, table, times } from './numbers.ts';
import type { Setting } from './setting.ts';

const WORKERS = 4;
const SIZES = {
  quick: { iterations: 50, rounds: 2, wakes: 30, kills: 5, freezes: 1, crowd: 200 },
  usual: { iterations: 100, rounds: 4, wakes: 200, kills: 20, freezes: 3, crowd: 2000 },
};
/** Latency of the model while workers are lost. */
const THINK_MS = 200;
const ENDLESS = 1_000_000;
/** Messages until every worker has run its code often enough. */
const WARM_UP = 20;

/** A cluster of four workers next to a daemon alone, on one machine. */
export async function cluster({ folder, size }: Setting): Promise<string> {
  const sizes = SIZES[size === 'quick' ? 'quick' : 'usual'];
  const endpoint = await openEndpoint();
  const root = join(folder, 'cluster');
  makeWorkspace(root, { ...FREE, concurrency: { runs: sizes.crowd } });
  const flags = ['--base-url', endpoint.url, '--model', 'bench', '--log-level', 'warn'];
  const many = await startCluster({ root, folder: join(folder, 'parts'), flags, workers: WORKERS });
  const rows = [
    ...(await overhead(join(folder, 'alone'), root, endpoint, sizes)),
    await wakes(join(folder, 'idle'), root, endpoint, sizes.wakes),
    await losses(root, endpoint, many, 'SIGKILL', sizes.kills),
    await losses(root, endpoint, many, 'SIGSTOP', sizes.freezes),
    ...(await crowded(root, endpoint, many, sizes.crowd)),
  ];
  await many.stop();
  endpoint.close();
  return ['cluster: four workers on this machine', '', table(['what', 'n', 'measured', 'target'], rows)].join('\n');
}

/** End of an answer to the next request: in the cluster, and with a daemon alone, alternating. */
async function overhead(
  alone: string,
  root: string,
  endpoint: Endpoint,
  { iterations, rounds }: { iterations: number; rounds: number },
): Promise<string[][]> {
  const local = await agentd(alone, endpoint, []);
  let tasks = 0;
  const runs = [
    async () => {
      const session = makeSession(root, `overhead-${tasks++}`);
      drop(session, 'task', TASK);
      await replied(session, 'task');
    },
    local.run,
  ];
  const gaps: number[][] = [[], []];
  for (let round = 0; round <= rounds; round++) {
    for (const [place, run] of runs.entries()) {
      endpoint.script((index) => (index < iterations ? TRUE : { text: 'That was all.' }));
      await run();
      const { exchanges } = endpoint;
      const own = exchanges.slice(1).map(({ arrived }, n) => arrived - (exchanges[n]?.answered ?? Number.NaN));
      // The first round warms up.
      if (round > 0) gaps[place]?.push(...own);
    }
  }
  await local.stop();
  const [here = [], there = []] = gaps;
  const both = `${ms(median(here))} ms, alone ${ms(median(there))} ms`;
  return [
    [
      'overhead of an iteration, median',
      count(here.length),
      `${times(median(here), median(there))}: ${both}`,
      '≤ 1.3 ×',
    ],
  ];
}

/** A message to the request that follows: in the cluster, where an idle session is closed, and alone, where it is open. */
async function wakes(alone: string, root: string, endpoint: Endpoint, wanted: number): Promise<string[]> {
  endpoint.script(() => ({ text: 'That was all.' }));
  makeWorkspace(alone, FREE);
  const local = await startAgentd(alone, endpoint.url, []);
  const sessions = [makeSession(root, 'wakes'), makeSession(alone, 'wakes')];
  const took: number[][] = [[], []];
  for (let n = -WARM_UP; n < wanted; n++) {
    for (const [place, session] of sessions.entries()) {
      const arrival = endpoint.arrival();
      const dropped = drop(session, `m${n}`, `Message ${n}.`);
      const at = await arrival;
      await replied(session, `m${n}`);
      if (n >= 0) took[place]?.push(at - dropped);
    }
  }
  await local.stop();
  const [here = [], there = []] = took;
  return [
    'message to request, p50 / p90',
    count(wanted),
    `${pair(here, 0.9)}, alone ${pair(there, 0.9)}`,
    '≤ 25 ms p50',
  ];
}

const pair = (numbers: number[], share: number): string =>
  `${ms(median(numbers))} / ${ms(quantile(numbers, share))} ms`;

/** A worker at work is killed or frozen: the time until another one asks the model for its session. */
async function losses(
  root: string,
  endpoint: Endpoint,
  many: Cluster,
  signal: 'SIGKILL' | 'SIGSTOP',
  wanted: number,
): Promise<string[]> {
  const took: number[] = [];
  for (let n = 0; n < wanted; n++) {
    const session = makeSession(root, `${signal.toLowerCase()}-${n}`);
    const one = crowd(endpoint, 1, { iterations: ENDLESS, thinkMs: THINK_MS });
    drop(session, 'task', `${TASK} This is ${MARK}${signal}${n}.`);
    await one.gathered;
    await until(() => endpoint.exchanges.length > 4, 'some iterations');
    const owner = ownerOf(session);
    const place = many.workers.findIndex(({ pid }) => pid === owner);
    const worker = many.workers[place];
    if (!worker) throw new Error(`No worker has the process ${owner}`);
    worker.signal(signal);
    const lost = performance.now();
    await until(() => ownerOf(session) !== owner, 'another owner');
    const claimed = performance.now();
    await until(() => endpoint.exchanges.some(({ arrived }) => arrived > claimed), 'its first request');
    took.push((endpoint.exchanges.find(({ arrived }) => arrived > claimed)?.arrived ?? Number.NaN) - lost);
    endpoint.script(() => ({ text: 'That was all.' }));
    worker.signal('SIGCONT');
    await replied(session, 'task');
    if (signal === 'SIGKILL') await many.startWorker(place);
  }
  return signal === 'SIGKILL'
    ? ['`kill -9` of a worker to the next request, p50 / p99', count(wanted), pair(took, 0.99), '≤ 2 s / ≤ 5 s']
    : ['a frozen worker to the next request, p50 / max', count(wanted), pair(took, 1), '≤ 5 s'];
}

/** Many sessions at once: whether they get on alike, and whether a worker that is added takes some of the load. */
async function crowded(root: string, endpoint: Endpoint, many: Cluster, sessions: number): Promise<string[][]> {
  const folders = Array.from({ length: sessions }, (_, n) => makeSession(root, `crowd-${n}`));
  const all = crowd(endpoint, sessions, { iterations: 4, thinkMs: THINK_MS });
  const began = performance.now();
  for (const [n, session] of folders.entries()) drop(session, 'task', taskOf(n));
  const gathered = (await all.gathered) - began;
  const owners = new Map<number | undefined, number>();
  for (const session of folders) {
    const owner = ownerOf(session);
    owners.set(owner, (owners.get(owner) ?? 0) + 1);
  }
  for (const session of folders) await replied(session, 'task');
  // All wait for the first request of the last one, and compete from then on.
  const each = all.each().filter(([first]) => /^\d+$/.test(first?.who ?? ''));
  const took = each.map((exchanges) => (exchanges.at(-1)?.answered ?? Number.NaN) - began - gathered);
  const shares = [...owners.values()];
  const spread = `${Math.min(...shares)} to ${Math.max(...shares)} sessions a worker`;
  const fairness = times(Math.max(...took), Math.min(...took));
  return [
    [
      'sessions at once: slowest to fastest',
      count(sessions),
      `${fairness}; ${spread}; all asked after ${ms(gathered)} ms`,
      '≤ 2 ×',
    ],
    await added(root, endpoint, many),
  ];
}

async function added(root: string, endpoint: Endpoint, many: Cluster): Promise<string[]> {
  endpoint.script(() => ({ text: 'That was all.' }));
  const began = performance.now();
  const worker = await many.startWorker();
  const ready = performance.now();
  let last = 0;
  for (let n = 0; performance.now() - ready < 20_000; n++) {
    const session = makeSession(root, `added-${n}`);
    drop(session, 'task', TASK);
    await replied(session, 'task');
    last = performance.now();
    if (ownerOf(session) === worker.pid) break;
  }
  const text = `${ms(last - ready)} ms after READY (${ms(ready - began)} ms from its start)`;
  return ['an added worker runs its first session', '1', text, '≤ 5 s'];
}
