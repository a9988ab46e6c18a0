import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import WebSocket, { WebSocketServer } from 'ws';
import { openAccessTokens } from '../../src/client/actions/access.ts';
import { openClient } from '../../src/client/index.ts';
import { serveBrowserSocket } from '../../src/frontends/http/routes/browser-socket.ts';
import { pretendDaemon, type Rig, rig } from '../client/rig.ts';
import { script, setup } from '../support/agentctl.ts';
import { inFolder, until } from '../support/daemon.ts';
import { serveHere } from './serving.ts';

/** A socket in place of the daemon's, and a WebSocket that the server connects with it. */
async function connected(
  isHolder = () => true,
): Promise<{ page: WebSocket; daemon: Promise<Socket>; closed: Promise<number> }> {
  const folder = mkdtempSync(join(tmpdir(), 'agentd-held-'));
  const path = join(folder, 's');
  const daemon = createServer({ pauseOnConnect: true });
  const arrived = new Promise<Socket>((done) => daemon.once('connection', done));
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  onTestFinished(() => {
    daemon.close();
    server.close();
    rmSync(folder, { recursive: true });
  });
  await Promise.all([once(daemon.listen(path), 'listening'), once(server, 'listening')]);
  const client = openClient(folder);
  const services = { currentClient: () => (isHolder() ? client : undefined), closing: new AbortController().signal };
  server.on('connection', (socket) => serveBrowserSocket(socket, path, services));
  const page = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`);
  onTestFinished(() => page.terminate());
  return { page, daemon: arrived, closed: new Promise((done) => page.once('close', done)) };
}

test('a page that is disconnected while it sends learns that the handover has ended, so that it does not reconnect', async () => {
  const { page, daemon, closed } = await connected();
  const [socket] = await Promise.all([daemon, once(page, 'open')]);
  page.send('{"ack":true}');
  // Once the server answers the ping, it has passed the frame on. Unread data makes the end an error at the daemon.
  page.ping();
  await once(page, 'pong');
  socket.destroy();
  expect(await closed).toBe(1000);
});

test('a page whose token was removed is disconnected, from the daemon as well', async () => {
  let isHolder = true;
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const { page, daemon, closed } = await connected(() => isHolder);
  const [socket] = await Promise.all([daemon, once(page, 'open')]);
  vi.advanceTimersByTime(10_000);
  page.ping();
  await once(page, 'pong');
  expect(page.readyState).toBe(WebSocket.OPEN);
  isHolder = false;
  vi.advanceTimersByTime(10_000);
  expect(await closed).toBe(4401);
  await once(socket.resume(), 'close');
});

test('an order for the browser of a session that is not served is refused with the reason, not after a wait', async () => {
  const at = setup();
  for (const name of ['damaged', 'blocked', 'inboxfile']) await at.here(['send', name, 'hello']);
  const model = script(at, [{ text: 'Hello.', repeat: true }]);
  const { ask } = await serveHere(at);
  // The role that such orders need sees nothing of the daemon's other sessions.
  const user = { name: 'ana', role: 'approve' as const, sessions: ['*'] };
  const ana = `Bearer ${await openAccessTokens(openClient(at.root).paths).add(user)}`;
  const asked = async (name: string, headers: { authorization?: string } = { authorization: ana }) => {
    const { status, json } = await ask('POST', `/api/sessions/${name}/browser`, { body: { do: 'take' }, headers });
    return [status, json['detail']];
  };
  const refused = (status: number, said: string) => [status, expect.stringMatching(said)];
  expect(await asked('nobody')).toEqual(refused(404, 'No session "nobody"'));
  expect(await asked('damaged')).toEqual(
    refused(409, `none is running\\. Start one: agentctl start --workspace ${at.root}`),
  );

  const daemon = await at.serveHere('--model', model);
  for (const name of ['damaged', 'blocked', 'inboxfile']) await at.replied(name);
  await daemon.stop();
  const within = (name: string, file: string) => at.path('.sessions', name, file);
  const events = readFileSync(within('damaged', 'events.jsonl'), 'utf8').split('\n');
  writeFileSync(within('damaged', 'events.jsonl'), events.with(1, 'no event').join('\n'));
  rmSync(within('damaged', 'snapshot.json'), { force: true });
  for (const [name, folder] of [
    ['blocked', 'done'],
    ['inboxfile', 'inbox'],
  ] as const) {
    rmSync(within(name, folder), { recursive: true });
    writeFileSync(within(name, folder), '');
  }
  await at.serveHere('--model', model);
  expect(await asked('damaged')).toEqual(refused(422, 'line 2 cannot be trusted'));
  expect(await asked('inboxfile')).toEqual(refused(409, 'does not serve .*inbox must be a folder'));
  expect(await asked('blocked')).toEqual(refused(409, 'does not serve it: .*done'));
  expect((await at.here(['archive', 'inboxfile'])).code).toBe(0);
  expect(await asked('inboxfile', {})).toEqual(refused(404, 'It was archived'));
});

test.each([
  ['ends', ({ client }: Rig) => rmSync(client.paths.owner), { status: 409, json: { came: 'none is running' } }],
  ['cannot read the event log', ({ session }: Rig) => mkdirSync(session('demo').events), { status: 422 }],
])(
  'an order whose daemon %s before it takes it is refused at once, and is not carried out later',
  async (_, fail, refusal) => {
    const on = rig();
    mkdirSync(on.session('demo').inbox, { recursive: true });
    await on.client.accessToken();
    pretendDaemon(on);
    const { ask } = await serveHere({ ...setup(), root: on.root });
    const { inbox } = on.session('demo');
    const answer = ask('POST', '/api/sessions/demo/browser', { body: { do: 'take' } });
    await until(() => inFolder(inbox).some((name) => name.endsWith('.json')), 'the order');
    fail(on);
    expect(await answer).toMatchObject(refusal);
    expect(readdirSync(inbox).filter((name) => name.endsWith('.json'))).toEqual([]);
  },
);
