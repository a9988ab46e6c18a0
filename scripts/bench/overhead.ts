import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { agentd, type Contender, FREE, loop, READ, TRUE } from './contender.ts';
import { type Endpoint, openEndpoint, type Say } from './endpoint.ts';
import { count, median, mib, ms, quantile, table, times } from './numbers.ts';
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
  const contenders = [
    await agentd(join(folder, 'agentd'), endpoint, nodeFlags),
    await loop(join(folder, 'bare'), endpoint, 'bare'),
    await loop(join(folder, 'durable'), endpoint, 'durable'),
  ];
  const plan = size === 'quick' ? ROUNDS.quick : ROUNDS.usual;
  const rows: string[][] = [];
  const flat: string[] = [];
  for (const [name, call] of Object.entries(CALLS)) {
    const measured = await everyRound(contenders, endpoint, call, plan);
    for (const { iterations, gaps } of measured) rows.push(row(name, iterations, gaps));
    flat.push(
      `${name}: ${measured.map(({ iterations, gaps }) => `${ms(median(gaps[0] ?? []))} (${iterations})`).join(', ')}`,
    );
  }
  const memory = contenders.map((one) => mib(one.rss()));
  const head = ['call', 'iterations', 'n', 'agentd', 'bare loop', 'loop, synced', 'to bare', 'to synced'];
  const lines = [
    'overhead: end of an answer to the next request, ms, median / p90',
    '',
    table(head, rows),
    '',
    'target: at most 1.25 × the synced loop, and flat over iterations',
    `flat? median by iterations: ${flat.join('; ')}`,
    `resident memory after it, MiB: agentd ${memory[0]}, bare loop ${memory[1]}, synced loop ${memory[2]}`,
    '',
    await sandboxed({ folder, size, nodeFlags }, endpoint, contenders[0]),
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

/** What a sandbox adds to a command: two daemons, one without a sandbox, alternating. */
async function sandboxed(setting: Setting, endpoint: Endpoint, without: Contender | undefined): Promise<string> {
  const why = noSandbox();
  if (why !== undefined || without === undefined) return `overhead in the sandbox: skipped, ${why}`;
  const config = { ...FREE, sandbox: 'bwrap' };
  const within = await agentd(join(setting.folder, 'sandboxed'), endpoint, setting.nodeFlags, config);
  const plan = [{ iterations: 50, rounds: setting.size === 'quick' ? 1 : 4 }];
  const [measured] = await everyRound([within, without], endpoint, TRUE, plan);
  await within.stop();
  const [inside = [], outside = []] = measured?.gaps ?? [];
  const cost = `${ms(median(inside) - median(outside))} ms`;
  const head = ['call', 'iterations', 'n', '`bwrap`', '`none`', 'the sandbox costs', 'to `none`'];
  const cells = ['shell: true', '50', count(inside.length), both(inside), both(outside), cost];
  return [
    'overhead in the sandbox, ms, median / p90',
    '',
    table(head, [[...cells, times(median(inside), median(outside))]]),
  ].join('\n');
}

/** Why no sandbox can be measured here; undefined if one works. */
function noSandbox(): string | undefined {
  try {
    execFileSync('bwrap', ['--ro-bind', '/', '/', '--unshare-all', 'true'], { stdio: 'ignore' });
    return undefined;
  } catch {
    return 'bubblewrap is not here or may not be used';
  }
}

/** The gaps of every contender, after a warm-up. They alternate, so that a busy moment of the machine affects all. */
async function everyRound(contenders: readonly Contender[], endpoint: Endpoint, call: Say, plan: Rounds) {
  const measured: Array<{ iterations: number; gaps: number[][] }> = [];
  for (const one of contenders) await gapsOf(one, endpoint, call, WARM_UP);
  for (const { iterations, rounds } of plan) {
    const gaps: number[][] = contenders.map(() => []);
    for (let round = 0; round < rounds; round++) {
      for (const [place, one] of contenders.entries()) {
        gaps[place]?.push(...(await gapsOf(one, endpoint, call, iterations)));
      }
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
