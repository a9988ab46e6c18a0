import * as fs from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Child, startAgentd, startFloor } from './children.ts';
import { type Endpoint, openEndpoint, type Say } from './endpoint.ts';
import { median, ms, quantile, table, times } from './numbers.ts';

const LOOP = new URL('./floor-loop.ts', import.meta.url);
const WARM_UP = 30;
const TASK = 'Go on until you are told to stop.';
const CALLS: Record<string, Say> = {
  'shell: true': { tool: 'shell', args: { command: 'true' } },
  'read_file, 60 bytes': { tool: 'read_file', args: { path: 'note.txt' } },
};
const NOTE = 'A small file, read again and again; nothing in it changes.\n\n';

/** Whoever carries out a task: from the message until the model has answered in words. */
type Contender = { carryOut(): Promise<void>; stop(): Promise<void> };

/** Rounds for each number of iterations: short runs are repeated more often. */
export type Rounds = ReadonlyArray<{ iterations: number; rounds: number }>;

/**
 * From the end of the model's answer to the arrival of the next request: agentd beside two loops, round by round.
 * `nodeFlags` are for the daemon alone.
 */
export async function overhead(folder: string, plan: Rounds, nodeFlags: string[]): Promise<string> {
  const endpoint = await openEndpoint();
  const contenders: Contender[] = [
    await agentd(join(folder, 'agentd'), endpoint, nodeFlags),
    await loop(join(folder, 'bare'), endpoint, 'bare'),
    await loop(join(folder, 'durable'), endpoint, 'durable'),
  ];
  const rows: string[][] = [];
  const flat: string[] = [];
  for (const [name, call] of Object.entries(CALLS)) {
    for (const one of contenders) await gaps(one, endpoint, call, WARM_UP);
    const medians: string[] = [];
    for (const { iterations, rounds } of plan) {
      const [own = [], bare = [], durable = []] = await measured(contenders, endpoint, call, iterations, rounds);
      rows.push(row(name, iterations, own, bare, durable));
      medians.push(`${ms(median(own))} (${iterations})`);
    }
    flat.push(`${name}: ${medians.join(', ')}`);
  }
  for (const one of contenders) await one.stop();
  endpoint.close();
  const head = ['call', 'iterations', 'n', 'agentd', 'bare loop', 'loop, synced', 'to bare', 'to synced'];
  return [
    'overhead: end of an answer to the next request, ms, median / p90',
    '',
    table(head, rows),
    '',
    'bearing: at most 1.25 × the synced loop, and flat over iterations',
    `flat? median by iterations: ${flat.join('; ')}`,
  ].join('\n');
}

function row(name: string, iterations: number, own: number[], bare: number[], durable: number[]): string[] {
  const both = (gaps: number[]): string => `${ms(median(gaps))} / ${ms(quantile(gaps, 0.9))}`;
  const ratios = [times(median(own), median(bare)), times(median(own), median(durable))];
  return [name, String(iterations), String(own.length), both(own), both(bare), both(durable), ...ratios];
}

/** The gaps of every contender. They take turns, so that a busy moment of the machine meets all of them. */
async function measured(
  contenders: readonly Contender[],
  endpoint: Endpoint,
  call: Say,
  iterations: number,
  rounds: number,
): Promise<number[][]> {
  const all: number[][] = contenders.map(() => []);
  for (let round = 0; round < rounds; round++) {
    for (const [place, one] of contenders.entries()) {
      all[place]?.push(...(await gaps(one, endpoint, call, iterations)));
    }
  }
  return all;
}

async function gaps(contender: Contender, endpoint: Endpoint, call: Say, iterations: number): Promise<number[]> {
  endpoint.script((index) => (index < iterations ? call : { text: 'That was all.' }));
  await contender.carryOut();
  const { exchanges } = endpoint;
  return exchanges.slice(1).map(({ arrived }, index) => arrived - (exchanges[index]?.answered ?? Number.NaN));
}

async function agentd(workspace: string, endpoint: Endpoint, nodeFlags: string[]): Promise<Contender> {
  fs.mkdirSync(workspace);
  const config = { version: 1, sandbox: 'none', limits: { repeats: 0, iterations: 100_000 } };
  fs.writeFileSync(join(workspace, 'agentd.json'), JSON.stringify(config));
  const daemon = await startAgentd(workspace, endpoint.url, nodeFlags);
  let tasks = 0;
  return {
    async carryOut() {
      const session = join(workspace, '.sessions', `task-${tasks++}`);
      fs.mkdirSync(join(session, 'work'), { recursive: true });
      fs.writeFileSync(join(session, 'work', 'note.txt'), NOTE);
      fs.mkdirSync(join(session, 'inbox'));
      fs.writeFileSync(join(session, 'inbox', 'task.md'), TASK);
      while (!fs.existsSync(join(session, 'outbox', 'task.md'))) await sleep(20);
    },
    stop: daemon.stop,
  };
}

async function loop(folder: string, endpoint: Endpoint, keeping: 'bare' | 'durable'): Promise<Contender> {
  fs.mkdirSync(folder);
  fs.writeFileSync(join(folder, 'note.txt'), NOTE);
  const child: Child = await startFloor(LOOP, endpoint.url, folder, keeping);
  let told: ReturnType<Endpoint['told']> | undefined;
  return {
    async carryOut() {
      // The daemon goes first: the loops send the system message and the tools that it sent.
      told ??= endpoint.told();
      await child.ask(JSON.stringify({ ...told, task: TASK }));
    },
    stop: child.stop,
  };
}
