import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { startFollower } from './children.ts';
import { agentd, type Contender, FREE, loop, READ, TRUE } from './contender.ts';
import { type Endpoint, openEndpoint, type Say } from './endpoint.ts';
import { count, mean, median, ms, quantile, table, times } from './numbers.ts';
import type { Setting } from './setting.ts';

const WARM_UP = 30;
const CALLS: Record<string, Say> = { 'shell: true': TRUE, 'read_file, 60 bytes': READ };

/** Rounds for each number of iterations; short runs are repeated more often. */
const ROUNDS = {
  quick: [{ iterations: 50, rounds: 1 }],
  usual: [
    { iterations: 50, rounds: 4 },
    { iterations: 200, rounds: 2 },
    { iterations: 1000, rounds: 1 },
  ],
};
type Rounds = (typeof ROUNDS)['usual'];

/** The time from the end of the model's answer to the next request: agentd and two loops, alternating. */
export async function overhead({ folder, size, nodeFlags }: Setting): Promise<string> {
  const endpoint = await openEndpoint();
  const own = await agentd(join(folder, 'agentd'), endpoint, nodeFlags);
  const contenders = [
    own,
    await loop(join(folder, 'bare'), endpoint, 'bare'),
    await loop(join(folder, 'durable'), endpoint, 'durable'),
  ];
  const plan = size === 'quick' ? ROUNDS.quick : ROUNDS.usual;
  const rows: string[][] = [];
  for (const [name, call] of Object.entries(CALLS)) {
    const measured = await everyRound(contenders, endpoint, call, plan);
    for (const { iterations, gaps } of measured) rows.push(row(name, iterations, gaps));
  }
  const head = ['call', 'iterations', 'n', 'agentd', 'bare loop', 'loop, synced', 'to bare', 'to synced'];
  const lines = [
    'overhead: end of an answer to the next request, ms, median / p90',
    '',
    table(head, rows),
    '',
    'target: at most 1.25 × the synced loop, and flat over iterations',
    '',
    await added({ folder, size, nodeFlags }, endpoint, own),
  ];
  for (const one of contenders) await one.stop();
  endpoint.close();
  return lines.join('\n');
}

function row(name: string, iterations: number, [own = [], bare = [], durable = []]: number[][]): string[] {
  const ratios = [times(median(own), median(bare)), times(median(own), median(durable))];
  return [name, count(iterations), count(own.length), both(own), both(bare), both(durable), ...ratios];
}

const both = (gaps: number[]): string => `${ms(median(gaps))} / ${ms(quantile(gaps, 0.9))}`;

/** What a sandbox, and `agentctl otel` beside the daemon, add to an iteration. */
async function added({ folder, size, nodeFlags }: Setting, endpoint: Endpoint, plain: Contender): Promise<string> {
  const rows: string[][] = [];
  const measure = async (what: string, call: Say, pair: readonly Contender[], rounds: number) => {
    const plan = [{ iterations: 32, rounds: size === 'quick' ? 1 : rounds }];
    const [measured] = await everyRound(pair, endpoint, call, plan);
    const [inside = [], outside = []] = measured?.gaps ?? [];
    const ratios = [times(median(inside), median(outside)), times(mean(inside), mean(outside))];
    rows.push([what, count(inside.length), both(inside), both(outside), ...ratios]);
  };
  if (spawnSync('bwrap', ['--ro-bind', '/', '/', '--unshare-all', 'true']).status === 0) {
    const within = await agentd(join(folder, 'sandboxed'), endpoint, nodeFlags, { ...FREE, sandbox: 'bwrap' });
    await measure('`shell` of `true` in bubblewrap', TRUE, [within, plain], 6);
    await within.stop();
  }
  // Two of the same age, since a daemon becomes faster with its first calls.
  const pair = [];
  for (const name of ['followed', 'alone']) pair.push(await agentd(join(folder, name), endpoint, nodeFlags));
  const follower = await startFollower(join(folder, 'followed'));
  await measure('`read_file`, `agentctl otel` follows', READ, pair, 32);
  await follower.stop();
  await measure('`read_file`, nothing follows', READ, pair, 32);
  for (const one of pair) await one.stop();
  return [
    'overhead of a sandbox, where bubblewrap works, and of telemetry, ms, median / p90',
    '',
    table(['call', 'n', 'with it', 'without', 'ratio of medians', 'of means'], rows),
  ].join('\n');
}

/** The gaps of every contender, after a warm-up. They alternate, so that a busy moment affects all. */
async function everyRound(contenders: readonly Contender[], endpoint: Endpoint, call: Say, plan: Rounds) {
  const measured: Array<{ iterations: number; gaps: number[][] }> = [];
  for (const one of contenders) await gapsOf(one, endpoint, call, WARM_UP);
  for (const { iterations, rounds } of plan) {
    const gaps: number[][] = contenders.map(() => []);
    for (let round = 0; round < rounds; round++) {
      const turns = [...contenders.entries()];
      for (const [place, one] of round % 2 === 0 ? turns : turns.reverse())
        gaps[place]?.push(...(await gapsOf(one, endpoint, call, iterations)));
    }
    measured.push({ iterations, gaps });
  }
  return measured;
}

async function gapsOf(contender: Contender, endpoint: Endpoint, call: Say, iterations: number): Promise<number[]> {
  endpoint.script((index) => (index < iterations ? call : { text: 'That was all.' }));
  await contender.run();
  const { exchanges } = endpoint;
  return exchanges.slice(1).map(({ arrived }, index) => arrived - (exchanges[index]?.answered ?? Number.NaN));
}
