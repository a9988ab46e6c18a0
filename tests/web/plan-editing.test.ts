import { expect } from 'vitest';
import type { Plan, Step } from '../../src/protocol/session/plan.ts';
import { opened, received, started } from '../client/rig.ts';
import { ask } from '../http/serving.ts';
import { eventually, expectAccessible, openSession, shell, useBrowser } from './page-setup.ts';

const webTest = useBrowser();

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

    // Removing a step while its text is being typed does not lose the text.
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
    await expectAccessible(page);
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

const step = (id: string, text: string, more: Partial<Step> = {}): Step => ({
  ...{ id, description: text, status: 'pending', ...more },
});

webTest(
  'the plan as a graph: steps are links with names that say what the lines show; many parts, rollback, child sessions',
  [],
  async (setup) => {
    const long = 'Sum up a_very_long_word_that_is_wider_than_a_node';
    const parts = Array.from({ length: 12 }, (_, place) =>
      step(`b${place}`, `Part ${place}`, { parent: 'b', ...(place < 5 && { status: 'completed' }) }),
    );
    const steps = [
      step('a', 'Fetch the 资料', { status: 'completed', rollback: 'undo' }),
      step('b', 'Read <b>each</b> of them', { needs: ['a'], each: { list: ['x'] } }),
      ...parts,
      step('c', long, { ...{ gather: { from: 'b' }, when: [{ step: 'a', status: 'completed' }], child: 'demo~c' } }),
      step('undo', 'Put it back', { status: 'skipped' }),
      step('loop', 'Waits for itself', { needs: ['loop', 'nowhere'], parent: 'loop' }),
    ];
    const limits = { iterations: 9, step_iterations: 5 };
    await openSession(setup, [
      ...[opened, received('1.md'), started('1.md')],
      { type: 'plan.started', id: 'p', goal: 'Report', mode: 'dag', limits, steps },
    ]);
    const page = await setup.open({ hash: '#/s/demo' });
    const plan = page.getByRole('region', { name: 'Plan' });
    await plan.locator('summary').first().waitFor();
    // A skipped step is not a done one, as in the reply and on the command line.
    expect(await page.locator('.run-state [role=status]').textContent()).toContain('6 of 17 steps');
    await plan.getByRole('button', { name: 'Graph' }).press('Enter');
    const graph = plan.getByRole('group', { name: 'Graph' });
    await graph.getByRole('link').first().waitFor();
    const links = graph.getByRole('link');
    const names = await links.evaluateAll((all) => all.map((one) => one.getAttribute('aria-label')));
    const shown = parts.map(
      ({ description, status }, number) =>
        `${number + 3} ${status === 'completed' ? status : 'open'} ${description}; part of: Read <b>each</b> of them`,
    );
    expect(names).toEqual([
      '1 completed Fetch the 资料; undone by: Put it back',
      '2 open Read <b>each</b> of them; needs: Fetch the 资料',
      ...shown,
      `15 open ${long}; puts together: Read <b>each</b> of them; condition: Fetch the 资料; child session`,
      '16 skipped Put it back',
      '17 open Waits for itself; needs: Waits for itself',
      'Child session: idle demo~c',
    ]);
    // Each below what it waits for, also for the parts of that.
    const tops = await links.evaluateAll((all) => all.map((one) => [one.id, one.getBoundingClientRect().top] as const));
    const top = new Map(tops);
    for (const [above, below] of [
      ...[['a', 'b'] as const, ['b', 'b0'] as const, ['b11', 'c'] as const, ['a', 'undo'] as const],
    ])
      expect(top.get(`node ${above}`), `${above} ${below}`).toBeLessThan(top.get(`node ${below}`) ?? 0);
    await expectAccessible(page);
    // A step has its own URL, which expands it below the graph and focuses it.
    await page.setViewportSize({ width: 1280, height: 800 });
    const focused = (attribute: string) => page.evaluate(`document.activeElement.getAttribute('${attribute}')`);
    await links.first().focus();
    await page.keyboard.press('Enter');
    await plan.getByRole('button', { name: 'Reopen' }).waitFor();
    await eventually(() => focused('id')).toBe('step a');
    expect(new URL(page.url()).hash).toBe('#/s/demo/run/a');
    expect(await graph.locator('[aria-current]').getAttribute('aria-label')).toMatch(/^1 /);
    await plan.getByRole('button', { name: 'List' }).press('Enter');
    await page.reload();
    await eventually(() => focused('id')).toBe('step a');
    expect(await plan.locator('details[open]').count()).toBe(1);
    await plan.getByRole('button', { name: 'Graph' }).press('Enter');
    await graph.getByRole('link', { name: /^Child session/ }).press('Enter');
    await page.getByText('does not exist, or was removed').waitFor();
    await page.goBack();
    await graph.waitFor();
    expect(await graph.locator('[style], script').count()).toBe(0);
  },
);

webTest(
  'while no daemon runs, the page says that an edit waits, and shows it once a daemon has made it',
  [],
  async (setup) => {
    const limits = { iterations: 9, step_iterations: 5 };
    const steps = [step('a', 'One', { status: 'running' })];
    await openSession(setup, [
      ...[opened, received('1.md'), started('1.md')],
      { type: 'plan.started', id: 'p', goal: 'Report', mode: 'linear', limits, steps },
    ]);
    const page = await setup.open({ hash: '#/s/demo' });
    const plan = page.getByRole('region', { name: 'Plan' });
    await plan.getByLabel('New step').fill('Two');
    await page.keyboard.press('Enter');
    await plan
      .getByRole('status')
      .getByText(/^Sent\. /)
      .waitFor();
    const shown = () => plan.locator('.description').allTextContents();
    expect(await shown()).toEqual(['One']);
    await setup.startDaemon();
    await eventually(shown).toEqual(['One', 'Two']);
  },
);

webTest(
  'for a plan of hundreds of steps, the graph shows those around the active or selected step',
  [],
  async (setup) => {
    const limits = { iterations: 9, step_iterations: 5 };
    const status = (place: number) => (place < 150 ? 'completed' : place === 150 ? 'running' : 'pending');
    const parts = [1, 2, 3].map((place) => step(`part${place}`, `Part ${place}`, { parent: 's299' }));
    const steps = [
      ...Array.from({ length: 300 }, (_, place) => step(`s${place}`, `Step ${place}`, { status: status(place) })),
      ...parts,
    ];
    await openSession(setup, [
      ...[opened, received('1.md'), started('1.md')],
      { type: 'plan.started', id: 'p', goal: 'Report', mode: 'linear', limits, steps },
    ]);
    const page = await setup.open({ hash: '#/s/demo' });
    const plan = page.getByRole('region', { name: 'Plan' });
    await plan.getByRole('button', { name: 'Graph' }).press('Enter');
    const graph = plan.getByRole('group', { name: 'Graph' });
    const shown = async () =>
      (await graph.getByRole('link').allTextContents()).map((text) => Number(/(?:Step|Part) (\d+)$/.exec(text)?.[1]));
    const places = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, at) => from + at);
    await eventually(shown).toEqual(places(120, 179));
    await plan.getByText(/^60 of 303 steps/).waitFor();
    await expectAccessible(page);
    await graph.getByRole('link', { name: /^180 / }).press('Enter');
    await eventually(shown).toEqual(places(149, 208));
    await page.goto(`${setup.url}/#/s/demo/run/part2`);
    await eventually(async () => (await shown()).slice(-4)).toEqual([299, 1, 2, 3]);
    expect(await graph.locator('[aria-current]').getAttribute('aria-label')).toMatch(/^302 .*part of: Step 299/);
    expect(await graph.getByRole('link').count()).toBe(60);
  },
);

webTest('keyboard shortcuts open sessions, fields and their own list; the language is stored', [], async (setup) => {
  for (const name of ['one', 'two']) {
    await ask(setup.url, setup.token, 'POST', `/api/sessions/${name}/messages`, { body: { text: 'x' } });
  }
  const page = await setup.open({ language: 'zh-CN' });
  await page.getByRole('link', { name: '新会话' }).waitFor();
  await page.getByLabel('语言').selectOption('English');
  await page.reload();
  await page.getByRole('link', { name: 'New session' }).waitFor();
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
  await page.getByLabel('Message', { exact: true }).waitFor();
  await page.keyboard.press('m');
  await page.keyboard.type('j?');
  expect(await page.getByLabel('Message', { exact: true }).inputValue()).toBe('j?');
  await page.locator('h1').first().click();
  await page.keyboard.press('?');
  const help = page.getByRole('dialog', { name: 'Keyboard' });
  await help.getByText('Next session').waitFor();
  await expectAccessible(page);
  await page.keyboard.press('Escape');
  await help.waitFor({ state: 'hidden' });
});
