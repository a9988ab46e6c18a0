import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { expect, onTestFinished } from 'vitest';
import { findBrowser } from '../../src/tools/browser/find-browser.ts';
import { until } from '../support/daemon.ts';
import { useBrowser } from './page-setup.ts';

const webTest = useBrowser();

webTest(
  'what the daemon pushes is shown by the service worker, and what is newer of a session takes its place',
  [{ text: 'Hello.' }],
  async ({ token, url }) => {
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
    const worker = context.serviceWorkers()[0] ?? (await context.waitForEvent('serviceworker'));
    await page.evaluate('navigator.serviceWorker.ready.then(() => undefined)');
    const cdp = await context.newCDPSession(page);
    let registrationId = '';
    cdp.on('ServiceWorker.workerRegistrationUpdated', ({ registrations }) => {
      registrationId = registrations[0]?.registrationId ?? registrationId;
    });
    await cdp.send('ServiceWorker.enable');
    await until(() => registrationId !== '', 'the registration');
    const pushed = { id: 'n1', title: 'Waits for you: demo', text: 'Allow this call? ls', session: 'demo' };
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
    const link = `${url}/answer/x`;
    await expect.poll(showsAfter({ link }), within).toEqual([['demo', pushed.title, 'Allow this call? ls']]);
    const text = 'Allow this call? pwd';
    await expect.poll(showsAfter({ text }), within).toEqual([['demo', pushed.title, text]]);
  },
);
