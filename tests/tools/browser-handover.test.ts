import { existsSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import type { BrowserOutput } from '../../src/protocol/workspace/handover.ts';
import { openBrowserControl } from '../../src/tools/handover/browser-handover.ts';
import { listen } from '../support/temporary.ts';
import { browserSetup, browserTest } from './browser-setup.ts';

/** A page that changes all the time, and counts how often it did. */
async function startTicker() {
  let ticks = 0;
  const visits: string[] = [];
  const site = createServer(({ url = '' }, answer) => {
    if (url === '/tick') ticks++;
    else visits.push(url);
    answer.setHeader('content-type', 'text/html').end(PAGE);
  });
  const port = await listen(site);
  return { url: `http://127.0.0.1:${port}/`, ticks: () => ticks, visits };
}
const PAGE = `<title>Ticker</title><p id=n>0</p><a href="/other" target="_blank" style="position:absolute;left:0;top:200px;
  width:300px;height:100px">Other</a><script>let n = 0; const tick = async () => { document.getElementById('n').textContent = ++n;
  await fetch('/tick'); requestAnimationFrame(tick); }; tick();</script>`;

/** A person at the socket, and what they were sent. */
async function person(path: string) {
  const socket = connect(path);
  onTestFinished(() => void socket.destroy());
  const came: BrowserOutput[] = [];
  let rest = '';
  socket.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    came.push(...lines.map((line): BrowserOutput => JSON.parse(line)));
  });
  const closed = new Promise<void>((done) => socket.once('close', () => done()));
  await new Promise<void>((ready, failed) => socket.once('connect', ready).once('error', failed));
  const pictures = () => came.filter((one) => 'picture' in one);
  const say = (input: object | string) =>
    socket.write(typeof input === 'string' ? input : `${JSON.stringify(input)}\n`);
  return { came, pictures, say, closed };
}

const eventually = <T>(read: () => T) => expect.poll(read, { timeout: 20_000, interval: 20 });

browserTest(
  'a person gets pictures as fast as they read, of the current tab; calls wait, and it ends when nobody is connected',
  async () => {
    const site = await startTicker();
    const { pool, run, folder, home } = browserSetup();
    await run({ action: 'navigate', url: site.url });
    const socket = join(home, 'browser.sock');
    const settings = () => ({ network: { allow_private: ['127.0.0.1'] } });
    let losses = 0;
    const control = openBrowserControl({ pool, folder, settings, socket, onLost: () => losses++, nobodyMs: 300 });
    expect(control.state).toEqual({ isOpen: true, lost: null });
    control.give();
    control.give();
    expect(statSync(socket).mode & 0o777).toBe(0o600);
    const ana = await person(socket);
    await eventually(() => ana.pictures().length).toBeGreaterThan(0);
    expect(ana.came.find((one) => 'address' in one)).toEqual({ address: site.url, title: 'Ticker', tab: 1, tabs: 1 });
    // Chromium sends a few pictures without acknowledgement, and then no more.
    const laterBy = async (ticks: number) => {
      const before = site.ticks();
      await eventually(site.ticks).toBeGreaterThan(before + ticks);
      return ana.pictures().length;
    };
    const unread = await laterBy(10);
    expect(unread).toBeLessThanOrEqual(3);
    expect(await laterBy(10)).toBe(unread);
    ana.say({ ack: true });
    await eventually(() => ana.pictures().length).toBe(unread + 1);
    expect(await laterBy(10)).toBe(unread + 1);

    // A call of the agent waits; one that is stopped leaves the queue without letting others in.
    const stop = new AbortController();
    const stopped = run({ action: 'snapshot' }, stop.signal).catch(String);
    let hasLooked = false;
    const looks = run({ action: 'snapshot' }).then((result) => {
      hasLooked = true;
      return result;
    });
    stop.abort(new Error('stopped'));
    expect(await stopped).toContain('stopped');

    const place = { x: 50, y: 250, button: 'left', clicks: 1 };
    ana.say({ down: place });
    ana.say({ up: place });
    await eventually(() => ana.came.findLast((one) => 'address' in one)).toMatchObject({
      address: `${site.url}other`,
      ...{ tab: 2, tabs: 2 },
    });
    ana.say({ tab: 1 });
    await eventually(() => ana.came.findLast((one) => 'address' in one)).toMatchObject({ address: site.url, tab: 1 });
    ana.say({ tab: 2 });
    await eventually(() => ana.came.findLast((one) => 'address' in one)).toMatchObject({ tab: 2 });
    ana.say({ go: 'reload' });
    await eventually(() => site.visits.filter((url) => url === '/other').length).toBe(2);
    const bob = await person(socket);
    await ana.closed;
    await eventually(() => bob.pictures().length).toBeGreaterThan(0);
    expect(hasLooked).toBe(false);
    for (const bad of ['x\n', { goto: site.url }, { down: { ...place, x: -1 } }, ' '.repeat(40_000)]) {
      const liar = await person(socket);
      liar.say(bad);
      await liar.closed;
    }
    await eventually(() => control.state.lost).toBe('nobody_there');
    expect((await looks).text).toContain(`${site.url}other`);
    expect([losses, existsSync(socket)]).toEqual([1, false]);

    control.takeBack();
    expect(control.state.lost).toBe(null);
    control.give();
    const carl = await person(socket);
    await eventually(() => carl.pictures().length).toBeGreaterThan(0);
    await pool.close();
    await carl.closed;
    expect(control.state).toEqual({ isOpen: false, lost: 'browser_closed' });
  },
);
