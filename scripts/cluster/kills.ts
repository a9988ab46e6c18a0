import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { median, ms, quantile } from '../bench/numbers.ts';
import { ownerOf, until } from './cluster.ts';
import type { Trial } from './trial.ts';

/** Commands of a session, and how long each takes, in s: a kill strikes in one of them, or between two. */
const COMMANDS = 6;
const SECONDS = 0.15;
const FIRST_LINES = 2;
const MOST_DELAY_MS = 200;
/** So many sessions are at work at once, each in the hands of somebody who kills its worker. */
const LANES = 2;

/** Kills a worker at work, again and again; each time its session must go on at another one. */
export async function kills(
  { cluster, tasks, root }: Trial,
  wanted: number,
): Promise<{ text: string; wrong: boolean }> {
  const took: number[] = [];
  const wrong: string[] = [];
  const killed = new Set<number>();
  let [next, unsure] = [0, 0];
  const atWork = (folder: string) => cluster.workers.find(({ pid }) => pid === ownerOf(folder) && !killed.has(pid));

  async function killOne(n: number): Promise<void> {
    const name = `killed-${n}`;
    const folder = join(root, '.sessions', name);
    tasks.send(name, COMMANDS, SECONDS);
    await until(() => tasks.lines(name).length >= FIRST_LINES, `the first lines of ${name}`);
    // Anywhere within a command, or between two.
    await sleep((n * 37) % MOST_DELAY_MS);
    // The other lane may have killed its worker just now.
    await until(() => atWork(folder) !== undefined, `a worker that has ${name}`);
    const worker = atWork(folder);
    if (!worker) throw new Error(`no worker has ${name}`);
    const place = cluster.workers.indexOf(worker);
    killed.add(worker.pid);
    worker.signal('SIGKILL');
    const at = performance.now();
    await until(() => ownerOf(folder) !== worker.pid, `another owner of ${name}`);
    took.push(performance.now() - at);
    await Promise.all([cluster.startWorker(place), tasks.ended([name])]);
    wrong.push(...tasks.wrong([name]));
    if (tasks.lines(name).length < COMMANDS) unsure++;
  }

  async function lane(): Promise<void> {
    while (next < wanted) await killOne(next++);
  }
  await Promise.all(Array.from({ length: LANES }, lane));
  const figures = `p50 ${ms(median(took))} ms, p99 ${ms(quantile(took, 0.99))} ms to the next owner`;
  const faults =
    wrong.length === 0
      ? `0 lost, 0 replies doubled, 0 commands twice; ${unsure} did not run, and the model was told that they may not have`
      : `BROKEN: ${wrong.join('; ')}`;
  return { text: `${wanted} kills: ${figures}; ${faults}`, wrong: wrong.length > 0 };
}
