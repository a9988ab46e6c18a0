import { join } from 'node:path';
import { startAgentd } from './children.ts';
import { drop, FREE, makeSession, makeWorkspace, replied, startLoop } from './contender.ts';
import { crowd, taskOf } from './crowd.ts';
import { type Endpoint, type Exchange, openEndpoint } from './endpoint.ts';
import { count, median, mib, ms, quantile, table } from './numbers.ts';
import type { Setting } from './setting.ts';

const SIZES = {
  quick: [{ sessions: 32, iterations: 5 }],
  usual: [
    { sessions: 64, iterations: 50 },
    { sessions: 512, iterations: 20 },
  ],
};

/** Results of a crowd: iterations per second, times from answer to next request, slowest ÷ median session, memory. */
type Done = { perSecond: number; gaps: number[]; fairness: number; rss: number };

/** Many concurrent sessions and a model that answers at once: agentd, and as many bare loops in one process. */
export async function load({ folder, size, nodeFlags }: Setting): Promise<string> {
  const rows: string[][] = [];
  for (const { sessions, iterations } of SIZES[size === 'quick' ? 'quick' : 'usual']) {
    const endpoint = await openEndpoint();
    const own = await sessionsAtOnce(join(folder, `agentd-${sessions}`), endpoint, sessions, iterations, nodeFlags);
    const floor = await loopsAtOnce(join(folder, `loop-${sessions}`), endpoint, sessions, iterations);
    endpoint.close();
    rows.push(row(sessions, iterations, own, floor));
  }
  const head = ['sessions', 'iterations each', 'agentd per s', 'bare loop per s', 'to the floor'];
  const between = ['agentd p50 / p99', 'loop p50 / p99', 'fairness', 'loop fairness', 'peak RSS', 'loop RSS'];
  return [
    'load: iterations a second of all sessions; end of an answer to the next request, ms; slowest ÷ median session; MiB',
    '',
    table([...head, ...between], rows),
    '',
    'target: 512 sessions at 70 % of the bare loop at least, slowest ÷ median at most 3',
  ].join('\n');
}

function row(sessions: number, iterations: number, own: Done, floor: Done): string[] {
  const both = ({ gaps }: Done): string => `${ms(median(gaps))} / ${ms(quantile(gaps, 0.99))}`;
  return [
    count(sessions),
    String(iterations),
    ...[own, floor].map(({ perSecond }) => count(perSecond)),
    `${((100 * own.perSecond) / floor.perSecond).toFixed(0)} %`,
    ...[own, floor].map(both),
    ...[own, floor].map(({ fairness }) => fairness.toFixed(2)),
    ...[own, floor].map(({ rss }) => mib(rss)),
  ];
}

async function sessionsAtOnce(
  workspace: string,
  endpoint: Endpoint,
  sessions: number,
  iterations: number,
  nodeFlags: string[],
): Promise<Done> {
  makeWorkspace(workspace, { ...FREE, concurrency: { runs: sessions } });
  const folders = Array.from({ length: sessions }, (_, n) => makeSession(workspace, `s${n}`));
  const daemon = await startAgentd(workspace, endpoint.url, nodeFlags);
  const { gathered, each } = crowd(endpoint, sessions, { iterations });
  for (const [n, folder] of folders.entries()) drop(folder, 'task', taskOf(n));
  const began = await gathered;
  for (const folder of folders) await replied(folder, 'task');
  const rss = daemon.peakRss();
  await daemon.stop();
  return doneOf(each(), began, rss);
}

async function loopsAtOnce(folder: string, endpoint: Endpoint, sessions: number, iterations: number): Promise<Done> {
  const setup = endpoint.setup();
  const child = await startLoop(folder, endpoint, 'bare');
  const { gathered, each } = crowd(endpoint, sessions, { iterations });
  const tasks = Array.from({ length: sessions }, (_, n) => taskOf(n));
  await child.ask(JSON.stringify({ ...setup, tasks }));
  const rss = child.peakRss();
  await child.stop();
  return doneOf(each(), await gathered, rss);
}

/** Measures from when all had sent a request until the last request of each session. */
function doneOf(sessions: Exchange[][], began: number, rss: number): Done {
  const took = sessions.map((exchanges) => (exchanges.at(-1)?.arrived ?? Number.NaN) - began);
  const gaps = sessions.flatMap((exchanges) =>
    exchanges.slice(1).map(({ arrived }, place) => arrived - (exchanges[place]?.answered ?? Number.NaN)),
  );
  const slowest = Math.max(...took);
  return { perSecond: gaps.length / (slowest / 1000), gaps, fairness: slowest / median(took), rss };
}
