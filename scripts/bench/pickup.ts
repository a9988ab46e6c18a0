import * as fs from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startAgentd, startFloor } from './children.ts';
import { drop } from './contender.ts';
import { type Endpoint, openEndpoint } from './endpoint.ts';
import { idleSessions } from './idle.ts';
import { count, median, ms, quantile, table, times } from './numbers.ts';
import type { Setting } from './setting.ts';

const PLAIN_WATCH = new URL('./floor-pickup.ts', import.meta.url);
/** Numbers of idle sessions besides the one that is messaged. */
const SIZES = { quick: [0, 100], usual: [0, 1000, 10_000] };
const WARM_UP = 10;
/** Lets both sides become idle before the next message. */
const PAUSE_MS = 10;

/** A way to drop a message; returns when it was in place, and the name of its reply. */
type Way = (session: string, id: string, text: string) => { at: number; reply: string };

const WAYS: Record<string, Way> = {
  '.msg. (link)': (session, id, text) => ({ at: drop(session, id, text), reply: `${id}.msg.json` }),
  mv: (session, id, text) => {
    const [staged, name] = [join(session, id), `${id}.md`];
    fs.writeFileSync(staged, text);
    const at = performance.now();
    fs.renameSync(staged, join(session, 'inbox', name));
    return { at, reply: name };
  },
  'echo >': (session, id, text) => {
    const name = `${id}.md`;
    const file = fs.openSync(join(session, 'inbox', name), 'w');
    fs.writeSync(file, text);
    const at = performance.now();
    fs.closeSync(file);
    return { at, reply: name };
  },
};

/** The time from a message in place to its request at the model: agentd and a plain watch, message by message. */
export async function pickup({ folder, size, nodeFlags }: Setting): Promise<string> {
  const rows: string[][] = [];
  const n = size === 'quick' ? 15 : 200;
  for (const others of SIZES[size === 'quick' ? 'quick' : 'usual'])
    rows.push(...(await among(join(folder, `among-${others}`), n, others, nodeFlags)));
  const head = ['way', 'idle sessions', 'n', 'agentd p50 / p99', 'plain watch p50 / p99', 'to the floor (p50)'];
  return [
    'pickup: a message in place to its request at the model, ms',
    '',
    table(head, rows),
    '',
    'target: .msg. at most 3 × the floor at p50; the plain ways (mv, echo) at most 15 ms',
  ].join('\n');
}

async function among(workspace: string, n: number, others: number, nodeFlags: string[]): Promise<string[][]> {
  const endpoint = await openEndpoint();
  await idleSessions(workspace, others, endpoint);
  const daemon = await startAgentd(workspace, endpoint.url, nodeFlags);
  const rows: string[][] = [];
  for (const [name, way] of Object.entries(WAYS)) {
    const place = `way-${rows.length}`;
    const own = sessionFolder(join(workspace, '.sessions', place));
    const floorFolder = sessionFolder(join(workspace, 'floor', place));
    const floor = await startFloor(PLAIN_WATCH, endpoint.url, floorFolder);
    const [ours, theirs]: [number[], number[]] = [[], []];
    endpoint.script(() => ({ text: 'ok' }));
    for (let index = 0; index < n + WARM_UP; index++) {
      ours.push(await oneMessage(endpoint, way, own, index));
      theirs.push(await oneMessage(endpoint, way, floorFolder, index));
    }
    rows.push(row(name, others, ours.slice(WARM_UP), theirs.slice(WARM_UP)));
    await floor.stop();
  }
  await daemon.stop();
  endpoint.close();
  return rows;
}

function row(name: string, others: number, ours: number[], theirs: number[]): string[] {
  const both = (took: number[]): string => `${ms(median(took))} / ${ms(quantile(took, 0.99))}`;
  return [name, count(others), String(ours.length), both(ours), both(theirs), times(median(ours), median(theirs))];
}

function sessionFolder(path: string): string {
  for (const name of ['inbox/.tmp', 'outbox']) fs.mkdirSync(join(path, name), { recursive: true });
  return path;
}

/** Measures one message; returns when its reply exists and a moment has passed. */
async function oneMessage(endpoint: Endpoint, way: Way, session: string, index: number): Promise<number> {
  const arrival = endpoint.arrival();
  const { at, reply } = way(session, `m${index}`, `Message ${index}: are you there?`);
  const took = (await arrival) - at;
  while (!fs.existsSync(join(session, 'outbox', reply))) await sleep(1);
  await sleep(PAUSE_MS);
  return took;
}
