import * as fs from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startAgentd } from './children.ts';
import { drop, FREE, makeSession, makeWorkspace, startLoop } from './contender.ts';
import { type Crowd, crowd, taskOf } from './crowd.ts';
import { type Endpoint, openEndpoint } from './endpoint.ts';
import { count, ms, table, times } from './numbers.ts';
import type { Setting } from './setting.ts';

/** The model's latency, so that at the kill some sessions wait for it and others are between two calls. */
const THINK_MS = 1000;
const WORK_MS = 5000;
const ENDLESS = 1_000_000;

/** `kill -9` while all sessions are running, and the time until all have called the model again. */
export async function recovery({ folder, size, nodeFlags }: Setting): Promise<string> {
  const sessions = size === 'quick' ? 50 : 500;
  const endpoint = await openEndpoint();
  const workspace = makeWorkspace(join(folder, 'workspace'), { ...FREE, concurrency: { runs: sessions } });
  const folders = Array.from({ length: sessions }, (_, n) => makeSession(workspace, `s${n}`));
  const first = await startAgentd(workspace, endpoint.url, nodeFlags);
  const before = crowd(endpoint, sessions, { iterations: ENDLESS, thinkMs: THINK_MS });
  for (const [n, session] of folders.entries()) drop(session, 'task', taskOf(n));
  await before.gathered;
  await sleep(size === 'quick' ? WORK_MS / 2 : WORK_MS);
  await first.kill();
  const answered = answeredIn(before);
  const kept = folders.reduce((sum, session) => sum + answersOnRecord(session), 0);
  const setup = endpoint.setup();

  const after = crowd(endpoint, sessions, { iterations: ENDLESS, hold: true });
  const second = await startAgentd(workspace, endpoint.url, nodeFlags);
  const all = (await after.gathered) - second.began;
  await second.kill();
  const floor = await loopsBegin(join(folder, 'loop'), endpoint, setup, sessions);
  endpoint.close();
  const head = ['sessions', 'ready', 'all have asked again', 'bare loops have asked', 'to the floor'];
  const cells = [count(sessions), ms(second.readyAfter), ms(all), ms(floor), times(all, floor)];
  return [
    'recovery: `kill -9` of a daemon at work; command of the next one to the last first request, ms',
    '',
    table([...head, 'iterations before', 'iterations repeated'], [[...cells, count(answered), count(answered - kept)]]),
    '',
    'target: 500 sessions run again within 2 s; the loops keep nothing and begin from nothing',
  ].join('\n');
}

/** The time from starting a process of bare loops until all of them have called the model. */
async function loopsBegin(folder: string, endpoint: Endpoint, setup: object, sessions: number): Promise<number> {
  const { gathered } = crowd(endpoint, sessions, { iterations: ENDLESS, hold: true });
  const child = await startLoop(folder, endpoint, 'bare');
  // There is no answer, because the process is killed.
  child.ask(JSON.stringify({ ...setup, tasks: Array.from({ length: sessions }, (_, n) => taskOf(n)) })).catch(() => {});
  const took = (await gathered) - child.began;
  await child.kill();
  return took;
}

const answeredIn = ({ each }: Crowd): number =>
  each().reduce((sum, exchanges) => sum + exchanges.filter(({ answered }) => !Number.isNaN(answered)).length, 0);

/** The number of model answers in an event log; the model is called again for those that were not logged. */
function answersOnRecord(session: string): number {
  const lines = fs.readFileSync(join(session, 'events.jsonl'), 'utf8').split('\n').slice(0, -1);
  return lines.filter((line) => line.includes('"type":"model.answered"')).length;
}
