import { setTimeout as sleep } from 'node:timers/promises';
import type { Frame, Locator, Page } from 'playwright-core';
import { z } from 'zod';
import { formatBytes } from '../../base/strings.ts';
import { attempt, UserError } from '../../base/user-error.ts';
import { openWorkPaths } from '../files/work-paths.ts';
import { findFreePath, writeWorkFile } from '../files/write-file.ts';
import { parseFetchUrl } from '../web/destination.ts';
import {
  type ActionContext,
  type ActionResult,
  findElement,
  isDownloadError,
  pageChanged,
  waitForLoad,
  waitForReaction,
} from './action-context.ts';
import type { BrowserAction, BrowserActionOf } from './browser-args.ts';
import { safeFileName } from './downloads.ts';
import { takeScreenshot } from './page-view.ts';
import { closePage, type Tab } from './tabs.ts';

const NAVIGATION_MS = 30_000;
const SCROLL_STEP = 0.85;
const WAIT_POLL_MS = 100;

type ActionHandler<Action extends BrowserAction['action']> = (
  request: BrowserActionOf<Action>,
  tab: Tab,
  context: ActionContext,
) => Promise<ActionResult>;

const ACTION_HANDLERS: { [Action in BrowserAction['action']]: ActionHandler<Action> } = {
  navigate,
  snapshot: async ({ from }) => ({ ok: true, messages: [], page: 'all', from }),
  click: (request, tab, context) => onElement(request.ref, tab, context, (found, within) => found.click(within)),
  type: (request, tab, context) =>
    onElement(request.ref, tab, context, (found, within) => typeText(found, request, within)),
  press: (request, tab, context) => actAndSettle(tab, context, () => pressKey(request, tab, context)),
  select: (request, tab, context) =>
    onElement(request.ref, tab, context, (found, within) => selectOptions(found, request.values, within)),
  scroll: (request, tab, context) => actAndSettle(tab, context, () => scrollPage(request, tab, context)),
  wait: waitFor,
  back: (_request, tab, context) => goBack(tab, context),
  async screenshot({ whole = false, ref }, tab, context) {
    const found = ref === undefined ? undefined : await findElement(ref, tab);
    const { message, images } = await takeScreenshot(tab.page, { ...context, found, whole });
    return { ok: true, messages: [message], page: 'none', images };
  },
  async download({ url, ref }, tab, context) {
    if (url !== undefined) return downloadUrl(parseFetchUrl(url), context);
    return clickAndDownload(await findElement(ref ?? '', tab), context);
  },
  async tab({ number }, _tab, { browser: { tabs } }) {
    if (!tabs.select(number)) throw new UserError(`There is no tab ${number}: ${tabs.count()} are open.`);
    return { ok: true, messages: [], page: 'all' };
  },
  async close(_request, _tab, { browser: { tabs } }) {
    await tabs.closeCurrent();
    return { ok: true, messages: ['The tab was closed.'], page: tabs.count() > 0 ? 'all' : 'none' };
  },
};

/** Performs one action on the current tab. Throws UserError or Playwright's own errors. */
export async function performAction<Action extends BrowserAction['action']>(
  request: BrowserActionOf<Action> & { action: Action },
  context: ActionContext,
): Promise<ActionResult> {
  const tab = await context.browser.tabs.current();
  return ACTION_HANDLERS[request.action](request, tab, context);
}

async function onElement(
  ref: string,
  tab: Tab,
  context: ActionContext,
  use: (found: Locator, within: Within) => Promise<unknown>,
): Promise<ActionResult> {
  const found = await findElement(ref, tab);
  return actAndSettle(tab, context, () => use(found, within(context)));
}

/** Time limit for an element, as Playwright takes it. */
type Within = { timeout: number; signal: AbortSignal };
const within = ({ patience, signal }: ActionContext): Within => ({ timeout: patience.elementMs, signal });

async function actAndSettle(tab: Tab, context: ActionContext, run: () => Promise<unknown>): Promise<ActionResult> {
  const before = tab.traffic.arrived;
  await run();
  await waitForReaction(tab, before, context);
  return pageChanged();
}

async function navigate(
  { url: asked }: BrowserActionOf<'navigate'>,
  now: Tab,
  context: ActionContext,
): Promise<ActionResult> {
  const { browser, signal } = context;
  const url = parseFetchUrl(asked).href;
  const tab = now.isStuck ? await browser.tabs.replaceCurrent() : now;
  const response = await tab.page
    .goto(url, { timeout: NAVIGATION_MS, waitUntil: 'domcontentloaded', signal })
    .catch((error: unknown) => {
      if (isDownloadError(error)) return 'a file' as const;
      throw error;
    });
  if (response === 'a file') {
    await browser.tabs.downloads.waitForOne(NAVIGATION_MS, signal);
    return { ok: true, messages: ['That is a file, not a page.'], page: 'none' };
  }
  await waitForLoad(tab, context);
  const status = response?.status() ?? 200;
  if (status < 400) return { ok: true, messages: [], page: 'all' };
  return { ok: false, messages: [`The server answered ${status} ${response?.statusText() ?? ''}`.trim()], page: 'all' };
}

async function goBack({ page, traffic }: Tab, context: ActionContext): Promise<ActionResult> {
  const { browser, signal } = context;
  const before = traffic.arrived;
  const response = await page.goBack({ timeout: NAVIGATION_MS, waitUntil: 'domcontentloaded', signal });
  if (response === null && traffic.arrived === before) throw new UserError('There is no page to go back to.');
  await waitForLoad(await browser.tabs.current(), context);
  return { ok: true, messages: [], page: 'all' };
}

async function typeText(
  found: Locator,
  { text, submit = false }: BrowserActionOf<'type'>,
  limit: Within,
): Promise<void> {
  await found.fill(text, limit);
  if (submit) await found.press('Enter', limit);
}

async function pressKey({ key, ref }: BrowserActionOf<'press'>, tab: Tab, context: ActionContext): Promise<void> {
  if (ref !== undefined) await (await findElement(ref, tab)).press(key, within(context));
  else await tab.page.keyboard.press(key);
}

const SelectOptions = z.array(z.object({ label: z.string().trim(), value: z.string() })).nullable();

/** Accepts labels and values. If one does not exist, the error lists the available ones. */
async function selectOptions(found: Locator, values: string[], limit: Within): Promise<void> {
  const options = SelectOptions.parse(
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

/** The mouse wheel scrolls whatever is scrollable in the middle of the view, the page or a part of it. */
async function scrollPage(
  { to = 'down', ref }: BrowserActionOf<'scroll'>,
  tab: Tab,
  context: ActionContext,
): Promise<void> {
  const { page } = tab;
  if (ref !== undefined) return (await findElement(ref, tab)).scrollIntoViewIfNeeded(within(context));
  if (to === 'top' || to === 'bottom') {
    await page.evaluate(`scrollTo(0, ${to === 'top' ? 0 : 'document.documentElement.scrollHeight'})`);
    return;
  }
  const { width, height } = page.viewportSize() ?? { width: 1280, height: 800 };
  await page.mouse.move(width / 2, height / 2);
  await page.mouse.wheel(0, (to === 'down' ? 1 : -1) * height * SCROLL_STEP);
}

async function waitFor(
  { text, seconds = 10 }: BrowserActionOf<'wait'>,
  tab: Tab,
  { browser, signal }: ActionContext,
): Promise<ActionResult> {
  const timeout = seconds * 1000;
  const { downloads } = browser.tabs;
  if (text === undefined && downloads.pending() > 0) {
    await downloads.wait(timeout, signal);
    return pageChanged();
  }
  if (text === undefined) {
    await sleep(timeout, undefined, { signal });
    return pageChanged();
  }
  if (await waitForText(text, tab.page, timeout, signal)) return pageChanged();
  return { ok: false, messages: [`The text did not appear within ${seconds} s.`], page: 'changes' };
}

/** Includes frames, also those that appear while waiting. */
async function waitForText(text: string, page: Page, ms: number, signal: AbortSignal): Promise<boolean> {
  const isIn = (frame: Frame) =>
    frame
      .getByText(text)
      .filter({ visible: true })
      .count()
      .then(
        (count) => count > 0,
        () => false,
      );
  for (const end = performance.now() + ms; performance.now() < end; await sleep(WAIT_POLL_MS, undefined, { signal })) {
    if ((await Promise.all(page.frames().map(isIn))).includes(true)) return true;
  }
  return false;
}

const DOWNLOAD_START_MS = 20_000;
const DOWNLOAD_MS = 120_000;

/** Clicks something that starts a download, and waits for the file. */
async function clickAndDownload(found: Locator, { browser, signal, patience }: ActionContext): Promise<ActionResult> {
  const { downloads } = browser.tabs;
  const { page } = await browser.tabs.current();
  const began = page.waitForEvent('download', { timeout: DOWNLOAD_START_MS, signal }).catch(() => undefined);
  await found.click({ timeout: patience.elementMs, signal });
  if (!(await began) && downloads.pending() === 0) {
    signal.throwIfAborted();
    throw new UserError('No download began. The page after the click:');
  }
  await downloads.wait(DOWNLOAD_MS, signal);
  return { ok: true, messages: [], page: 'changes', wantsFile: true };
}

/** Opens a URL in a separate tab with this browser's cookies, and saves the response as a file. */
async function downloadUrl(url: URL, context: ActionContext): Promise<ActionResult> {
  const { browser, signal } = context;
  const back = browser.tabs.position();
  const { page } = await browser.tabs.open();
  try {
    const outcome = await downloadInto(page, url, context);
    return { ok: true, messages: outcome, page: 'none', wantsFile: outcome.length === 0 };
  } finally {
    await browser.tabs.downloads.wait(DOWNLOAD_MS, signal).catch(() => undefined);
    await closePage(page);
    browser.tabs.select(back);
  }
}

async function downloadInto(page: Page, url: URL, { browser, work, signal }: ActionContext): Promise<string[]> {
  const response = await page
    .goto(url.href, { timeout: DOWNLOAD_START_MS, waitUntil: 'commit', signal })
    .catch((error: unknown) => {
      if (isDownloadError(error)) return null;
      throw error;
    });
  if (!response) {
    await browser.tabs.downloads.waitForOne(DOWNLOAD_MS, signal);
    return [];
  }
  if (!response.ok()) throw new UserError(`${url.href} answered ${response.status()} ${response.statusText()}.`);
  const { mostBytes } = browser.tabs.downloads;
  const tooLarge = new UserError(`It is larger than ${formatBytes(mostBytes)}.`);
  if (Number(response.headers()['content-length']) > mostBytes) throw tooLarge;
  const bytes = await response.body();
  if (bytes.length > mostBytes) throw tooLarge;
  const paths = await openWorkPaths(work, []);
  const name = safeFileName(decodeName(url.pathname.split('/').pop() ?? '') || 'page.html');
  const resolved = await findFreePath(paths, 'downloads', name);
  await writeWorkFile(resolved, bytes, paths);
  return [`downloaded \`${resolved.displayName}\`, ${formatBytes(bytes.length)}, from ${url.href}`];
}

function decodeName(part: string): string {
  return attempt(() => decodeURIComponent(part)) ?? part;
}
