import { join } from 'node:path';
import { type Child, startAgentd, startFloor } from './children.ts';
import { openEndpoint } from './endpoint.ts';
import { idleSessions } from './idle.ts';
import { count, median, ms, table, times } from './numbers.ts';

const PLAIN_WATCHES = new URL('./floor-watch.ts', import.meta.url);

type Started = { ready: number[]; rss: number[] };

/** Command to READY and the memory then, among idle sessions: agentd beside a bare process with one watch an inbox. */
export async function start(folder: string, n: number, sizes: readonly number[]): Promise<string> {
  const endpoint = await openEndpoint();
  const workspace = join(folder, 'workspace');
  const rows: string[][] = [];
  for (const size of sizes) {
    await idleSessions(workspace, size, endpoint);
    const [own, floor]: [Started, Started] = [
      { ready: [], rss: [] },
      { ready: [], rss: [] },
    ];
    for (let round = 0; round <= n; round++) {
      // The first of each finds cold caches and does not count.
      await note(startAgentd(workspace, endpoint.url), round > 0 ? own : undefined);
      await note(startFloor(PLAIN_WATCHES, workspace), round > 0 ? floor : undefined);
    }
    rows.push(row(size, n, own, floor));
  }
  endpoint.close();
  const head = ['idle sessions', 'n', 'agentd ready', 'plain watches ready', 'to the floor', 'agentd RSS', 'floor RSS'];
  return [
    'start: command to READY, medians, ms; resident memory at READY, MiB',
    '',
    table(head, rows),
    '',
    'bearing: 10,000 idle sessions ready within 2 × the floor',
  ].join('\n');
}

async function note(starting: Promise<Child>, into: Started | undefined): Promise<void> {
  const child = await starting;
  into?.ready.push(child.readyAfter);
  into?.rss.push(child.rss());
  await child.stop();
}

function row(size: number, n: number, own: Started, floor: Started): string[] {
  const [ours, theirs] = [median(own.ready), median(floor.ready)];
  const memory = [own, floor].map(({ rss }) => median(rss).toFixed(0));
  return [count(size), String(n), ms(ours), ms(theirs), times(ours, theirs), ...memory];
}
