import { getEventListeners } from 'node:events';
import * as fs from 'node:fs';
import { request } from 'node:http';
import { connect } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import { type ClientOptions, WebSocket } from 'ws';
import { openAccessTokens } from '../../src/client/actions/access.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import { sessionPaths } from '../../src/store/index.ts';
import { record } from '../client/rig.ts';
import { opened, progress, servedSession, waitForHandles } from './served-session.ts';
import { ask } from './serving.ts';

type Frame = { session?: string; id?: number; event: string; data: Record<string, unknown> };

/** An open socket, what it received, and how it ended. */
async function openSocket(url: string, options: ClientOptions & { protocols?: string[] } = {}) {
  const { protocols = [], ...rest } = options;
  const socket = new WebSocket(`${url.replace('http:', 'ws:')}/api/ws`, protocols, rest);
  onTestFinished(() => socket.terminate());
  const came: Frame[] = [];
  let look = () => {};
  socket.on('message', (data) => {
    came.push(JSON.parse(String(data)));
    look();
  });
  const closed = new Promise<{ code: number; reason: string }>((done) => {
    socket.once('close', (code, reason) => done({ code, reason: String(reason) }));
  });
  await new Promise<void>((done, failed) => socket.once('open', done).once('error', failed));
  const until = (found: (frames: Frame[]) => boolean) =>
    new Promise<Frame[]>((done) => {
      look = () => {
        if (found(came)) done(came);
      };
      look();
    });
  const say = (frame: unknown) => socket.send(typeof frame === 'string' ? frame : JSON.stringify(frame));
  return { socket, came, closed, until, say };
}

/** The status and problem with which a socket is refused. */
function refusalOf(url: string, options: ClientOptions & { protocols?: string[] } = {}) {
  const { protocols = [], ...rest } = options;
  const socket = new WebSocket(`${url.replace('http:', 'ws:')}/api/ws`, protocols, rest);
  return new Promise<{ status: number | undefined; came: string }>((done, failed) => {
    socket.once('open', () => failed(new Error('the socket was opened')));
    socket.once('error', failed);
    socket.once('unexpected-response', (_, answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (piece: string) => {
        text += piece;
      });
      answer.on('end', () => done({ status: answer.statusCode, came: String(JSON.parse(text).came) }));
    });
  });
}

const idsOf = (frames: Frame[], session = 'demo') =>
  frames.filter((one) => one.session === session && one.id !== undefined).map(({ id }) => id);
const has = (event: string, session?: string) => (frames: Frame[]) =>
  frames.some((one) => one.event === event && one.session === session);

test('a socket sends the frames of an event stream for each session it follows, from the event its client names', async () => {
  const { server, headers, paths, client } = await servedSession();
  await client.send('other', { text: 'x' });
  await record(paths, [opened, ...progress(3)]);
  await record(sessionPaths(client.paths.session('other')), [opened, ...progress(1)]);
  const { came, until, say, closed } = await openSocket(server.url, { headers });
  say({ follow: 'demo', after: 2 });
  await until((frames) => idsOf(frames).includes(4));
  expect(came[0]).toEqual({ session: 'demo', event: 'following', data: { after: 2 } });
  expect(came[1]).toMatchObject({ session: 'demo', id: 3, event: 'step.progressed', data: { seq: 3 } });
  fs.writeFileSync(paths.live, 'Hello');
  await until(has('live', 'demo'));
  expect(came.at(-1)).toEqual({ session: 'demo', event: 'live', data: { from: 0, text: 'Hello' } });

  say({ follow: 'other' });
  say({ follow: 'nobody' });
  say({ follow: 'demo', after: 3 });
  await until((frames) => idsOf(frames, 'other').includes(2) && frames.filter(({ id }) => id === 4).length === 2);
  expect(idsOf(came)).toEqual([3, 4, 4]);
  expect(came.find(({ session }) => session === 'nobody')).toMatchObject({ event: 'following' });
  await until(has('problem', 'nobody'));
  expect(came.find(({ event }) => event === 'problem')?.data).toMatchObject({ status: 404 });

  say({ unfollow: 'demo' });
  await until(has('ended', 'demo'));
  await record(paths, progress(1));
  await record(sessionPaths(client.paths.session('other')), progress(1));
  await until((frames) => idsOf(frames, 'other').includes(3));
  expect(idsOf(came)).toEqual([3, 4, 4]);
  await client.remove('other');
  await until(has('ended', 'other'));
  const stopped = server.close();
  expect(await closed).toEqual({ code: 1001, reason: 'The server is stopping. Come back in a moment.' });
  await stopped;
});

test('a socket passes the checks of any request, sees only what its token may see, and closes once the token is removed', async () => {
  const { server, headers, client, paths } = await servedSession();
  await record(paths, [opened]);
  await client.send('team-a', { text: 'x' });
  const { url } = server;
  expect(await refusalOf(url)).toEqual({ status: 401, came: 'none' });
  expect((await refusalOf(url, { headers: { authorization: 'Bearer wrong' } })).status).toBe(401);
  const pageOf = async (token: string) => {
    const login = await ask(url, token, 'POST', '/login', { body: { token } });
    const cookie = String(/^[^;]+/.exec(String(login.headers['set-cookie']))?.[0]);
    return { headers: { cookie }, protocols: ['agentd', `agentd.page.${login.json['key']}`] };
  };
  const page = await pageOf(headers.authorization.slice('Bearer '.length));
  expect((await refusalOf(url, { headers: page.headers })).status).toBe(401);
  expect((await refusalOf(url, { ...page, origin: 'https://evil.example' })).status).toBe(403);
  expect((await refusalOf(url, { headers: { ...headers, host: 'evil.example' } })).status).toBe(403);
  expect((await refusalOf(url, { headers: { ...headers, 'sec-fetch-site': 'cross-site' } })).status).toBe(403);
  const own = await openSocket(url, { ...page, origin: url });
  expect(own.socket.protocol).toBe('agentd');
  own.say({ follow: 'demo' });
  await own.until((frames) => idsOf(frames).length > 0);

  const tokens = openAccessTokens(client.paths);
  const token = await tokens.add({ name: 'rae', role: 'read', sessions: ['team-*'] });
  const open = () => openSocket(url, { headers: { authorization: `Bearer ${token}` } });
  const [busy, idle, late] = [await open(), await open(), await openSocket(url, await pageOf(token))];
  busy.say({ follow: 'demo' });
  busy.say({ follow: 'team-a' });
  await busy.until(has('problem', 'demo'));
  expect(busy.came.find(({ event }) => event === 'problem')?.data).toMatchObject({ status: 404 });
  await busy.until(has('following', 'team-a'));
  await tokens.remove('rae');
  const removed = { code: 4401, reason: 'The token of this connection was removed.' };
  late.say({ follow: 'team-a' });
  expect(await late.closed).toEqual(removed);
  await record(sessionPaths(client.paths.session('team-a')), [opened]);
  expect(await busy.closed).toEqual(removed);
  expect(idsOf(busy.came, 'team-a')).toEqual([]);
  expect(await idle.closed).toEqual(removed);
  await own.until(has('heartbeat'));
  expect(own.came.at(-1)).toEqual({ event: 'heartbeat', data: {} });
});

test('an invalid frame closes the socket with a code and a reason', async () => {
  const { server, headers, complaints, client } = await servedSession();
  const cases: Array<[frame: string | Buffer, code: number, reason: RegExp]> = [
    ['{', 1007, /^Expected a text frame with JSON/],
    [Buffer.from('{"follow":"demo"}'), 1003, /got binary/],
    ['{"follow":"demo","after":-1}', 1008, /^Expected .* got \{"follow":"demo","after":-1\}$/],
    [`{"follow":"${'é'.repeat(200)}","more":1}`, 1008, /é…$/],
    ['[]', 1008, /^Expected/],
    ['x'.repeat(20_000), 1009, /^$/],
  ];
  for (const [frame, code, reason] of cases) {
    const { socket, closed } = await openSocket(server.url, { headers });
    socket.send(frame);
    expect(await closed).toEqual({ code, reason: expect.stringMatching(reason) });
  }
  const many = await openSocket(server.url, { headers });
  for (let n = 0; n < 101; n++) {
    fs.mkdirSync(client.paths.session(`s${n}`));
    many.say({ follow: `s${n}` });
  }
  expect(await many.closed).toMatchObject({ code: 1008, reason: expect.stringContaining('at most 100 sessions') });
  expect(complaints).toEqual([]);
});

test('frames for a reader that does not read are not generated; once it reads, it gets all of them in order', async () => {
  const { server, headers, paths, client } = await servedSession();
  const long: EventBody = { type: 'step.started', step: 'x'.repeat(400_000) };
  await record(paths, [opened, ...Array.from({ length: 100 }, () => long)]);
  let made = 0;
  const { stream } = client;
  client.stream = async function* (key, options) {
    for await (const update of stream(key, options)) {
      made++;
      yield update;
    }
  };
  const { socket, say, until } = await openSocket(server.url, { headers });
  socket.pause();
  say({ follow: 'demo' });
  // Frames are generated without a break until the system's buffers are full.
  for (let before = -1; before !== made || made === 0; ) {
    before = made;
    await new Promise((later) => setTimeout(later, 300));
  }
  expect(made).toBeLessThan(60);
  socket.resume();
  expect(idsOf(await until((frames) => idsOf(frames).includes(101)))).toEqual(
    Array.from({ length: 101 }, (_, n) => n + 1),
  );
});

test('240 sockets that are opened and killed leave no listeners, descriptors or watches behind', async () => {
  const { server, headers, paths, complaints } = await servedSession();
  await record(paths, [opened, ...progress(3)]);
  const listening = vi.spyOn(EventTarget.prototype, 'addEventListener');
  onTestFinished(() => listening.mockRestore());
  const round = async (count: number) => {
    const sockets = await Promise.all(Array.from({ length: count }, () => openSocket(server.url, { headers })));
    for (const { say } of sockets) say({ follow: 'demo' });
    await Promise.all(sockets.map(({ until }) => until((frames) => idsOf(frames).includes(4))));
    for (const [n, { socket, say }] of sockets.entries()) {
      if (n % 3 === 0) socket.terminate();
      else if (n % 3 === 1) socket.close();
      else say('bad');
    }
    await Promise.all(sockets.map(({ closed }) => closed));
  };
  await round(5);
  const before = await waitForHandles({ descriptors: Number.POSITIVE_INFINITY, watches: 0 });
  for (let n = 0; n < 4; n++) await round(60);
  for (let n = 0; n < 20; n++) await refusalOf(server.url);
  await waitForHandles(before);
  const signals = new Set(listening.mock.contexts.filter((one) => one instanceof AbortSignal));
  // One for each followed session, and that of the server.
  expect(signals.size).toBeGreaterThanOrEqual(246);
  expect([...signals].flatMap((one) => getEventListeners(one, 'abort'))).toEqual([]);
  expect(complaints).toEqual([]);
});

test('a request for another upgrade is served as plain HTTP, with its body; without an upgrade there is no socket', async () => {
  const { server, headers, client } = await servedSession();
  const token = headers.authorization.slice('Bearer '.length);
  const { hostname, port } = new URL(server.url);
  const h2c = { connection: 'Upgrade, HTTP2-Settings', upgrade: 'h2c', 'http2-settings': 'AAMAAABkAAQAAP__' };
  const sent = await ask(server.url, token, 'POST', '/api/sessions/demo/messages', {
    headers: h2c,
    body: { text: 'é'.repeat(100_000) },
  });
  expect(sent).toMatchObject({ status: 202, json: { session: 'demo' } });
  const stream = { ...headers, connection: 'upgrade', upgrade: 'websocket' };
  const asked = request(`${server.url}/api/sessions/demo/events`, { headers: stream, agent: false });
  const first = await new Promise<string>((done, failed) => {
    asked.once('response', (answer) => answer.setEncoding('utf8').once('data', done)).once('error', failed);
    asked.end();
  });
  asked.destroy();
  expect(first).toMatch(/^retry: 1000\n/);
  const plain = await ask(server.url, token, 'GET', '/api/ws');
  expect(plain).toMatchObject({ status: 426, headers: { upgrade: 'websocket' } });
  // A handshake without a key is refused by the protocol itself.
  const raw = connect(Number(port), hostname);
  raw.write(`GET /api/ws HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAuthorization: Bearer ${token}\r\n`);
  raw.write('Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
  expect(await new Promise((done) => raw.setEncoding('utf8').once('data', done))).toMatch(/^HTTP\/1\.1 400 /);
  expect(client.sessions()).toEqual(['demo']);
});

test('a client that resets its connection after a refused upgrade disturbs nobody', async () => {
  const { server, headers } = await servedSession();
  const { hostname, port } = new URL(server.url);
  const raw = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
  raw.write(`GET /api/ws HTTP/1.1\r\nHost: ${hostname}:${port}\r\n`);
  raw.write('Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
  expect(await new Promise((done) => raw.setEncoding('utf8').once('data', done))).toMatch(/^HTTP\/1\.1 401 /);
  await new Promise((done) => raw.once('end', done));
  raw.resetAndDestroy();
  await openSocket(server.url, { headers });
});

test('a socket closes if its token cannot be checked, and the server goes on', async () => {
  const { server, headers, paths, client, complaints } = await servedSession();
  await record(paths, [opened]);
  const token = await openAccessTokens(client.paths).add({ name: 'ann', role: 'read', sessions: ['*'] });
  const { say, closed } = await openSocket(server.url, { headers: { authorization: `Bearer ${token}` } });
  fs.renameSync(client.paths.own, `${client.paths.own}-away`);
  fs.writeFileSync(client.paths.own, 'a file in its place');
  say({ follow: 'demo' });
  expect((await closed).code).toBe(4401);
  expect(complaints).toEqual([expect.stringContaining('ENOTDIR')]);
  await openSocket(server.url, { headers });
});
