import { existsSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import type { Page } from 'playwright-core';
import { expect, onTestFinished } from 'vitest';
import { WebSocket } from 'ws';
import { openAccessTokens } from '../../src/client/actions/access.ts';
import { openClient } from '../../src/client/index.ts';
import { ask } from '../http/serving.ts';
import { listen } from '../support/temporary.ts';
import { hasSandbox } from '../tools/sandbox.ts';
import { eventually, expectAccessible, type PageSetup, useBrowser } from './page-setup.ts';

const webTest = useBrowser();

/** A site with a field and a button at known positions, which records what is done in it. */
async function startSite() {
  const done: string[] = [];
  const site = createServer(({ url = '' }, answer) => {
    if (url.startsWith('/did')) done.push(decodeURIComponent(url.slice(url.indexOf('?') + 1)));
    answer.setHeader('content-type', 'text/html; charset=utf-8').end(SITE);
  });
  const port = await listen(site);
  return { done, url: `http://127.0.0.1:${port}/` };
}
const SITE = `<!doctype html><title>Login</title><body style="margin:0;background:rgb(0,128,0)">
  <button style="position:absolute;left:100px;top:100px;width:200px;height:100px" onclick="fetch('/did?clicked')">Go</button>
  <input aria-label="Name" style="position:absolute;left:100px;top:300px;width:400px;height:60px"
    onkeydown="event.key === 'Enter' && fetch('/did?' + encodeURIComponent(this.value))">`;

const call = (id: string, name: string, args: object) => ({ id, name, args: JSON.stringify(args) });

/** Clicks at a position of the remote page, via the canvas. */
async function clickAt(page: Page, x: number, y: number): Promise<void> {
  const box = await page.locator('.browser canvas').boundingBox();
  if (!box) throw new Error('no canvas');
  await page.mouse.click(box.x + (x / 1280) * box.width, box.y + (y / 800) * box.height);
}

/** Whether the picture has arrived, which shows the background of the site. */
const pictureShown = (page: Page) =>
  eventually(() =>
    page.evaluate(`(() => {
      const canvas = document.querySelector('.browser canvas');
      const [red, green, blue] = canvas.getContext('2d', { willReadFrequently: true }).getImageData(700, 600, 1, 1).data;
      return canvas.width === 1280 && red < 40 && green > 90 && blue < 40;
    })()`),
  ).toBe(true);

/** The status with which the browser's WebSocket is refused; 101 if it is accepted. */
function socketStatus({ url }: PageSetup, token: string, session = 'demo'): Promise<number | undefined> {
  const headers = { authorization: `Bearer ${token}` };
  const socket = new WebSocket(`${url.replace('http', 'ws')}/api/sessions/${session}/browser/ws`, { headers });
  onTestFinished(() => socket.terminate());
  return new Promise((done) => {
    socket.once('error', () => {});
    socket.once('open', () => done(101));
    socket.once('unexpected-response', (_, { statusCode }) => done(statusCode));
  });
}

webTest(
  "a person takes the agent's browser over on the page, clicks and types in it, and hands it back; the agent waits, and hears of it",
  [],
  async (setup) => {
    const { on, model, token, url } = setup;
    const site = await startSite();
    const socket = openClient(on.root).paths.browserSocket('demo');
    const permissions = [{ allow: `browser(${site.url}*)` }, { allow: 'shell(*)' }];
    const sandbox = hasSandbox ? 'bwrap' : 'none';
    on.config({ sandbox, network: { allow_private: ['127.0.0.1'] }, permissions });
    const take = (as: string, session = 'demo', order = 'take') =>
      ask(url, as, 'POST', `/api/sessions/${session}/browser`, { body: { do: order } });
    model.add(
      { calls: [call('a', 'browser', { action: 'navigate', url: site.url })] },
      {
        hang: 'before',
        calls: [
          call('b', 'shell', {
            command: `curl -s -m 5 --unix-socket ${socket} http://x/; echo "exit $?"; ls ${on.root}/.agentd 2>&1`,
          }),
          call('c', 'browser', { action: 'click', ref: 'e1' }),
        ],
      },
      { calls: [call('d', 'browser', { action: 'snapshot' })] },
      { text: 'Logged in.' },
    );
    let daemon = await setup.startDaemon();
    // Chromium writes to its profile until it has ended.
    onTestFinished(async () => {
      daemon.process.kill('SIGTERM');
      await daemon.ended;
    });
    const tokens = openAccessTokens(openClient(on.root).paths);
    const [sender, ana] = [
      await tokens.add({ name: 'sam', role: 'send', sessions: ['*'] }),
      await tokens.add({ name: 'ana', role: 'approve', sessions: ['*'] }),
    ];
    await ask(url, token, 'POST', '/api/sessions/demo/messages', { body: { text: 'Log in there' } });
    await model.arrived(2);

    expect(await take(sender)).toMatchObject({ status: 403, json: { came: expect.stringContaining('"send" (sam)') } });
    const asText = { body: { text: '/browser take' } };
    expect(await ask(url, sender, 'POST', '/api/sessions/demo/messages', asText)).toMatchObject({ status: 403 });
    expect(await socketStatus(setup, sender)).toBe(403);
    expect(await socketStatus(setup, token)).toBe(409);
    expect(await take(token, 'nobody')).toMatchObject({ status: 404 });
    expect(existsSync(socket)).toBe(false);

    const page = await setup.open({ hash: '#/s/demo' });
    await page.getByRole('link', { name: 'Browser' }).click();
    const view = page.getByRole('region', { name: 'Browser of the agent' });
    await view.getByRole('button', { name: 'Take over' }).click();
    const remote = view.getByRole('application');
    await pictureShown(page);
    await view.getByText(site.url).waitFor();
    expect(statSync(socket).mode & 0o777).toBe(0o600);
    expect(await take(ana)).toMatchObject({
      status: 409,
      json: { came: expect.stringContaining('The owner of the workspace has had the browser') },
    });
    expect(await socketStatus(setup, ana)).toBe(409);

    // Meanwhile the model answers: its command runs, and its click waits.
    model.release();
    await eventually(() => on.events('demo').filter(({ type }) => type === 'tool.finished').length).toBe(2);
    await clickAt(page, 200, 150);
    await eventually(() => site.done).toEqual(['clicked']);
    await clickAt(page, 300, 330);
    await page.keyboard.type('jk A');
    await view.getByLabel('Text for the browser').fill(' 好');
    await view.getByLabel('Text for the browser').press('Enter');
    await view.getByRole('button', { name: 'Enter' }).press('Enter');
    await eventually(() => site.done).toEqual(['clicked', 'jk A 好']);
    expect(page.url()).toContain('/#/s/demo/browser');
    // A later connection replaces the page, until the page reconnects.
    expect(await socketStatus(setup, token)).toBe(101);
    await view.getByRole('button', { name: 'Use it here' }).click();
    await pictureShown(page);
    await remote.focus();
    await page.keyboard.press('Tab');
    expect(await page.evaluate('document.activeElement.tagName')).toBe('INPUT');
    await expectAccessible(page);
    expect(model.requests).toHaveLength(2);

    await view.getByRole('button', { name: 'Hand it back' }).click();
    await eventually(() => remote.count()).toBe(0);
    await model.arrived(4);
    const types = on.events('demo').map(({ type }) => type);
    expect(types.filter((type) => type.startsWith('browser.'))).toEqual(['browser.taken', 'browser.returned']);
    const told = model.requests[2]?.body.messages ?? [];
    const results = told.filter(({ role }) => role === 'tool').map(({ content }) => content);
    expect(results[2]).toBe(
      '[not run: a person used the browser meanwhile, so its pages may have changed; look again (snapshot) before you act]',
    );
    expect(told.at(-1)?.content).toContain('A person used your browser meanwhile');
    if (hasSandbox) expect(results[1]).toMatch(/exit 7\n.*No such file/);
    expect(model.requests[3]?.body.messages.at(-2)?.content).toContain('jk A 好');
    await eventually(() => existsSync(socket)).toBe(false);
    expect(await on.ctl('log', 'demo')).toMatch(/browser\.taken +by a person[\s\S]*browser\.returned +by a person/);

    // The next daemon ends the handover of a killed one.
    const browser = async () => (await ask(url, token, 'GET', '/api/sessions/demo')).json['browser'];
    expect(await take(ana)).toMatchObject({ status: 200 });
    expect(await browser()).toEqual({ open: true, taken: { from: 'ana', since: expect.any(String) } });
    daemon.process.kill('SIGKILL');
    await daemon.ended;
    daemon = await setup.startDaemon();
    // The run may have ended with the killed daemon or with this one, which then replies as well.
    await eventually(() => on.events('demo').findLast(({ type }) => type.startsWith('browser.'))).toMatchObject({
      type: 'browser.returned',
      reason: 'daemon_ended',
    });
    expect(await browser()).toEqual({ open: false, taken: null });
    expect(await take(ana)).toMatchObject({
      status: 409,
      json: { came: expect.stringContaining('No browser is open') },
    });
    const left = `grep -l -a "[u]ser-data-dir=$PWD/browser" /proc/[0-9]*/cmdline 2>/dev/null | wc -l`;
    await eventually(() => Number(on.sh('demo', left))).toBe(0);
  },
);
