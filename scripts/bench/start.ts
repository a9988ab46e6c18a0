import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Child, startAgentd, startFloor } from './children.ts';
import { drop, makeSession, replied } from './contender.ts';
import { openEndpoint } from './endpoint.ts';
import { idleSessions, roomFor } from './idle.ts';
import { count, median, mib, ms, table, times } from './numbers.ts';
import type { Setting } from './setting.ts';

const PLAIN_WATCHES = new URL('./floor-watch.ts', import.meta.url);
const SIZES = { quick: [0, 200], usual: [0, 1000, 10_000], all: [0, 1000, 10_000, 50_000] };
/** By then, the work after a start is over: sessions that worked leave memory 20 s later. */
const SETTLE_MS = 25_000;

type Figures = Record<'ready' | 'asked' | 'rss' | 'watches', number[]>;

/**
 * The time from the command to READY and to the first request, and what the process then uses, with idle sessions:
 * agentd and a bare process with one watch per inbox.
 */
export async function start({ folder, size, nodeFlags }: Setting): Promise<string> {
  const endpoint = await openEndpoint();
  const workspace = join(folder, 'workspace');
  const rounds = size === 'quick' ? 1 : 5;
  const [rows, skipped]: [string[][], string[]] = [[], []];
  for (const sessions of SIZES[size]) {
    const why = roomFor(workspace, sessions);
    if (why !== undefined) {
      skipped.push(`${count(sessions)} sessions: skipped, ${why}`);
      continue;
    }
    await idleSessions(workspace, sessions, endpoint);
    endpoint.script(() => ({ text: 'Yes.' }));
    const contenders: Contender[] = [
      {
        figures: noFigures(),
        begin: () => startAgentd(workspace, endpoint.url, nodeFlags),
        greet: (id) => void drop(makeSession(workspace, 'greeted'), id, 'Are you there?'),
        greeted: (id) => replied(join(workspace, '.sessions', 'greeted'), id),
      },
      {
        figures: noFigures(),
        begin: () => startFloor(PLAIN_WATCHES, workspace, endpoint.url),
        greet: () => {},
        greeted: async () => {},
      },
    ];
    // The first start of each has cold caches and does not count.
    for (let round = 0; round <= rounds; round++) {
      for (const one of contenders) await oneStart(one, `r${round}`, endpoint.arrival, round > 0);
    }
    const idle = await Promise.all(contenders.map((one) => idleShare(one, size === 'quick')));
    rows.push(row(sessions, rounds, contenders, idle));
  }
  endpoint.close();
  const head = ['idle sessions', 'n', 'agentd ready', 'plain watches', 'to the floor', 'agentd asked', 'floor asked'];
  const seconds = idleSeconds(size === 'quick');
  return [
    `start: command to READY and to the first request, medians, ms; resident memory, MiB, and watches at READY; share of an idle processor, over ${seconds} s`,
    '',
    table([...head, 'to the floor', 'RSS', 'floor RSS', 'watches', 'floor watches', 'idle', 'floor idle'], rows),
    '',
    ...skipped,
    'target: 10,000 idle sessions ready within 2 × the floor, with 1.5 × its memory, idle at 0.5 % of a processor',
  ].join('\n');
}

type Contender = {
  figures: Figures;
  begin(): Promise<Child>;
  /** Drops the message that causes its first request. */
  greet(id: string): void;
  greeted(id: string): Promise<void>;
};

const noFigures = (): Figures => ({ ready: [], asked: [], rss: [], watches: [] });

async function oneStart(
  { figures, begin, greet, greeted }: Contender,
  id: string,
  arrival: () => Promise<number>,
  counts: boolean,
): Promise<void> {
  greet(id);
  const asked = arrival();
  const child = await begin();
  const [rss, watches] = [child.rss(), child.watches()];
  const at = await asked;
  await greeted(id);
  await child.stop();
  if (!counts) return;
  figures.ready.push(child.readyAfter);
  figures.asked.push(at - child.began);
  figures.rss.push(rss);
  figures.watches.push(watches);
}

const idleSeconds = (quick: boolean): number => (quick ? 2 : 30);

/** The share of one processor that an idle process uses. */
async function idleShare({ begin }: Contender, quick: boolean): Promise<number> {
  const child = await begin();
  await sleep(quick ? 500 : SETTLE_MS);
  const [before, began] = [child.cpu(), performance.now()];
  await sleep(idleSeconds(quick) * 1000);
  const share = (child.cpu() - before) / ((performance.now() - began) / 1000);
  await child.stop();
  return share;
}

function row(sessions: number, n: number, [own, floor]: Contender[], idle: number[]): string[] {
  const middle = (contender: Contender | undefined, what: keyof Figures) => median(contender?.figures[what] ?? []);
  const pair = (what: keyof Figures): [number, number] => [middle(own, what), middle(floor, what)];
  const timed = (what: 'ready' | 'asked') => [...pair(what).map(ms), times(...pair(what))];
  return [
    count(sessions),
    String(n),
    ...timed('ready'),
    ...timed('asked'),
    ...pair('rss').map(mib),
    ...pair('watches').map(count),
    ...idle.map((share) => `${(100 * share).toFixed(2)} %`),
  ];
}
