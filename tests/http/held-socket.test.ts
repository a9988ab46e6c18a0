import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import WebSocket, { WebSocketServer } from 'ws';
import { openClient } from '../../src/client/index.ts';
import { serveHeldSocket } from '../../src/frontends/http/routes/held-socket.ts';

/** A socket in place of the daemon's, and a WebSocket that the server connects with it. */
async function connected(): Promise<{ page: WebSocket; daemon: Promise<Socket>; closed: Promise<number> }> {
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
  const services = { currentClient: () => client, closing: new AbortController().signal };
  server.on('connection', (socket) => serveHeldSocket(socket, path, services));
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
