import * as fs from 'node:fs';
import { expect } from 'vitest';
import type { Plan } from '../../src/protocol/session/plan.ts';
import { sessionPaths } from '../../src/store/index.ts';
import { opened, record } from '../client/rig.ts';
import { ask } from '../http/serving.ts';
import {
  answered,
  eventually,
  expectAccessible,
  nameSession,
  openSession,
  shell,
  showAllEntries,
  useBrowser,
} from './page-setup.ts';

const webTest = useBrowser();
const DOT = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const HOSTILE = '<script>window.pwn=1</script><img src=x onerror="window.pwn=1">';

webTest(
  'files go with a message by button, drop and paste; those of work/ are listed, shown as text or pixels, and saved',
  [{ text: 'Seen. [Done]' }],
  async (setup) => {
    await setup.startDaemon();
    const page = await setup.open({ hash: '#/new' });
    const attached = page.getByRole('list', { name: 'Attached files' });
    const file = (name: string, text: string) => ({ name, mimeType: 'text/html', buffer: Buffer.from(text) });
    await page.locator('input[type=file]').setInputFiles([file('.hidden', 'x'), file('<b>.html', HOSTILE)]);
    for (const [target, type, field] of [
      ['document.body', 'drop', 'dataTransfer'],
      ['document.querySelector("textarea")', 'paste', 'clipboardData'],
    ])
      await page.evaluate(`{
        const ${field} = new DataTransfer();
        ${field}.items.add(new File(['by ${type}'], '${type}.txt'));
        const Kind = { drop: DragEvent, paste: ClipboardEvent }.${type};
        ${target}.dispatchEvent(new Kind('${type}', { ${field}, bubbles: true, cancelable: true }));
      }`);
    await eventually(() => attached.locator('.name').allTextContents()).toEqual([
      ...['.hidden', '<b>.html', 'drop.txt', 'paste.txt'],
    ]);
    await nameSession(page, 'demo');
    await page.getByLabel('Task').fill('Look at them');
    await page.keyboard.press('Enter');
    await attached.getByRole('alert').getByText('does not begin with a dot').waitFor();
    await expectAccessible(page);
    await page.getByRole('button', { name: 'Remove .hidden' }).press('Enter');
    await page.getByLabel('Task').press('Enter');

    const log = page.getByRole('log');
    await log.getByRole('link', { name: 'uploads/drop.txt' }).waitFor();
    await log.locator('.reply.done').waitFor();
    await eventually(() => attached.count()).toBe(0);
    await log.getByRole('link', { name: 'uploads/<b>.html' }).press('Enter');
    const files = page.getByRole('region', { name: 'Files' });
    await files.locator('pre').getByText(HOSTILE, { exact: true }).waitFor();

    const work = `${setup.on.session('demo')}/work`;
    fs.writeFileSync(`${work}/dot.png`, Buffer.from(DOT, 'base64'));
    fs.writeFileSync(`${work}/page.png`, HOSTILE);
    fs.writeFileSync(`${work}/data.bin`, Buffer.from([0, 1, 2, 255]));
    fs.writeFileSync(`${work}/long.txt`, '好'.repeat(100_000));
    fs.writeFileSync(`${work}/empty`, '');
    fs.symlinkSync('/etc/passwd', `${work}/link`);
    await page.locator('h1').first().click();
    await page.keyboard.press('t');
    await log.waitFor();
    await page.keyboard.press('f');
    await files.getByRole('link', { name: 'uploads' }).waitFor();
    expect(await files.locator('tbody tr').allTextContents()).toEqual([
      expect.stringMatching(/^uploads\/Folder/),
      ...[/^data\.bin4 bytes/, /^dot\.png70 bytes/, /^empty0 bytes/, /^linkLink, not followed/, /^long\.txt300 kB/].map(
        (text) => expect.stringMatching(text),
      ),
      expect.stringMatching(/^page\.png/),
    ]);
    expect(await files.getByRole('link', { name: 'link' }).count()).toBe(0);
    await expectAccessible(page);

    const show = async (name: string) => {
      await page.goto(`${setup.url}/#/s/demo/files`);
      await files.getByRole('link', { name, exact: true }).press('Enter');
      await files.getByRole('button', { name: 'Download' }).waitFor();
    };
    await show('dot.png');
    await eventually(() => page.evaluate(`document.querySelector('.view img')?.naturalWidth`)).toBe(1);
    await show('page.png');
    await files.locator('pre').getByText(HOSTILE, { exact: true }).waitFor();
    await show('empty');
    await files.getByText('This file is empty.').waitFor();
    await show('long.txt');
    await files.getByText('The first 262 kB of 300 kB.').waitFor();
    expect(await files.locator('pre').textContent()).toMatch(/^好{87381}$/);
    await expectAccessible(page);
    await show('data.bin');
    await files.getByText('No preview').waitFor();
    const [saved] = await Promise.all([
      page.waitForEvent('download'),
      files.getByRole('button', { name: 'Download' }).press('Enter'),
    ]);
    expect([saved.suggestedFilename(), fs.readFileSync(await saved.path())]).toEqual([
      'data.bin',
      Buffer.from([0, 1, 2, 255]),
    ]);
    await page.goto(`${setup.url}/#/s/demo/files/nothing`);
    await files.getByRole('alert').getByText('existing file').waitFor();
    expect(await page.evaluate('window.pwn ?? null')).toBeNull();
    expect(await page.locator('iframe, object, embed').count()).toBe(0);
  },
);

webTest(
  'notes, the versions of a plan and the way back to one, undo, usage, settings, pins and search; a daemon that ends and is back',
  [
    { text: '[Step] One', calls: shell('true') },
    { text: 'Did it. [Done]', hang: 'before', usage: null },
    { text: 'x', hang: 'before' },
    { text: 'y', hang: 'before' },
    { text: 'z', hang: 'before' },
  ],
  async (setup) => {
    setup.on.config({ limits: { minutes: 7 } });
    const daemon = await setup.startDaemon();
    const api = (method: string, path: string, body?: object) => ask(setup.url, setup.token, method, path, { body });
    await api('POST', '/api/sessions/demo/messages', { text: 'Do it' });
    const page = await setup.open({ hash: '#/s/demo' });
    const plan = page.getByRole('region', { name: 'Plan' });
    await setup.model.arrived(2);
    await plan.getByLabel('New step').fill('Two');
    await page.keyboard.press('Enter');
    await plan.locator('summary', { hasText: 'Two' }).press('Enter');
    await plan.getByRole('button', { name: 'Notes' }).press('Enter');
    await plan.getByLabel('Notes').fill('Mind the gap');
    await page.keyboard.press('Enter');
    await plan.locator('dd').getByText('Mind the gap').waitFor();

    // A step waits for one that does not exist, which the server reports with each edit.
    const now = async () => (await api('GET', '/api/sessions/demo/plan')).json as unknown as Plan;
    await eventually(async () => (await now()).steps[1]?.notes).toBe('Mind the gap');
    const { steps, ...rest } = await now();
    const left = [steps[0], { description: 'Three', needs: ['nowhere'] }];
    await api('PUT', '/api/sessions/demo/plan', { ...rest, steps: left });
    await eventually(() => plan.locator('.description').allTextContents()).toEqual(['One', 'Three']);
    await page.locator('h1').first().click();
    await page.keyboard.press('v');
    const versions = page.getByRole('region', { name: 'Versions' });
    const withNotes = versions.getByRole('listitem').filter({ hasText: 'Notes: Mind the gap' }).last();
    await versions.getByText('Removed: Two').waitFor();
    await withNotes.locator('..').locator('..').locator('summary').press('Enter');
    await versions.getByText('Changed since then').waitFor();
    await expectAccessible(page);
    await versions.getByRole('button', { name: /^Restore version/ }).press('Enter');
    await versions.getByText(/^Saved: .*was added: Two/).waitFor();
    await eventually(async () => (await now()).steps.map(({ description, notes }) => [description, notes])).toEqual([
      ['One', undefined],
      ['Two', 'Mind the gap'],
    ]);
    expect(await versions.getByText(/^Not taken over/).count()).toBe(0);

    const again = await now();
    await api('PUT', '/api/sessions/demo/plan', { ...again, steps: [...again.steps, left[1]] });
    await page.keyboard.press('t');
    await plan.locator('summary', { hasText: 'Three' }).waitFor();
    await plan.locator('summary', { hasText: 'Two' }).press('Enter');
    await plan.getByRole('button', { name: 'Notes' }).press('Enter');
    await plan.getByLabel('Notes').fill('');
    await page.keyboard.press('Enter');
    await plan.getByText(/^Not taken over: .*names nowhere in "needs"/).waitFor();
    await eventually(async () => (await now()).steps[1]?.notes).toBeUndefined();

    setup.model.release();
    await plan.locator('summary', { hasText: 'One' }).getByText('completed').waitFor();
    await setup.model.arrived(3);
    // Steps that have begun stay, whatever version is restored; the first had no steps.
    await page.locator('h1').first().click();
    await page.keyboard.press('v');
    await versions.locator('.versions > li').last().locator('summary').press('Enter');
    await versions.getByRole('button', { name: 'Restore version 1' }).press('Enter');
    await eventually(async () => (await now()).steps.map((it) => [it.description, it.status])).toEqual([
      ['One', 'completed'],
      ['Two', 'running'],
    ]);
    await page.locator('h1').first().click();
    await page.keyboard.press('t');
    await plan.getByRole('button', { name: 'Undo last step' }).press('Enter');
    await eventually(() => JSON.stringify(setup.on.events('demo'))).toContain('"command":"undo"');
    setup.model.release();
    await plan.locator('summary', { hasText: 'One' }).getByText('completed').waitFor({ state: 'detached' });

    daemon.process.kill('SIGKILL');
    await page.getByText('No daemon is running.').waitFor();
    await setup.startDaemon();
    await page.getByText('No daemon is running.').waitFor({ state: 'detached' });
    await page.getByRole('log').getByText('The daemon restarted').waitFor();

    await page.locator('h1').first().click();
    await page.keyboard.press('u');
    const details = page.getByRole('region', { name: 'Usage and settings' });
    await details.getByRole('row', { name: /^limits\.minutes 7 agentd\.json$/ }).waitFor();
    await details.getByText(/^Defaults/).press('Enter');
    await expectAccessible(page);
    await page.getByRole('link', { name: 'Usage and settings' }).press('Enter');
    await details.getByRole('row', { name: /^demo [2-9] ~/ }).waitFor();
    await expectAccessible(page);

    const list = page.getByRole('navigation', { name: 'Sessions' });
    await list.getByRole('searchbox').fill('running DEM');
    await list.getByRole('link', { name: 'demo' }).waitFor();
    await list.getByRole('searchbox').fill('running dam');
    await list.getByText('No session matches.').waitFor();
    await expectAccessible(page);
    fs.writeFileSync(`${setup.on.session('demo')}/session.json`, '{ "mode": "sideways" }');
    await list.getByRole('searchbox').fill('sideways');
    await list.getByRole('link', { name: 'demo' }).waitFor();
    fs.rmSync(`${setup.on.session('demo')}/session.json`);
    fs.writeFileSync(`${setup.on.session('demo')}/plan.json`, '{');
    await list.getByRole('searchbox').fill('plan.json does not parse: line 1, column 2');
    await list.getByRole('region', { name: 'Needs you' }).getByRole('link', { name: 'demo' }).waitFor();
    fs.writeFileSync(`${setup.on.session('demo')}/../../agentd.json`, '{');
    await page.goto(`${setup.url}/#/s/demo`);
    const alerts = page.getByRole('main').getByRole('alert');
    await alerts.getByText('plan.json does not parse: line 1, column 2').waitFor();
    await alerts.getByText('agentd.json is not JSON').waitFor();
    await expectAccessible(page);

    const devtools = await page.context().newCDPSession(page);
    expect((await devtools.send('Page.getAppManifest')).errors).toEqual([]);
    // Nothing else stands in the way: a browser of a test is private.
    const { installabilityErrors } = await devtools.send('Page.getInstallabilityErrors');
    expect(installabilityErrors.map(({ errorId }) => errorId)).toEqual(['in-incognito']);
  },
);

webTest(
  'of a long session the newest entries come first, earlier ones when a reader scrolls up or asks; none is lost or doubled, also while more comes',
  [],
  async (setup) => {
    const says = (text: string) => answered(text, []);
    const numbered = (from: number, to: number) =>
      Array.from({ length: to - from + 1 }, (_, place) => says(`Answer ${from + place}.`));
    const call = { call: '2.0', name: 'shell' };
    await openSession(setup, [
      ...[opened, ...numbered(2, 440)],
      // Its beginning and its end are read apart.
      { type: 'tool.started', ...call, args: '{"command":"sleep 9"}', replay: 'safe' },
      ...numbered(442, 890),
      { type: 'tool.finished', ...call, ok: true, output: { text: 'the output' }, ms: 9000 },
      ...numbered(892, 930),
    ]);
    const page = await setup.open();
    const asked: string[] = [];
    page.on('request', (request) => asked.push(...(/events(.*)/.exec(request.url()) ?? []).slice(1)));
    await page.goto(`${setup.url}/#/s/demo`);
    const log = page.getByRole('log');
    await log.getByText('Answer 930.').waitFor();
    expect(await log.locator('.answer').first().textContent()).toContain('Answer 871.');
    expect(asked).toEqual(['?last=60']);

    // The entries in view do not move.
    const place = (text: string) =>
      log
        .getByText(text)
        .boundingBox()
        .then((box) => Math.round(box?.y ?? 0));
    await page.evaluate("document.querySelector('.transcript').scrollTo(0, 200)");
    const before = await place('Answer 880.');
    await page.evaluate("document.querySelector('.transcript').scrollTo(0, 0)");
    await log.getByText('Answer 831.').waitFor();
    expect(asked).toEqual(['?last=60', '?before=871&last=400']);
    await page.evaluate("document.querySelector('.transcript').scrollBy(0, 200)");
    // The browser scrolls to whole pixels, and a line may end between two.
    expect(Math.abs((await place('Answer 880.')) - before)).toBeLessThanOrEqual(1);

    await record(sessionPaths(setup.on.session('demo')), [says('Answer 931.')]);
    await showAllEntries(page);
    await log.getByText('Answer 931.').waitFor();
    const numbers = await log
      .locator('.answer')
      .evaluateAll((all) => all.map((one) => Number(/Answer (\d+)\./.exec(one.textContent ?? '')?.[1])));
    expect(numbers).toEqual(Array.from({ length: 930 }, (_, at) => at + 2).filter((it) => it !== 441 && it !== 891));
    expect(await log.locator('.call').count()).toBe(1);
    await log.locator('summary', { hasText: 'sleep 9' }).getByText('done').waitFor();
    expect(asked).toEqual(['?last=60', '?before=871&last=400', '?before=471&last=400', '?before=71&last=400']);
  },
);
