import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { expect } from 'vitest';
import { ask } from '../http/serving.ts';
import { eventually, expectAccessible, nameSession, shell, useBrowser } from './page-setup.ts';

const webTest = useBrowser();

const question = (text: string, ...choices: string[]) => [
  { id: 'q', name: 'ask_user', args: JSON.stringify({ question: text, choices }) },
];

webTest(
  'the page asks for the token and says where it is; after that a cookie and a page key are used',
  [],
  async (setup) => {
    const page = await setup.open({ isLoggedIn: false });
    await page.getByText('.agentd/token').waitFor();
    await expectAccessible(page);
    await page.getByLabel('Token').fill('wrong');
    await page.keyboard.press('Enter');
    await page.getByRole('alert').getByText('.agentd/token').waitFor();
    await page.getByLabel('Token').fill(setup.token);
    await page.keyboard.press('Enter');
    await page.getByText('No sessions yet.').waitFor();
    await page.getByText('No daemon is running.').waitFor();
    const [cookie] = await page.context().cookies();
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict', path: '/' });
    expect(cookie?.value).not.toContain(setup.token);
    await page.reload();
    await page.getByText('No sessions yet.').waitFor();

    // Another server on this machine gets the cookie, and a script in the page could read the key; one is not enough.
    const key = String(await page.evaluate(`localStorage.getItem('agentd.page-key')`));
    const both = {
      authorization: undefined,
      cookie: `other=1; ${cookie?.name}=${cookie?.value}`,
      'x-agentd-page': key,
    };
    const status = async (headers: Record<string, string | undefined>) =>
      (await ask(setup.url, '', 'GET', '/api/sessions', { headers })).status;
    expect(await status(both)).toBe(200);
    expect(await status({ ...both, cookie: undefined })).toBe(401);
    expect(await status({ ...both, 'x-agentd-page': undefined })).toBe(401);
    expect(await status({ ...both, authorization: 'Bearer wrong' })).toBe(401);
    expect(await status({ ...both, origin: 'https://evil.example' })).toBe(403);

    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByLabel('Token').waitFor();
    expect(await page.context().cookies()).toEqual([]);
    for (const [text, shown] of [
      [setup.token, page.getByText('No sessions yet.')],
      ['wrong', page.getByLabel('Token')],
    ] as const) {
      await page.goto(`${setup.url}/#token=${text}`);
      await shown.waitFor();
      // Where a poll has found the log-in gone, this is shown before the page has read its new address.
      await eventually(() => page.url()).toBe(`${setup.url}/`);
      await page.context().clearCookies();
      await page.evaluate('localStorage.clear()');
    }
  },
);

webTest('the files of the page need no token, and their policy forbids everything else', [], async ({ url }) => {
  const files = '/ /app.js /browser-remote.js /chinese.js /notification-worker.js /app.css /icon.svg';
  for (const path of files.split(' ')) {
    const { status, headers } = await ask(url, '', 'GET', path, { headers: { authorization: undefined } });
    expect([path, status]).toEqual([path, 200]);
    const rules = String(headers['content-security-policy']).split('; ');
    const needed = `default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'`;
    const further = `form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'`;
    expect(rules).toEqual(expect.arrayContaining(`${needed}; ${further}; trusted-types agentd-worker`.split('; ')));
    expect(rules.join()).not.toMatch(/unsafe|http|\*/);
    expect(headers).toMatchObject({
      'x-content-type-options': 'nosniff',
      'cross-origin-opener-policy': 'same-origin',
      'referrer-policy': 'no-referrer',
    });
  }
});

webTest(
  'a task is sent and watched: plan, live text, folded calls, evidence, reply; and paused, with a paused step and rejected files, continued, cancelled',
  [
    { text: '[Plan]\n1. Count\n2. Report\n\n[Step] Count', calls: shell('echo 1 2 3 | wc -w') },
    { text: 'Counted:\nthere are **three**. [Done]\n\n[Step] Report' },
    { text: ['Writing ', 'it now.'], hang: 'first' },
  ],
  async (setup) => {
    await setup.startDaemon();
    const page = await setup.open();
    await page.getByRole('link', { name: 'New session' }).press('Enter');
    await nameSession(page, 'demo');
    await page.getByLabel('Task').fill('Count and report');
    await page.keyboard.press('Enter');
    const log = page.getByRole('log');
    await log.getByText('The agent is writing').waitFor();

    await log.getByText('Writing', { exact: true }).waitFor();
    await log.locator('strong', { hasText: 'three' }).waitFor();
    expect(await log.locator('.answer p', { hasText: 'three' }).allInnerTexts()).toEqual([
      'Counted:\nthere are three.',
    ]);
    const header = page.getByRole('main').getByRole('status');
    await header.getByText('running').waitFor();
    await header.getByText('1 of 2 steps').waitFor();

    await log.locator('summary', { hasText: 'wc -w' }).press('Enter');
    await log.getByText('exit 0').waitFor();

    const steps = page.getByRole('region', { name: 'Plan' });
    await steps.locator('summary', { hasText: 'Count' }).press('Enter');
    await steps.getByText('the words of the model').waitFor();
    expect(
      await steps
        .locator('dd')
        .getByText(/\[Done\]$/)
        .count(),
    ).toBe(0);
    await steps.getByText(/^step_1 "Count" .*\[Done\]/).waitFor();
    await log.getByRole('heading', { name: 'completed Count' }).waitFor();
    expect(await log.textContent()).not.toContain('[Step]');
    expect(await log.textContent()).not.toContain('[Done]');
    expect(await page.locator('[aria-current=step]').textContent()).toContain('Report');

    await page.getByRole('button', { name: 'Interrupt' }).press('Enter');
    await page.getByText('Finish the call that runs, then pause').waitFor();
    await expectAccessible(page);
    await page.getByRole('button', { name: 'Stop' }).press('Enter');
    await header.getByText('paused').waitFor();

    // The step continues once the plan is resumed; until then it is not running.
    await steps.locator('summary', { hasText: 'Report' }).getByText('paused').waitFor();
    await steps.getByRole('button', { name: 'Graph' }).press('Enter');
    await steps.getByRole('link', { name: '2 paused Report; comes after: Count' }).getByText('paused').waitFor();
    const drop = (name: string) => writeFileSync(`${setup.on.session('demo')}/inbox/${name}`, '{ "text": 5 }');
    for (const [language, word, title] of [
      ['中文', '已暂停', '被拒绝的文件'],
      ['English', 'paused', 'Rejected files'],
    ] as const) {
      await page.locator('.settings select').selectOption(language);
      await page.getByRole('link', { name: `2 ${word} Report` }).waitFor();
      if (language === '中文') drop('not text.msg.json');
      await page.getByRole('region', { name: title }).waitFor();
    }
    await steps.getByRole('button', { name: 'List' }).press('Enter');
    drop('two.msg.json');
    const rejected = page.getByRole('region', { name: 'Rejected files' });
    await rejected
      .locator('summary', { hasText: '2 files were rejected' })
      .getByText(/^two\.msg\.json: /)
      .waitFor();
    await rejected.locator('summary').press('Enter');
    await rejected
      .getByRole('listitem')
      .filter({ hasText: /^not text\.msg\.json: .*text/ })
      .waitFor();
    await rejected.getByText('move it from rejected/ to inbox/').waitFor();
    await expectAccessible(page);
    // Changes of the files in the folder are not events; they are shown on return to the page.
    for (const name of ['two.msg.json', 'not text.msg.json']) rmSync(`${setup.on.session('demo')}/rejected/${name}`);
    await page.evaluate("dispatchEvent(new Event('focus'))");
    await rejected.waitFor({ state: 'detached' });

    setup.model.add({ text: 'Going on.', hang: 'before' }, { text: 'x' });
    await page.getByRole('button', { name: 'Continue' }).press('Enter');
    await header.getByText('running').waitFor();
    await page.getByRole('button', { name: 'Interrupt' }).press('Enter');
    await page.getByRole('button', { name: 'Cancel' }).press('Enter');

    await page.getByRole('button', { name: 'Yes, end it' }).press('Enter');
    await header.getByText('cancelled').waitFor();

    await log.locator('.reply.cancelled').first().waitFor();
    expect((await log.textContent())?.match(/Cancelled\./g)).toHaveLength(1);
    await log.getByRole('heading', { name: 'cancelled Report' }).waitFor();
    await steps.locator('summary', { hasText: 'Report' }).getByText('cancelled').waitFor();
  },
);

/** Turns notifications on, with the page in the background until `inFront`. `shownBodies`: the bodies of all shown. */
async function useNotifications(page: Page) {
  const workers = 'navigator.serviceWorker.getRegistrations().then((all) => all.length)';
  await page.context().grantPermissions(['notifications']);
  await page.reload();
  const button = page.getByRole('button', { name: 'Notifications' });
  await button.waitFor();
  expect([await button.getAttribute('aria-pressed'), await page.evaluate(workers)]).toEqual(['false', 0]);
  await button.press('Enter');
  await eventually(() => button.getAttribute('aria-pressed')).toBe('true');
  await eventually(() => page.evaluate(workers)).toBe(1);
  await page.evaluate(`
    document.hasFocus = () => false;
    window.shownBodies = [];
    const { showNotification } = ServiceWorkerRegistration.prototype;
    ServiceWorkerRegistration.prototype.showNotification = function (title, options) {
      window.shownBodies.push(options.body);
      return showNotification.call(this, title, options);
    };
  `);
  const inFront = () => page.evaluate('document.hasFocus = () => true');
  const shownBodies = () => page.evaluate('window.shownBodies');
  const shown = () =>
    page.evaluate(
      'navigator.serviceWorker.ready.then((it) => it.getNotifications()).then((all) => all.map(({ tag, title, body }) => [tag, title, body]))',
    );
  const click = async () => {
    // The browser may not have reported it yet.
    const worker = page.context().serviceWorkers()[0] ?? (await page.context().waitForEvent('serviceworker'));
    await worker.evaluate(
      // It is left open, to check that it is removed later.
      "Notification.prototype.close = () => {}; registration.getNotifications().then(([notification]) => dispatchEvent(new NotificationEvent('notificationclick', { notification })))",
    );
  };
  return { shown, click, inFront, shownBodies };
}

/** Runs in the page: what has the main colour of a light page and is not part of what waits. */
const BLUE_ELSEWHERE = `[...document.querySelectorAll('body *')]
  .filter((one) => !one.closest('.ask') && ['color', 'backgroundColor', 'fill', 'stroke'].some((it) => getComputedStyle(one)[it] === 'rgb(31, 85, 192)'))
  .map((one) => one.outerHTML.slice(0, 100))`;

webTest(
  'a question and a call that needs approval replace the composer and are answered there',
  [
    { text: '[Step] Export', calls: question('Which **format**?', 'CSV', 'JSON') },
    { text: 'JSON then.', calls: shell('printf "%s" "<b>$HOME</b>" > out.json') },
    { text: 'Written. [Done]' },
    { text: '', calls: shell('rm out.json') },
    { text: 'It stays.' },
    { status: 401, text: 'no such key' },
    { text: 'Hello again.' },
  ],
  async (setup) => {
    setup.on.config({ permissions: [{ ask: 'shell' }] });
    await setup.startDaemon();
    const page = await setup.open({ hash: '#/s/demo' });
    await page.getByText('does not exist, or was removed').waitFor();
    await expectAccessible(page);
    const notifications = await useNotifications(page);
    await page.goto(`${setup.url}/#/`);
    await page.getByRole('button', { name: 'Notifications' }).waitFor();
    await expectAccessible(page);
    await page.goto(`${setup.url}/#/new`);
    await expectAccessible(page);
    await nameSession(page, 'demo');
    await page.getByLabel('Task').fill('Export it');
    await page.getByRole('button', { name: 'Send' }).click();

    const asked = page.getByRole('region', { name: 'The agent asks you' });
    await asked.getByText('format').waitFor();
    expect(await page.getByRole('log').textContent()).not.toContain('format');
    await page.getByRole('navigation').getByRole('heading', { name: 'Needs you' }).waitFor();
    await eventually(() => page.title()).toBe('(1) demo – agentd');
    await eventually(notifications.shown).toEqual([['demo', 'Export it: waits for you', 'Which **format**?']]);
    // The log grows, and the page sees it: that is no news to the person.
    writeFileSync(join(setup.on.session('demo'), 'inbox', 'how.msg.md'), '/status');
    await setup.on.file('demo', 'outbox/how.msg.md');
    for (let polls = 0; polls < 2; polls++) await page.waitForResponse('**/api/sessions');
    await expectAccessible(page);
    await page.evaluate('location.hash = "#/new"');
    await notifications.click();
    await eventually(() => page.url()).toBe(`${setup.url}/#/s/demo`);
    expect(await notifications.shown()).toHaveLength(1);
    await notifications.inFront();
    // Nothing else resumes the run.
    expect(await page.getByRole('button', { name: 'Continue' }).count()).toBe(0);
    await page.locator('h1').first().click();
    await page.keyboard.press('c');
    await asked.getByRole('button', { name: 'JSON' }).press('Enter');

    const approval = page.getByRole('region', { name: 'This call needs your approval' });
    await approval.getByRole('heading', { name: 'The agent wants to run' }).waitFor();
    const answered = page.getByRole('log').locator('summary', { hasText: 'ask Which' });
    expect(await answered.getByText('done').count()).toBe(1);
    expect(await approval.locator('pre').textContent()).toContain('printf "%s" "<b>$HOME</b>" > out.json');
    expect(await page.getByRole('textbox', { name: 'Message' }).count()).toBe(0);
    await expectAccessible(page);
    expect(await page.evaluate(BLUE_ELSEWHERE)).toEqual([]);
    await approval.getByRole('button', { name: 'Allow', exact: true }).press('Enter');
    await page.getByText('Written.').first().waitFor();
    await page.getByRole('textbox', { name: 'Message' }).waitFor();
    await eventually(() => page.title()).toBe('demo – agentd');
    await eventually(notifications.shown).toEqual([]);
    expect(await notifications.shownBodies()).toEqual(['Which **format**?']);

    const say = async (text: string) => {
      await page.getByRole('textbox', { name: 'Message' }).fill(text);
      await page.getByRole('button', { name: 'Send' }).press('Enter');
    };
    await say('Remove it');
    const call = page.getByRole('log').locator('summary', { hasText: 'rm out.json' });
    await approval.getByText('$ rm out.json').waitFor();
    expect(await call.count()).toBe(0);
    await approval.getByRole('button', { name: 'Deny', exact: true }).press('Enter');
    await page.getByText('It stays.').first().waitFor();
    expect(await call.textContent()).toContain('denied');
    // A run that failed without a plan of its own resumes by the same button.
    await say('Hello');
    await page.getByText('no such key').first().waitFor();
    await page.getByRole('button', { name: 'Continue' }).press('Enter');
    await page.getByText('Hello again.').first().waitFor();
  },
);
