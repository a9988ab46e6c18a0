import { createHash } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished } from 'vitest';
import type { ResolveHost } from '../../src/tools/web/destination.ts';
import { browserTest, sharedBrowser } from './browser-setup.ts';
import { eventually } from './tool-setup.ts';
import { respondWith, sendsOn, server } from './web-server.ts';

/** The host names of the current test, for the browser that all tests here share. */
let known: ResolveHost = async () => [];
const openSetup = sharedBrowser({ resolve: (...of) => known(...of) });

/** Host names of this test: `here.test` is the server of a page; all others are on this machine too but not allowed. */
const names = (table: Record<string, string[]>) => {
  const asked: string[] = [];
  const resolve = async (host: string) => {
    asked.push(host);
    const left = table[host] ?? [];
    const address = left.length > 1 ? left.shift() : left[0];
    if (address === undefined) throw Object.assign(new Error('none'), { code: 'ENOTFOUND' });
    return [{ address, family: 4 }];
  };
  known = resolve;
  return { asked };
};

/** The page at `here.test` is allowed; the secret server is at 127.0.0.2, by address and by name. */
async function scene(pageOf: (secret: string) => string, more: Record<string, string[]> = {}) {
  const secret = await server({ '/secret': respondWith('<p>the secret</p>') }, { host: '127.0.0.2' });
  const { asked } = names({ 'here.test': ['127.0.0.1'], 'inside.test': ['127.0.0.2'], ...more });
  const web = await server({
    '/': respondWith(pageOf(`127.0.0.2:${secret.port}`)),
    '/away': sendsOn(`http://127.0.0.2:${secret.port}/secret`),
    '/away-by-name': sendsOn(`http://inside.test:${secret.port}/secret`),
  });
  const box = openSetup({ network: { allow_private: ['here.test'] } });
  return { ...box, secret, asked, at: (path: string) => `http://here.test:${web.port}${path}`, port: web.port };
}

browserTest('an address that is not public is refused, and the model is told why and who can allow it', async () => {
  const { run, secret } = await scene(() => '');
  const { ok, text } = await run({ action: 'navigate', url: `http://127.0.0.2:${secret.port}/secret` });
  expect(ok).toBe(false);
  expect(text).toMatch(/^http:\/\/127\.0\.0\.2:\d+\/secret is refused: that is not an address of the public network/);
  expect(text).toContain('network.allow_private');
  expect(secret.asked).toEqual([]);
});

browserTest('a redirect to an address that is not public is not followed, by number or by name', async () => {
  const { run, secret, at } = await scene(() => '');
  for (const path of ['/away', '/away-by-name'])
    expect((await run({ action: 'navigate', url: at(path) })).ok).toBe(false);
  expect(secret.asked).toEqual([]);
});

browserTest('the same applies to what a page loads: pictures, scripts, frames, fetches, workers, forms', async () => {
  const { run, secret, at, asked } = await scene(
    (
      target,
    ) => `<h1>Here</h1><img src="http://${target}/1"><script src="http://${target}/2"></script><iframe src="http://${target}/3"></iframe>
      <link rel=stylesheet href="http://${target}/4"><form id=f method=post action="http://${target}/5" target=in></form><iframe name=in></iframe>
      <script>fetch('http://${target}/6', { mode: 'no-cors' }); navigator.sendBeacon('http://${target}/7', 'x');
      new Worker(URL.createObjectURL(new Blob(["fetch('http://${target}/8', { mode: 'no-cors' })"]))); f.submit();
      fetch('http://inside.test:${target.split(':')[1]}/9', { mode: 'no-cors' }); fetch('http://0/10', { mode: 'no-cors' });
      fetch('http://[::1]:${target.split(':')[1]}/11', { mode: 'no-cors' }); fetch('http://localhost:${target.split(':')[1]}/12', { mode: 'no-cors' });</script>`,
  );
  const { ok, text } = await run({ action: 'navigate', url: at('/') });
  expect(ok).toBe(true);
  expect(text).toContain('heading 1 "Here"');
  expect(text).toContain('something of the page was not loaded: http://127.0.0.2');
  expect(secret.asked).toEqual([]);
  // Only hosts requested by pages were resolved; the browser itself contacts nobody.
  expect([...new Set(asked)].sort()).toEqual(['here.test', 'inside.test', 'localhost']);
});

browserTest('the same applies to WebSockets, and an allowed one opens', async () => {
  const sockets = createServer().on('upgrade', (request, socket) => {
    const key = createHash('sha1').update(
      `${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`,
    );
    socket.write(
      `HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${key.digest('base64')}\r\n\r\n`,
    );
  });
  await new Promise<void>((done) => sockets.listen(0, done));
  onTestFinished(() => {
    sockets.closeAllConnections();
    sockets.close();
  });
  const { port } = sockets.address() as AddressInfo;
  const { run, at } = await scene(
    () => `<p id=a>?</p><p id=b>?</p><script>const tell = (id, url) => { const s = new WebSocket(url);
      s.onopen = () => document.getElementById(id).textContent = id + ' opened'; s.onerror = () => document.getElementById(id).textContent = id + ' failed'; };
      tell('a', 'ws://here.test:${port}/'); tell('b', 'ws://127.0.0.2:${port}/');</script>`,
  );
  const { text } = await run({ action: 'navigate', url: at('/') });
  expect(text).toContain('a opened');
  expect(text).toContain('b failed');
});

browserTest('a name that resolves to another address a moment later changes nothing', async () => {
  const secret = await server({ '/secret': respondWith('<p>the secret</p>') }, { host: '127.0.0.2' });
  names({ 'turns.test': ['127.0.0.1', '127.0.0.2'] });
  const { run } = openSetup();
  for (const time of ['checked', 'again']) {
    expect((await run({ action: 'navigate', url: `http://turns.test:${secret.port}/secret` })).ok, time).toBe(false);
  }
  expect(secret.asked).toEqual([]);
});

browserTest('no UDP packet is sent, which no proxy could check', async () => {
  const received: number[] = [];
  const udp = createSocket('udp4').on('message', (bytes) => received.push(bytes.length));
  await new Promise<void>((done) => udp.bind(0, '127.0.0.2', done));
  onTestFinished(() => void udp.close());
  const stun = `stun:127.0.0.2:${udp.address().port}`;
  const { run, at } = await scene(
    () => `<h1>Here</h1><script>const c = new RTCPeerConnection({ iceServers: [{ urls: '${stun}' }, { urls: '${stun.replace('stun:', 'turn:')}', username: 'a', credential: 'b' }] });
      c.createDataChannel('x'); c.createOffer().then((o) => c.setLocalDescription(o)); c.onicegatheringstatechange = () => { document.title = c.iceGatheringState };</script>`,
  );
  await run({ action: 'navigate', url: at('/') });
  await run({ action: 'wait', seconds: 3 });
  // A packet of our own comes after all that were sent before it.
  const own = createSocket('udp4');
  onTestFinished(() => void own.close());
  own.send('own', udp.address().port, '127.0.0.2');
  await eventually(() => received.length > 0);
  expect(received).toEqual(['own'.length]);
});

browserTest('files of this machine cannot be opened', async () => {
  const { run, at } = await scene(() => '<a href="file:///etc/passwd">passwd</a>');
  expect((await run({ action: 'navigate', url: 'file:///etc/passwd' })).text).toContain('Only http and https');
  const { text } = await run({ action: 'navigate', url: at('/') });
  const after = await run({ action: 'click', ref: /\[(e\d+)\] link "passwd"/.exec(text)?.[1] });
  expect(after.text).not.toContain('root:');
});
