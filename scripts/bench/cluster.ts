import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Cluster, ownerOf, startCluster, until } from '../cluster/cluster.ts';
import { FAULTS } from '../cluster/faults.ts';
import { kills } from '../cluster/kills.ts';
import { openTrial } from '../cluster/trial.ts';
import { startAgentd } from './children.ts';
import { agentd, drop, FREE, makeSession, makeWorkspace, replied, TASK, TRUE } from './contender.ts';
import { crowd, taskOf } from './crowd.ts';
import { type Endpoint, openEndpoint } from './endpoint.ts';
import { count, median, ms, quantile, table, times } from './numbers.ts';
import type { Setting } from './setting.ts';

const WORKERS = 4;
const SIZES = {
  quick: { iterations: 50, rounds: 2, wakes: 30, kills: 5, crowd: 200 },
  usual: { iterations: 100, rounds: 4, wakes: 200, kills: 20, crowd: 2000 },
};
/** Latency of the model while workers are lost. */
const THINK_MS = 200;
const ENDLESS = 1_000_000;
/** Messages until every worker has run its code often enough. */
const WARM_UP = 100;
/** How long many sessions compete, in ms for each: several rounds of all of them. */
const WINDOW_MS = 50;

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
    ...(await losses(join(folder, 'lost'), sizes.kills)),
    await added(root, endpoint, many),
    await crowded(root, endpoint, sizes.crowd),
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
  for (let round = 0; round < WORKERS + rounds; round++) {
    for (const [place, run] of runs.entries()) {
      endpoint.script((index) => (index < iterations ? TRUE : { text: 'That was all.' }));
      await run();
      const { exchanges } = endpoint;
      const own = exchanges.slice(1).map(({ arrived }, n) => arrived - (exchanges[n]?.answered ?? Number.NaN));
      // Each round is another worker's; until all have run one, none counts.
      if (round >= WORKERS) gaps[place]?.push(...own);
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

/** A worker at work is killed or frozen: the time until another one has its session. */
async function losses(base: string, wanted: number): Promise<string[][]> {
  const trial = await openTrial(base, WORKERS);
  const killed = await kills(trial, wanted);
  const frozen = (await FAULTS['freeze']?.(trial)) ?? '';
  await trial.cluster.stop();
  return [
    ['`kill -9` of a worker', count(wanted), killed.text, '≤ 2 s / ≤ 5 s'],
    ['a frozen worker', '1', frozen, '≤ 5 s'],
  ];
}

/** Many sessions at once: whether they get on alike. */
async function crowded(root: string, endpoint: Endpoint, sessions: number): Promise<string[]> {
  const folders = Array.from({ length: sessions }, (_, n) => makeSession(root, `crowd-${n}`));
  const all = crowd(endpoint, sessions, { iterations: ENDLESS, thinkMs: THINK_MS });
  const began = performance.now();
  for (const [n, session] of folders.entries()) drop(session, 'task', taskOf(n));
  const gathered = (await all.gathered) - began;
  const owners = new Map<number | undefined, number>();
  for (const session of folders) {
    const owner = ownerOf(session);
    owners.set(owner, (owners.get(owner) ?? 0) + 1);
  }
  await sleep(sessions * WINDOW_MS);
  // Whoever gets less than its share has made fewer requests by now.
  const turns = all.each().filter(([first]) => /^\d+$/.test(first?.who ?? ''));
  const counts = turns.map((exchanges) => exchanges.length);
  endpoint.script(() => ({ text: 'That was all.' }));
  for (const session of folders) await replied(session, 'task');
  const spread = `${Math.min(...owners.values())} to ${Math.max(...owners.values())} sessions a worker`;
  const fairness = `${times(Math.max(...counts), Math.min(...counts))} (${Math.min(...counts)} to ${Math.max(...counts)})`;
  return [
    'sessions at once: most requests of one to fewest',
    count(sessions),
    `${fairness}; ${spread}; all asked after ${ms(gathered)} ms`,
    '≤ 2 ×',
  ];
}

/** A worker that is added to those that wait: the time until it has a session. It is stopped afterwards. */
async function added(root: string, endpoint: Endpoint, many: Cluster): Promise<string[]> {
  endpoint.script(() => ({ text: 'That was all.' }));
  const began = performance.now();
  const worker = await many.startWorker();
  const ready = performance.now();
  let last = Number.NaN;
  // A new session is given to any worker.
  for (let round = 0; Number.isNaN(last) && performance.now() - ready < 20_000; round++) {
    const sessions = Array.from({ length: 20 }, (_, n) => makeSession(root, `added-${round}-${n}`));
    for (const session of sessions) drop(session, 'task', TASK);
    await until(() => sessions.every((session) => ownerOf(session) !== undefined), 'their workers');
    if (sessions.some((session) => ownerOf(session) === worker.pid)) last = performance.now();
    for (const session of sessions) await replied(session, 'task');
  }
  worker.signal('SIGTERM');
  await worker.ended;
  many.workers.pop();
  const text = `${ms(last - ready)} ms after READY (${ms(ready - began)} ms from its start)`;
  return ['an added worker runs its first session', '1', text, '≤ 5 s'];
}
