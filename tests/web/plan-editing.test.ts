import { expect } from 'vitest';
import type { Plan } from '../../src/protocol/session/plan.ts';
import { ask } from '../http/serving.ts';
import { eventually, expectAccessible, useBrowser } from './page-setup.ts';

const webTest = useBrowser();
const shell = (command: string) => [{ id: 'c', name: 'shell', args: JSON.stringify({ command }) }];

webTest(
  'a plan is edited in place while it runs: steps added, moved, reworded, skipped and reopened, by keyboard alone',
  [
    { text: '[Step] One', calls: shell('true') },
    { text: 'x', hang: 'before' },
  ],
  async (setup) => {
    await setup.startDaemon();
    await ask(setup.url, setup.token, 'POST', '/api/sessions/demo/messages', { body: { text: 'Do it' } });
    const page = await setup.open({ hash: '#/s/demo' });
    const plan = page.getByRole('region', { name: 'Plan' });
    const steps = () => plan.locator('.description').allTextContents();
    await eventually(steps).toEqual(['One']);
    await setup.model.arrived(2);
    for (const text of ['Two', 'Three']) {
      await plan.getByLabel('New step').fill(text);
      await page.keyboard.press('Enter');
      await plan
        .getByRole('status')
        .getByText(/^Saved: /)
        .waitFor();
      await eventually(steps).toContain(text);
    }
    await plan.locator('summary', { hasText: 'Three' }).focus();
    await page.keyboard.press('Alt+ArrowUp');
    await eventually(steps).toEqual(['One', 'Three', 'Two']);
    await eventually(() => page.evaluate('document.activeElement.textContent')).toContain('Three');
    await eventually(() => setup.on.plan('demo')?.steps.map(({ description }) => description)).toEqual(await steps());

    await plan.locator('summary', { hasText: 'Two' }).press('Enter');
    await plan.getByRole('button', { name: 'Reword' }).press('Enter');
    const field = plan.getByLabel('Text of the step');
    await field.and(page.locator(':focus')).waitFor();
    await field.fill('Two, but better');
    const now = (await ask(setup.url, setup.token, 'GET', '/api/sessions/demo/plan')).json as unknown as Plan;
    const others = now.steps.map((step) =>
      step.description === 'Two' ? { ...step, description: 'Two by another' } : step,
    );
    await ask(setup.url, setup.token, 'PUT', '/api/sessions/demo/plan', { body: { ...now, steps: others } });
    await plan.getByText('Meanwhile it says: Two by another').waitFor();
    expect(await field.inputValue()).toBe('Two, but better');
    await expectAccessible(page);
    await field.press('Enter');
    await eventually(steps).toEqual(['One', 'Three', 'Two, but better']);

    await plan.getByRole('button', { name: 'Skip' }).press('Enter');
    await plan.locator('summary', { hasText: 'Two, but better' }).getByText('skipped').waitFor();
    await plan.getByRole('button', { name: 'Reopen' }).press('Enter');
    await plan.locator('summary', { hasText: 'Two, but better' }).getByText('open').waitFor();

    // A step that is removed while its text is typed takes nothing of it along.
    await plan.getByRole('button', { name: 'Reword' }).press('Enter');
    await field.fill('Kept text');
    const then = (await ask(setup.url, setup.token, 'GET', '/api/sessions/demo/plan')).json as unknown as Plan;
    const left = then.steps.filter(({ description }) => description !== 'Two, but better');
    await ask(setup.url, setup.token, 'PUT', '/api/sessions/demo/plan', { body: { ...then, steps: left } });
    await plan.getByText('This step was removed meanwhile.').waitFor();
    expect(await field.inputValue()).toBe('Kept text');
    await field.press('Enter');
    await eventually(steps).toEqual(['One', 'Three', 'Kept text']);
    setup.model.release();
  },
);

webTest(
  'a server that ends during a run and is back later: nothing is lost or doubled on the page, in either direction',
  [
    { text: '[Step] One', calls: shell('echo first') },
    { text: ['Half ', 'and whole.'], hang: 'first' },
    { text: 'Thanks for the note. [Done]' },
  ],
  async (setup) => {
    await setup.startDaemon();
    await ask(setup.url, setup.token, 'POST', '/api/sessions/demo/messages', { body: { text: 'Do it' } });
    const page = await setup.open({ hash: '#/s/demo' });
    const log = page.getByRole('log');
    await log.getByText('Half').waitFor();
    await setup.stopServer();
    await page.getByText('No connection to the server').waitFor();
    await page.getByLabel('Message', { exact: true }).fill('a note');
    await page.keyboard.press('Enter');
    setup.model.release();
    await expect
      .poll(() => setup.on.events('demo').some((it) => it.type === 'model.answered' && /whole/.test(it.text)))
      .toBe(true);
    await setup.startServer();
    await log.locator('.answer', { hasText: 'Half and whole.' }).waitFor();
    await log.getByText('a note', { exact: true }).waitFor();
    await page.getByText('No connection to the server').waitFor({ state: 'detached' });
    for (const text of ['Do it', 'Half and whole.', 'a note'])
      expect(await log.getByText(text, { exact: true }).count()).toBe(1);
    expect(await log.locator('.call').count()).toBe(1);
    // The answer to the note may be under way.
    await eventually(() => log.locator('.live').count()).toBe(0);
    expect(await page.getByLabel('Message', { exact: true }).inputValue()).toBe('');
  },
);

webTest('keys go to sessions and fields and open their own list; the language is kept', [], async (setup) => {
  for (const name of ['one', 'two']) {
    await ask(setup.url, setup.token, 'POST', `/api/sessions/${name}/messages`, { body: { text: 'x' } });
  }
  const page = await setup.open({ language: 'zh-CN' });
  await page.getByRole('link', { name: '新会话' }).waitFor();
  await page.getByLabel('语言').selectOption('Deutsch');
  await page.reload();
  await page.getByRole('link', { name: 'Neue Sitzung' }).waitFor();
  await page.getByRole('link', { name: 'one' }).waitFor();
  await page.locator('h1').first().click();
  await page.keyboard.press('j');
  await eventually(() => page.url()).toMatch(/#\/s\/(one|two)$/);
  const first = page.url();
  await page.keyboard.press('j');
  await eventually(() => page.url()).not.toBe(first);
  await page.keyboard.press('k');
  await eventually(() => page.url()).toBe(first);
  // Two keys at once, before the browser has reported the address of the first.
  await page.evaluate(
    "for (const key of 'jk') document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }))",
  );
  await page.evaluate('new Promise((done) => setTimeout(done, 50))');
  expect(page.url()).toBe(first);
  await page.getByLabel('Nachricht', { exact: true }).waitFor();
  await page.keyboard.press('m');
  await page.keyboard.type('j?');
  expect(await page.getByLabel('Nachricht', { exact: true }).inputValue()).toBe('j?');
  await page.locator('h1').first().click();
  await page.keyboard.press('?');
  const help = page.getByRole('dialog', { name: 'Tastatur' });
  await help.getByText('Nächste Sitzung').waitFor();
  await expectAccessible(page);
  await page.keyboard.press('Escape');
  await help.waitFor({ state: 'hidden' });
});
