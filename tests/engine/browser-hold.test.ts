import { expect, test } from 'vitest';
import type { BrowserLost } from '../../src/protocol/workspace/handover.ts';
import { type Move, moves, type Rig, type RigOptions, rig } from '../support/rig.ts';

const look: Move = { calls: [{ name: 'browser', args: { action: 'snapshot' } }] };
const held: Move = { hold: true, next: () => look };

/** A session with a browser: what the engine asks of it, and what it says of itself. */
async function withBrowser(options: Partial<RigOptions> = {}) {
  const browser = { isOpen: true, lost: null as BrowserLost | null, orders: [] as string[] };
  const order = (name: string) => () => {
    if (browser.orders.at(-1) !== name) browser.orders.push(name);
  };
  const control = {
    get state() {
      return { isOpen: browser.isOpen, lost: browser.lost };
    },
    give: order('give'),
    takeBack: order('take back'),
  };
  const it = await rig({
    script: moves(held, { text: 'Done.' }),
    around: (ports) => ({ ...ports, browser: control }),
    ...options,
  });
  return { it, browser };
}

/** The model is asked; it will want the browser once it is let go. */
async function asked(options: Partial<RigOptions> = {}) {
  const both = await withBrowser(options);
  both.it.drop('1.md', 'go');
  await both.it.settle();
  expect(both.it.requests).toHaveLength(1);
  return both;
}

const holds = (it: Rig) => it.events().filter(({ type }) => type.startsWith('browser.'));
const say = async (it: Rig, name: string, text: string, from?: string) => {
  await it.say(`${name}.json`, JSON.stringify({ text, ...(from !== undefined && { from }) }));
  return it.reply(`${name}.json`) ?? '';
};

test('a person takes the browser over while the model thinks; its call waits, and is not begun once the browser is back', async () => {
  const { it, browser } = await asked();
  expect(await say(it, '2', '/browser take', 'ana')).toContain('You have the browser');
  expect(browser.orders.at(-1)).toBe('give');
  expect(await say(it, '3', '/browser take', 'bob')).toContain('ana has had the browser since');
  expect(await say(it, '4', '/browser take', 'ana')).toContain('You have the browser');
  expect(await say(it, '5', '/status')).toContain('ana has had the browser');
  it.release();
  await it.pass(120_000);
  expect(it.toolRuns).toEqual([]);
  expect(it.types().at(-1)).not.toBe('run.ended');
  expect(it.worker.isIdle).toBe(false);
  expect(await say(it, '6', '/browser return', 'bob')).toContain('The agent has its browser back');
  await it.settle();
  expect(browser.orders.at(-1)).toBe('take back');
  expect(holds(it)).toMatchObject([
    { type: 'browser.taken', message: '2.json', from: 'ana' },
    { type: 'browser.returned', by: 'person', from: 'bob', reason: 'given_back' },
  ]);
  expect(it.toolRuns).toEqual([]);
  const messages = it.requests[1]?.messages ?? [];
  expect(messages.findLast(({ role }) => role === 'tool')?.content).toMatch(/^\[not run: a person used the browser/);
  expect(messages.at(-1)?.content).toContain('A person used your browser meanwhile');
  expect(it.reply('1.md')).toContain('Done.');
});

test('who lost the browser does not keep the agent from it, also while the model thinks; the model is told once', async () => {
  const { it, browser } = await asked({ script: moves(held, look, { text: 'Done.' }) });
  await say(it, '2', '/browser take');
  browser.lost = 'nobody_there';
  await it.wake();
  expect(holds(it).at(-1)).toMatchObject({ type: 'browser.returned', by: 'daemon', reason: 'nobody_there' });
  browser.lost = null;
  await it.letGo();
  // The first call was chosen before it was told, the second after it.
  expect(it.toolRuns).toHaveLength(1);
  const told = it.requests.map(({ messages }) =>
    messages.some(({ content }) => /your browser meanwhile/.test(String(content))),
  );
  expect(told).toEqual([false, true, false]);
  expect(it.reply('1.md')).toContain('Done.');
});

test('a run that waits for the browser is cancelled at once; the person keeps the browser, also through /new', async () => {
  const { it, browser } = await asked();
  await say(it, '2', '/browser take');
  await it.letGo();
  await say(it, '3', '/cancel');
  expect(it.reply('1.md')).toContain('cancelled');
  await say(it, '4', '/new');
  expect(browser.orders.at(-1)).toBe('give');
  expect(await say(it, '5', '/browser')).toContain('The owner of the workspace has had the browser');
  expect(await say(it, '6', '/browser return')).toContain('back');
  expect(await say(it, '7', '/browser')).toContain('the agent uses it');
  await it.pass(60_000);
  expect(it.worker.isIdle).toBe(true);
});

test('a browser that is not open is not taken over, and words that mean nothing are refused with the usage', async () => {
  const { it, browser } = await withBrowser();
  browser.isOpen = false;
  expect(await say(it, '1', '/browser take')).toContain('No browser is open');
  expect(await say(it, '2', '/browser grab')).toContain('Usage: /browser');
  expect(await say(it, '3', '/browser return')).toContain('Nobody has taken the browser over');
  expect(holds(it)).toEqual([]);
});

test('nobody has the browser once its daemon ended, by a crash or in order', async () => {
  const { it } = await withBrowser({ script: moves({ text: 'Hi.' }) });
  await say(it, '1', '/browser take', 'ana');
  // A daemon looks at each session whose last reply does not say that all was done.
  expect(it.events().at(-1)).toMatchObject({ type: 'reply.published', idle: false });
  await it.restart();
  expect(holds(it).at(-1)).toMatchObject({ type: 'browser.returned', by: 'daemon', reason: 'daemon_ended' });
  await say(it, '2', '/browser take', 'ana');
  await it.worker.stop(0);
  expect(it.events().at(-1)).toMatchObject({ type: 'browser.returned', reason: 'daemon_ended' });
});

test('a call whose permission is being checked does not begin when the browser is taken over meanwhile', async () => {
  let allow = (): void => undefined;
  const checking = new Promise<void>((resolve) => {
    allow = resolve;
  });
  const { it } = await withBrowser({
    script: moves(look, { text: 'Done.' }),
    around: (ports) => ({
      ...ports,
      browser: { state: { isOpen: true, lost: null }, give() {}, takeBack() {} },
      tools: { ...ports.tools, checkPermission: () => checking.then(() => ({ is: 'allow' as const })) },
    }),
  });
  await it.say('1.md', 'go');
  await say(it, '2', '/browser take');
  allow();
  await it.pass(60_000);
  expect(it.toolRuns).toEqual([]);
  expect(it.types()).not.toContain('tool.started');
  await say(it, '3', '/browser return');
  expect(it.reply('1.md')).toContain('Done.');
});
