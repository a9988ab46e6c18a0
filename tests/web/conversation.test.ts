import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import type { EventBody } from '../../src/protocol/session/event.ts';
import { opened, planned, received, started } from '../client/rig.ts';
import { answered, eventually, expectAccessible, openSession, useBrowser } from './page-setup.ts';

const webTest = useBrowser();

const call = (place: number, name: string, args: object, output?: string): EventBody[] => [
  { type: 'tool.started', call: `9.${place}`, name, args: JSON.stringify(args), replay: 'safe' },
  ...(output === undefined
    ? []
    : [{ type: 'tool.finished' as const, call: `9.${place}`, ok: true, output: { text: output }, ms: 2000 }]),
];

webTest(
  'the conversation reads like work: a heading for each step, calls in words with a clock, changes line by line, no protocol',
  [],
  async (setup) => {
    await openSession(setup, [
      ...[opened, received('1.md', 'Order the receipts'), started('1.md')],
      { type: 'plan.started', id: 'p', goal: 'Order', mode: 'linear', limits: { iterations: 9, step_iterations: 5 } },
      answered('I will read them.\n\n[Step] Read the receipts\n[Step] Add them up'),
      ...['Read the receipts', 'Add them up'].map((description, place): EventBody => {
        return { type: 'step.added', step: { id: `s${place}`, description, status: 'pending' }, by: 'model' };
      }),
      { type: 'step.started', step: 's0' },
      ...call(0, 'shell', { command: 'ls receipts' }, 'exit 0\n1.txt'),
      ...call(1, 'edit_file', { path: 'sum.md', old: 'nothing', new: 'something' }, 'replaced line 1'),
      ...call(2, 'browser', { action: 'navigate', url: 'https://bank.test/' }, 'https://bank.test/ — My bank\n- text'),
      ...call(3, 'mcp__books__count', { of: 'receipts' }, '4'),
      ...call(4, 'ask_user', { question: 'In **euros**?' }, 'yes'),
      answered('There are four. [Done]'),
      { type: 'step.completed', step: 's0', by: 'marker', evidence: 'There are four. [Done]', result: 'four' },
      { type: 'step.started', step: 's1' },
      ...call(5, 'shell', { command: `sleep 9 # ${'and wait '.repeat(30)}` }),
    ]);
    const page = await setup.open({ hash: '#/s/demo' });
    const log = page.getByRole('log');
    await log.getByRole('heading', { name: 'running Add them up' }).waitFor();
    const parts = await log
      .locator(':scope > *')
      .evaluateAll((all) => all.map((one) => (one.textContent ?? '').replace(/\s+/g, ' ').trim()));
    expect(parts).toEqual([
      expect.stringMatching(/^You .*Order the receipts$/),
      'I will read them.',
      expect.stringMatching(/^completed ?Read the receipts/),
      ...['done $ ls receipts 2s', 'done edit sum.md 2s', 'done use the browser My bank 2s'],
      ...['done use mcp__books__count receipts 2s', 'done ask In **euros**? 2s', 'There are four.'],
      expect.stringMatching(/^running ?Add them up/),
      expect.stringMatching(/^running \$ sleep 9 .*\d/),
      'You: waits in the inboxx',
    ]);
    expect(await log.getByRole('article', { name: /^(?:You|The agent), .*\d:\d\d/ }).count()).toBe(3);
    for (const name of ['edit sum.md', 'ask In', 'sleep 9']) await log.locator('summary', { hasText: name }).click();
    expect(await log.locator('.patch').allInnerTexts()).toEqual(['- nothing\n+ something']);
    expect(await log.getByRole('link', { name: 'sum.md' }).getAttribute('href')).toBe('#/s/demo/files/sum.md');
    await log.locator('strong', { hasText: 'euros' }).waitFor();
    await expectAccessible(page);
  },
);

webTest(
  'words that may be a new task are asked about where the composer is, with the answers of all faces',
  [],
  async (setup) => {
    const spent = { iterations: 1, tokens: 0, cost: null };
    await openSession(setup, [
      ...[opened, received('1.md'), started('1.md'), ...planned('p', 'Order'), received('2.md', 'hm')],
      { type: 'meaning.asked', message: '2.md' },
      {
        type: 'run.ended',
        message: '1.md',
        status: 'waiting',
        reason: 'doubt',
        text: 'Go on, or a **new** task?',
        spent,
      },
    ]);
    rmSync(join(setup.on.session('demo'), 'inbox'), { recursive: true });
    mkdirSync(join(setup.on.session('demo'), 'inbox'));
    const page = await setup.open({ hash: '#/s/demo' });
    const asked = page.getByRole('region', { name: 'The agent asks you' });
    await asked.waitFor();
    expect(await asked.getByRole('button').allTextContents()).toEqual(['go on', 'new task', '', 'Send']);
    expect(await page.getByRole('button', { name: 'Continue' }).count()).toBe(0);
    await asked.getByRole('button', { name: 'go on' }).press('Enter');
    await eventually(() => setup.on.sh('demo', 'find inbox -type f -exec cat {} +')).toContain('"go on"');
  },
);
