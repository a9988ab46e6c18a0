import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { median, ms, quantile } from '../bench/numbers.ts';
import { ownerOf, until } from './cluster.ts';
import type { Trial } from './faults.ts';

/** Commands of a session, and how long each takes, in s: a kill strikes in one of them, or between two. */
const COMMANDS = 8;
const SECONDS = 0.15;
const FIRST_LINES = 2;
const MOST_DELAY_MS = 200;

/** Kills a worker at work, again and again; each time its session must go on at another one. */
export async function kills(
  { cluster, ledger, root }: Trial,
  wanted: number,
): Promise<{ text: string; wrong: boolean }> {
  const took: number[] = [];
  const wrong: string[] = [];
  for (let n = 0; n < wanted; n++) {
    const name = `killed-${n}`;
    ledger.task(name, COMMANDS, SECONDS);
    await until(() => ledger.lines(name).length >= FIRST_LINES, `the first lines of ${name}`);
    // Anywhere within a command, or between two.
    await sleep((n * 37) % MOST_DELAY_MS);
    const folder = join(root, '.sessions', name);
    const owner = ownerOf(folder);
    const place = cluster.workers.findIndex(({ pid }) => pid === owner);
    const worker = cluster.workers[place];
    if (!worker) throw new Error(`no worker has the process ${owner} of ${name}`);
    worker.signal('SIGKILL');
    const killed = performance.now();
    await until(() => ownerOf(folder) !== owner, `another owner of ${name}`);
    took.push(performance.now() - killed);
    await Promise.all([cluster.startWorker(place), ledger.ended([name])]);
    wrong.push(...ledger.wrong());
    ledger.forget();
  }
  const figures = `p50 ${ms(median(took))} ms, p99 ${ms(quantile(took, 0.99))} ms to the next owner`;
  const faults = wrong.length === 0 ? '0 lost, 0 replies doubled, 0 commands twice' : `BROKEN: ${wrong.join('; ')}`;
  return { text: `${wanted} kills: ${figures}; ${faults}`, wrong: wrong.length > 0 };
}
