import { request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { openSessionFolder, sessionTokens } from '../../src/store/index.ts';
import { startServer } from './children.ts';
import { FREE, makeSession, makeWorkspace } from './contender.ts';
import { count, median, ms, quantile } from './numbers.ts';

const WARM_UP = 5;
/** Lets all become idle before the next event. */
const PAUSE_MS = 10;
export const READER_SIZES = {
  quick: { n: 10, readers: 100, idle: 200, restS: 1 },
  usual: { n: 200, readers: 100, idle: 1000, restS: 20 },
};

type Server = Awaited<ReturnType<typeof startServer>>;
type Size = (typeof READER_SIZES)['usual'];

/** Opens a stream of a session; calls `heard` with each piece received. */
type Reader = (server: Server, session: string, heard: (text: string) => void) => Promise<() => void>;

const byStream: Reader = (server, session, heard) =>
  new Promise((opened, failed) => {
    const headers = { authorization: `Bearer ${server.token}` };
    const url = `${server.url}/api/sessions/${session}/events?after=1`;
    const asked = request(url, { headers, agent: false }, (answer) => {
      answer.on('error', () => {});
      answer
        .setEncoding('utf8')
        .on('data', heard)
        .once('data', () => opened(() => void asked.destroy()));
    });
    asked.once('error', failed).end();
  });

const bySocket: Reader = (server, session, heard) =>
  new Promise((opened, failed) => {
    const headers = { authorization: `Bearer ${server.token}` };
    const socket = new WebSocket(`${server.url.replace('http', 'ws')}/api/ws`, { headers });
    socket.once('error', failed).once('open', () => socket.send(JSON.stringify({ follow: session, after: 1 })));
    socket.on('message', (data) => heard(String(data))).once('message', () => opened(() => void socket.terminate()));
  });

const READERS: Array<[name: string, reader: Reader]> = [
  ['event stream', byStream],
  ['WebSocket', bySocket],
];

/** Creates a session with the beginning of an event log, and returns how to append to it as a daemon would. */
async function recorded(workspace: string, name: string) {
  const store = openSessionFolder(makeSession(workspace, name), sessionTokens().take(name), {
    now: () => new Date(),
  });
  const add = async (step: number) => {
    store.eventLog.append([{ type: 'step.progressed', step: `s${step}`, progress: { current: step, total: step } }]);
    await store.eventLog.sync();
  };
  store.eventLog.append([{ type: 'session.opened', format: 1, key: name }]);
  await store.eventLog.sync();
  return { name, add, close: () => store.close() };
}
type Recorded = Awaited<ReturnType<typeof recorded>>;

/** The time from a durable event until all readers have it, for readers of one session and of one session each. */
export async function eventsToReaders(folder: string, { n, readers }: Size): Promise<string[][]> {
  const workspace = makeWorkspace(join(folder, 'events'), FREE);
  const names = Array.from({ length: readers }, (_, at) => `demo-${at}`);
  const sessions = await Promise.all(names.map((name) => recorded(workspace, name)));
  const server = await startServer(workspace);
  const rows: string[][] = [];
  for (const [name, reader] of READERS) {
    for (const [many, over] of [
      [1, 1],
      [readers, 1],
      [readers, readers],
    ] as const) {
      const took = await timesToReaders(server, sessions.slice(0, over), { reader, many, n });
      const where = over === 1 ? 'of one session' : `of ${over} sessions`;
      const both = `${ms(median(took.last))} / ${ms(quantile(took.last, 0.99))}`;
      rows.push([`${many} × ${name}, ${where}`, String(n), ms(median(took.first)), both]);
    }
  }
  for (const session of sessions) await session.close();
  await server.stop();
  return rows;
}

async function timesToReaders(
  server: Server,
  sessions: readonly Recorded[],
  { reader, many, n }: { reader: Reader; many: number; n: number },
) {
  let came: number[] = [];
  let wanted = '';
  let all = () => {};
  const each = many / sessions.length;
  const heard = (text: string) => {
    if (!text.includes(wanted)) return;
    came.push(performance.now());
    if (came.length === each) all();
  };
  const open: Array<() => void> = [];
  for (const { name } of sessions) for (let at = 0; at < each; at++) open.push(await reader(server, name, heard));
  const [first, last]: [number[], number[]] = [[], []];
  for (let index = 0; index < n + WARM_UP; index++) {
    await sleep(PAUSE_MS);
    came = [];
    const step = Math.round(performance.now() * 1000);
    wanted = `"step":"s${step}"`;
    const there = new Promise<void>((done) => {
      all = done;
    });
    await sessions[index % sessions.length]?.add(step);
    const at = performance.now();
    await there;
    first.push(Math.max(0, (came[0] ?? Number.NaN) - at));
    last.push(Math.max(0, (came.at(-1) ?? Number.NaN) - at));
  }
  for (const close of open) close();
  return { first: first.slice(WARM_UP), last: last.slice(WARM_UP) };
}

/** Idle streams, each kind in its own server, which has served one such stream before. */
export async function idleStreams(folder: string, { idle, restS }: Size): Promise<string[][]> {
  const workspace = makeWorkspace(folder, FREE);
  const session = await recorded(workspace, 'demo');
  const rows: string[][] = [];
  for (const [name, reader] of READERS) {
    const server = await startServer(workspace);
    (await reader(server, session.name, () => {}))();
    await sleep(1000);
    const before = megabytes(server.rss());
    const open: Array<() => void> = [];
    for (let index = 0; index < idle; index++) open.push(await reader(server, session.name, () => {}));
    await sleep(1000);
    const [rss, cpu] = [megabytes(server.rss()), server.cpu()];
    await sleep(restS * 1000);
    const share = (100 * (server.cpu() - cpu)) / restS;
    const more = rss - before;
    rows.push([
      ...[`${count(idle)} × ${name}`, `${before.toFixed(0)} → ${rss.toFixed(0)}`, more.toFixed(0)],
      ...[((more * 1000) / idle).toFixed(1), `${share.toFixed(1)} %`],
    ]);
    for (const close of open) close();
    await server.stop();
  }
  await session.close();
  return rows;
}

const megabytes = (mebibytes: number): number => (mebibytes * 1024 ** 2) / 1e6;
