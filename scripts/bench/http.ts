import * as fs from 'node:fs';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { openSessionFolder, sessionTokens } from '../../src/store/index.ts';
import { startAgentd, startServer } from './children.ts';
import { drop, FREE, makeSession, makeWorkspace } from './contender.ts';
import { type Endpoint, openEndpoint } from './endpoint.ts';
import { count, median, mib, ms, quantile, table, times } from './numbers.ts';
import type { Setting } from './setting.ts';

const WARM_UP = 5;
/** Both sides come to rest before the next one. */
const PAUSE_MS = 10;
const SIZES = {
  quick: { n: 10, readers: 100, idle: 200, restS: 1 },
  usual: { n: 100, readers: 100, idle: 1000, restS: 20 },
};

type Server = Awaited<ReturnType<typeof startServer>>;
type Size = (typeof SIZES)['usual'];

/** What `agentctl serve` adds: to a message, to the first word of an answer, to an event; and what open streams cost. */
export async function http({ folder, size, nodeFlags }: Setting): Promise<string> {
  const sizes = SIZES[size === 'quick' ? 'quick' : 'usual'];
  const endpoint = await openEndpoint();
  const workspace = makeWorkspace(join(folder, 'http'), FREE);
  const daemon = await startAgentd(workspace, endpoint.url, nodeFlags);
  const server = await startServer(workspace);
  const asked = [await posted(workspace, server, endpoint, sizes.n), await firstWord(server, endpoint, sizes.n)];
  await server.stop();
  await daemon.stop();
  endpoint.close();
  const events = await eventsToReaders(join(folder, 'events'), sizes);
  const streams = await idleStreams(join(folder, 'idle'), sizes);
  return [
    'http: what agentctl serve adds, ms',
    '',
    table(['from … to', 'n', 'over HTTP p50 / p99', 'without p50 / p99', 'to the floor (p50)'], asked),
    '',
    'an event in the log … all of so many readers have it, ms',
    '',
    table(['readers', 'n', 'first p50', 'last p50 / p99'], events),
    '',
    `open streams of one session at rest; processor time over ${sizes.restS} s`,
    '',
    table(['streams', 'RSS, MiB', 'kB each', 'CPU'], streams),
  ].join('\n');
}

const both = (took: number[]): string => `${ms(median(took))} / ${ms(quantile(took, 0.99))}`;

const row = (what: string, ours: number[], theirs: number[]): string[] => [
  ...[what, String(ours.length), both(ours), both(theirs), times(median(ours), median(theirs))],
];

/** A message is posted, or dropped as a file, until its request is at the model. */
async function posted(workspace: string, server: Server, endpoint: Endpoint, n: number): Promise<string[]> {
  const agent = new Agent({ keepAlive: true });
  const session = makeSession(workspace, 'posted');
  const [ours, theirs]: [number[], number[]] = [[], []];
  endpoint.script(() => ({ text: 'ok' }));
  for (let index = 0; index < n + WARM_UP; index++) {
    for (const [took, isPosted] of [
      [ours, true],
      [theirs, false],
    ] as const) {
      const id = `${isPosted ? 'p' : 'd'}${index}`;
      const arrival = endpoint.arrival();
      const text = `Message ${id}: are you there?`;
      const headers = { 'idempotency-key': `${id}.msg` };
      const at = isPosted ? performance.now() : drop(session, id, text);
      if (isPosted) await post(server, '/api/sessions/posted/messages', { text }, { agent, headers });
      took.push((await arrival) - at);
      while (!fs.existsSync(join(session, 'outbox', isPosted ? `${id}.msg.msg.json` : `${id}.msg.json`)))
        await sleep(1);
      await sleep(PAUSE_MS);
    }
  }
  agent.destroy();
  return row('a message is sent … its request is at the model', ours.slice(WARM_UP), theirs.slice(WARM_UP));
}

/** A streamed completion is asked for until its first word comes, here or at the model itself. */
async function firstWord(server: Server, endpoint: Endpoint, n: number): Promise<string[]> {
  const agent = new Agent({ keepAlive: true });
  const [ours, theirs]: [number[], number[]] = [[], []];
  endpoint.script(() => ({ text: 'Here I am.' }));
  const body = (index: number) => ({
    ...{ model: 'agentd/words', stream: true },
    messages: [{ role: 'user', content: `Are you there, for the ${index}th time?` }],
  });
  const direct = { url: endpoint.url.replace(/\/v1$/, ''), token: '' };
  for (let index = 0; index < n + WARM_UP; index++) {
    for (const [took, at] of [
      [ours, server],
      [theirs, direct],
    ] as const) {
      const began = performance.now();
      await post(at, '/v1/chat/completions', body(index), {
        agent,
        until: 'Here',
        took: () => took.push(performance.now() - began),
      });
      await sleep(PAUSE_MS);
    }
  }
  agent.destroy();
  return row('a chat completion is asked for … its first word', ours.slice(WARM_UP), theirs.slice(WARM_UP));
}

type PostOptions = { agent: Agent; headers?: Record<string, string>; until?: string; took?: () => void };

/** Resolves with the end of the answer; `took` is called once `until` has come. */
function post(
  { url, token }: { url: string; token: string },
  path: string,
  body: object,
  options: PostOptions,
): Promise<void> {
  const { agent, headers = {}, until, took } = options;
  const all = { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers };
  return new Promise((done, failed) => {
    const sent = request(`${url}${path}`, { method: 'POST', agent, headers: all }, (answer) => {
      let came = '';
      let isThere = false;
      answer.setEncoding('utf8').on('data', (text: string) => {
        came += text;
        if (isThere || until === undefined || !came.includes(until)) return;
        isThere = true;
        took?.();
      });
      answer.on('end', () => {
        if ((answer.statusCode ?? 0) < 300) done();
        else failed(new Error(`${path}: ${answer.statusCode} ${came}`));
      });
    });
    sent.once('error', failed).end(JSON.stringify(body));
  });
}

/** A session with the beginning of a record, and how it is added to, as a daemon would. */
async function recorded(workspace: string) {
  makeWorkspace(workspace, FREE);
  const store = openSessionFolder(makeSession(workspace, 'demo'), sessionTokens().take('demo'), {
    now: () => new Date(),
  });
  const add = async (step: number) => {
    store.eventLog.append([{ type: 'step.progressed', step: `s${step}`, progress: { current: step, total: step } }]);
    await store.eventLog.sync();
  };
  store.eventLog.append([{ type: 'session.opened', format: 1, key: 'demo' }]);
  await store.eventLog.sync();
  return { add, close: () => store.close() };
}

/** Opens a stream of the session; `heard` is called with each piece that comes. */
type Reader = (server: Server, heard: (text: string) => void) => Promise<() => void>;

const byStream: Reader = (server, heard) =>
  new Promise((opened, failed) => {
    const headers = { authorization: `Bearer ${server.token}` };
    const asked = request(`${server.url}/api/sessions/demo/events?after=1`, { headers, agent: false }, (answer) => {
      answer.on('error', () => {});
      answer
        .setEncoding('utf8')
        .on('data', heard)
        .once('data', () => opened(() => void asked.destroy()));
    });
    asked.once('error', failed).end();
  });

const bySocket: Reader = (server, heard) =>
  new Promise((opened, failed) => {
    const headers = { authorization: `Bearer ${server.token}` };
    const socket = new WebSocket(`${server.url.replace('http', 'ws')}/api/ws`, { headers });
    socket.once('error', failed).once('open', () => socket.send('{"follow":"demo","after":1}'));
    socket.on('message', (data) => heard(String(data))).once('message', () => opened(() => void socket.terminate()));
  });

const READERS: Array<[name: string, reader: Reader]> = [
  ['event stream', byStream],
  ['WebSocket', bySocket],
];

async function eventsToReaders(workspace: string, { n, readers }: Size): Promise<string[][]> {
  const session = await recorded(workspace);
  const server = await startServer(workspace);
  const rows: string[][] = [];
  let step = 0;
  for (const [name, reader] of READERS) {
    for (const many of [1, readers]) {
      let came: number[] = [];
      let wanted = '';
      let all = () => {};
      const heard = (text: string) => {
        if (!text.includes(wanted)) return;
        came.push(performance.now());
        if (came.length === many) all();
      };
      const open = await Promise.all(Array.from({ length: many }, () => reader(server, heard)));
      const [first, last]: [number[], number[]] = [[], []];
      for (let index = 0; index < n + WARM_UP; index++) {
        await sleep(PAUSE_MS);
        came = [];
        wanted = `"step":"s${++step}"`;
        const there = new Promise<void>((done) => {
          all = done;
        });
        const at = performance.now();
        await session.add(step);
        await there;
        first.push((came[0] ?? Number.NaN) - at);
        last.push((came.at(-1) ?? Number.NaN) - at);
      }
      for (const close of open) close();
      const [firsts, lasts] = [first.slice(WARM_UP), last.slice(WARM_UP)];
      rows.push([`${many} × ${name}`, String(lasts.length), ms(median(firsts)), both(lasts)]);
    }
  }
  await session.close();
  await server.stop();
  return rows;
}

/** Each in a server of its own, which has served one such stream before. */
async function idleStreams(workspace: string, { idle, restS }: Size): Promise<string[][]> {
  const session = await recorded(workspace);
  const rows: string[][] = [];
  for (const [name, reader] of READERS) {
    const server = await startServer(workspace);
    (await reader(server, () => {}))();
    await sleep(1000);
    const before = server.rss();
    const open: Array<() => void> = [];
    for (let index = 0; index < idle; index++) open.push(await reader(server, () => {}));
    await sleep(1000);
    const [rss, cpu] = [server.rss(), server.cpu()];
    await sleep(restS * 1000);
    const share = (100 * (server.cpu() - cpu)) / restS;
    const each = ((rss - before) * 1024) / idle;
    rows.push([`${count(idle)} × ${name}`, `${mib(before)} → ${mib(rss)}`, each.toFixed(1), `${share.toFixed(1)} %`]);
    for (const close of open) close();
    await server.stop();
  }
  await session.close();
  return rows;
}
