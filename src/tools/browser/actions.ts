import { setTimeout as sleep } from 'node:timers/promises';
import type { Frame, Locator, Page } from 'playwright-core';
import { z } from 'zod';
import { UserError } from '../../protocol/errors.ts';
import { readUrl } from '../web/destination.ts';
import type { Request, RequestOf } from './args.ts';
import { arrive, react } from './arrive.ts';
import { type Desk, type Done, done, element, isDownload } from './desk.ts';
import { clickForFile, fetchFile } from './fetch-file.ts';
import { picture } from './picture.ts';
import type { Tab } from './tabs.ts';

const NAVIGATE_MS = 30_000;
const SCROLL_STEP = 0.85;
const WAIT_LOOK_MS = 100;

type Act<Action extends Request['action']> = (request: RequestOf<Action>, tab: Tab, desk: Desk) => Promise<Done>;

const ACTS: { [Action in Request['action']]: Act<Action> } = {
  navigate,
  snapshot: async ({ from }) => ({ ok: true, says: [], page: 'all', from }),
  click: (request, tab, desk) => onElement(request.ref, tab, desk, (found, within) => found.click(within)),
  type: (request, tab, desk) => onElement(request.ref, tab, desk, (found, within) => type(found, request, within)),
  press: (request, tab, desk) => after(tab, desk, () => press(request, tab, desk)),
  select: (request, tab, desk) =>
    onElement(request.ref, tab, desk, (found, within) => select(found, request.values, within)),
  scroll: (request, tab, desk) => after(tab, desk, () => scroll(request, tab, desk)),
  wait,
  back: (_request, tab, desk) => back(tab, desk),
  async screenshot({ whole = false, ref }, tab, desk) {
    const found = ref === undefined ? undefined : await element(ref, tab);
    const { says, images } = await picture(tab.page, { ...desk, found, whole });
    return { ok: true, says: [says], page: 'none', images };
  },
  async download({ url, ref }, tab, desk) {
    if (url !== undefined) return fetchFile(readUrl(url), desk);
    return clickForFile(await element(ref ?? '', tab), desk);
  },
  async tab({ number }, _tab, { browser: { tabs } }) {
    if (!tabs.show(number)) throw new UserError(`There is no tab ${number}: ${tabs.count()} are open.`);
    return { ok: true, says: [], page: 'all' };
  },
  async close(_request, _tab, { browser: { tabs } }) {
    await tabs.closeCurrent();
    return { ok: true, says: ['The tab was closed.'], page: tabs.count() > 0 ? 'all' : 'none' };
  },
};

/** Does one thing on the current tab. Throws UserError, or what Playwright throws. */
export async function act<Action extends Request['action']>(
  request: RequestOf<Action> & { action: Action },
  desk: Desk,
): Promise<Done> {
  const tab = await desk.browser.tabs.current();
  return ACTS[request.action](request, tab, desk);
}

async function onElement(
  ref: string,
  tab: Tab,
  desk: Desk,
  use: (found: Locator, within: Within) => Promise<unknown>,
): Promise<Done> {
  const found = await element(ref, tab);
  return after(tab, desk, () => use(found, within(desk)));
}

/** How long an element is waited for, as Playwright takes it. */
type Within = { timeout: number; signal: AbortSignal };
const within = ({ patience, signal }: Desk): Within => ({ timeout: patience.elementMs, signal });

async function after(tab: Tab, desk: Desk, run: () => Promise<unknown>): Promise<Done> {
  const before = tab.traffic.arrived;
  await run();
  await react(tab, before, desk);
  return done();
}

async function navigate({ url: asked }: RequestOf<'navigate'>, now: Tab, desk: Desk): Promise<Done> {
  const { browser, signal } = desk;
  const url = readUrl(asked).href;
  const tab = now.isStuck ? await browser.tabs.renew() : now;
  const response = await tab.page
    .goto(url, { timeout: NAVIGATE_MS, waitUntil: 'domcontentloaded', signal })
    .catch((error: unknown) => {
      if (isDownload(error)) return 'a file' as const;
      throw error;
    });
  if (response === 'a file') {
    await browser.tabs.downloads.waitForOne(NAVIGATE_MS, signal);
    return { ok: true, says: ['That is a file, not a page.'], page: 'none' };
  }
  await arrive(tab, desk);
  const status = response?.status() ?? 200;
  if (status < 400) return { ok: true, says: [], page: 'all' };
  return { ok: false, says: [`The server answered ${status} ${response?.statusText() ?? ''}`.trim()], page: 'all' };
}

async function back({ page, traffic }: Tab, desk: Desk): Promise<Done> {
  const { browser, signal } = desk;
  const before = traffic.arrived;
  const response = await page.goBack({ timeout: NAVIGATE_MS, waitUntil: 'domcontentloaded', signal });
  if (response === null && traffic.arrived === before) throw new UserError('There is no page to go back to.');
  await arrive(await browser.tabs.current(), desk);
  return { ok: true, says: [], page: 'all' };
}

async function type(found: Locator, { text, submit = false }: RequestOf<'type'>, limit: Within): Promise<void> {
  await found.fill(text, limit);
  if (submit) await found.press('Enter', limit);
}

async function press({ key, ref }: RequestOf<'press'>, tab: Tab, desk: Desk): Promise<void> {
  if (ref !== undefined) await (await element(ref, tab)).press(key, within(desk));
  else await tab.page.keyboard.press(key);
}

const Options = z.array(z.object({ label: z.string().trim(), value: z.string() })).nullable();

/** Labels and values alike. Where one is missing the model is told what there is. */
async function select(found: Locator, values: string[], limit: Within): Promise<void> {
  const options = Options.parse(
    // Runs in the page.
    await found.evaluate((node) =>
      Reflect.get(node, 'tagName') === 'SELECT'
        ? Array.from<object>(Reflect.get(node, 'options'))
            .slice(0, 200)
            .map((option) => ({ label: Reflect.get(option, 'label'), value: Reflect.get(option, 'value') }))
        : null,
    ),
  );
  if (!options) throw new UserError('This is no list of a form. Click it, and click what it shows.');
  const missing = values.filter((wanted) => !options.some(({ label, value }) => label === wanted || value === wanted));
  if (missing.length > 0) {
    const there = options.map(({ label, value }) => `\`${label || value}\``).join(', ');
    throw new UserError(`There is no option ${missing.map((one) => `\`${one}\``).join(' or ')}. There are: ${there}.`);
  }
  const chosen = values.map(
    (wanted) => options.find(({ label, value }) => label === wanted || value === wanted)?.value ?? wanted,
  );
  await found.selectOption(
    chosen.map((value) => ({ value })),
    limit,
  );
}

/** The wheel moves whatever can be moved in the middle of the view, be it the page or a part of it. */
async function scroll({ to = 'down', ref }: RequestOf<'scroll'>, tab: Tab, desk: Desk): Promise<void> {
  const { page } = tab;
  if (ref !== undefined) return (await element(ref, tab)).scrollIntoViewIfNeeded(within(desk));
  if (to === 'top' || to === 'bottom') {
    await page.evaluate(`scrollTo(0, ${to === 'top' ? 0 : 'document.documentElement.scrollHeight'})`);
    return;
  }
  const { width, height } = page.viewportSize() ?? { width: 1280, height: 800 };
  await page.mouse.move(width / 2, height / 2);
  await page.mouse.wheel(0, (to === 'down' ? 1 : -1) * height * SCROLL_STEP);
}

async function wait({ text, seconds = 10 }: RequestOf<'wait'>, tab: Tab, { browser, signal }: Desk): Promise<Done> {
  const timeout = seconds * 1000;
  const { downloads } = browser.tabs;
  if (text === undefined && downloads.open() > 0) {
    await downloads.wait(timeout, signal);
    return done();
  }
  if (text === undefined) {
    await sleep(timeout, undefined, { signal });
    return done();
  }
  if (await appears(text, tab.page, timeout, signal)) return done();
  return { ok: false, says: [`The text did not appear within ${seconds} s.`], page: 'changes' };
}

/** Frames count too, also those that come meanwhile. */
async function appears(text: string, page: Page, ms: number, signal: AbortSignal): Promise<boolean> {
  const isIn = (frame: Frame) =>
    frame
      .getByText(text)
      .filter({ visible: true })
      .count()
      .then(
        (count) => count > 0,
        () => false,
      );
  for (const end = performance.now() + ms; performance.now() < end; await sleep(WAIT_LOOK_MS, undefined, { signal })) {
    if ((await Promise.all(page.frames().map(isIn))).includes(true)) return true;
  }
  return false;
}
