import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { expect, onTestFinished } from 'vitest';
import { NoticeBody } from '../../src/protocol/session/notice-file.ts';
import { findBrowser } from '../../src/tools/browser/find-browser.ts';
import { ask } from '../http/serving.ts';
import { until } from '../support/daemon.ts';
import { useBrowser } from './page-setup.ts';

const webTest = useBrowser();

/** What a touch on the only notification does: where a window would be opened, which a browser does for people alone. */
const TOUCH = `(async () => {
  const opened = [];
  self.clients.openWindow = async (url) => void opened.push(url);
  // One that another takes the place of is gone for a moment.
  const shown = async () => (await registration.getNotifications())[0] ?? new Promise((done) => setTimeout(() => done(shown()), 50));
  const notification = await shown();
  const click = new NotificationEvent('notificationclick', { notification });
  const ended = new Promise((done) => { click.waitUntil = (end) => done(end.catch(() => undefined)); });
  self.dispatchEvent(click);
  await ended;
  return opened;
})()`;

webTest(
  'a push is shown by the service worker; a touch on it opens exactly the call on a phone, which allows it there',
  [{ calls: [{ name: 'shell', args: '{"command":"echo hi > ran"}' }] }, { text: 'Written.' }],
  async ({ on, token, url, startDaemon }) => {
    const note = join(on.root, 'note.json');
    const notify = [{ command: ['sh', '-c', `cat > '${note}.new'; mv '${note}.new' '${note}'`], for: ['waiting'] }];
    on.config({ permissions: [{ ask: 'shell' }], notify, public_url: url });
    await startDaemon();
    await ask(url, token, 'POST', '/api/sessions/demo/messages', { body: { text: 'write it' } });
    // A private window takes no pushes.
    const profile = mkdtempSync(join(tmpdir(), 'agentd-push-'));
    const options = { executablePath: findBrowser(undefined, process.env), args: ['--no-sandbox', '--disable-gpu'] };
    const context = await chromium.launchPersistentContext(profile, options);
    onTestFinished(async () => {
      await context.close();
      rmSync(profile, { recursive: true, force: true });
    });
    await context.grantPermissions(['notifications']);
    const page = await context.newPage();
    await page.goto(`${url}/#token=${token}`);
    await page.getByRole('button', { name: 'Notifications' }).press('Enter');
    await page.getByRole('button', { name: 'Notifications only while this page is open' }).waitFor();
    const worker = context.serviceWorkers()[0] ?? (await context.waitForEvent('serviceworker'));
    await page.evaluate('navigator.serviceWorker.ready.then(() => undefined)');
    const cdp = await context.newCDPSession(page);
    let registrationId = '';
    cdp.on('ServiceWorker.workerRegistrationUpdated', ({ registrations }) => {
      registrationId = registrations[0]?.registrationId ?? registrationId;
    });
    await cdp.send('ServiceWorker.enable');
    await until(() => registrationId !== '' && existsSync(note), 'the registration and the notice');
    const { id, text, session, link } = NoticeBody.parse(JSON.parse(readFileSync(note, 'utf8')));
    const pushed = { id, title: 'Waits for you: demo', text, session };
    const deliver = (more: object) =>
      cdp.send('ServiceWorker.deliverPushMessage', {
        ...{ origin: url, registrationId, data: JSON.stringify({ ...pushed, ...more }) },
      });
    const shown = () =>
      worker.evaluate(
        'registration.getNotifications().then((all) => all.map(({ tag, title, body }) => [tag, title, body]))',
      );
    // A browser that has just registered the worker may drop the first ones.
    const showsAfter = (more: object) => async () => {
      await deliver(more);
      return shown();
    };
    const within = { timeout: 20_000, interval: 500 };
    await expect.poll(showsAfter({ link }), within).toEqual([['demo', pushed.title, text]]);
    // What is newer of a session takes its place.
    await expect.poll(showsAfter({ link, text: 'Again' }), within).toEqual([['demo', pushed.title, 'Again']]);
    expect(await worker.evaluate(TOUCH)).toEqual([link]);

    const phone = await context.newPage();
    await phone.setViewportSize({ width: 390, height: 800 });
    await phone.goto(link ?? '');
    expect(await phone.locator('pre').textContent()).toContain('echo hi > ran');
    expect(await phone.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(390);
    await phone.getByRole('button', { name: 'Allow once' }).click();
    await phone.getByRole('heading', { name: 'Allowed by this link' }).waitFor();
    await until(() => on.events('demo').some(({ type }) => type === 'run.ended'), 'the end');
    expect(readFileSync(join(on.session('demo'), 'work/ran'), 'utf8')).toBe('hi\n');
  },
);
