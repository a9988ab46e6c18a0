import axe from 'axe-core';
import { type Browser, type BrowserContext, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { openClient } from '../../src/client/index.ts';
import { type HttpServer, serveHttp } from '../../src/frontends/http/index.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import { sessionFolder } from '../../src/protocol/workspace/session-names.ts';
import { sessionPaths } from '../../src/store/index.ts';
import { findBrowser } from '../../src/tools/browser/find-browser.ts';
import { WITHOUT_FEATURES } from '../../src/tools/browser/launch-browser.ts';
import { record } from '../client/rig.ts';
import { ask } from '../http/serving.ts';
import { type Ground, ground } from '../support/daemon.ts';
import type { OpenAIServer, ScriptEntry } from '../support/openai-server.ts';
import { modelServer } from '../support/temporary.ts';

/** The Chromium of this machine. With AGENTD_TEST_BROWSER=required, these tests fail if it is missing. */
const [executablePath, why] = lookForBrowser();
function lookForBrowser(): [path: string, why: string] {
  try {
    return [findBrowser(undefined, process.env), ''];
  } catch (error) {
    if (process.env['AGENTD_TEST_BROWSER'] === 'required') throw error;
    return ['', String(error)];
  }
}

/** A workspace with its server and pages. */
export type PageSetup = {
  on: Ground;
  token: string;
  url: string;
  model: OpenAIServer;
  /** Starts the daemon with the scripted model. */
  startDaemon(): ReturnType<Ground['start']>;
  /** Stops the server and serves the workspace again on the same port. */
  stopServer(): Promise<void>;
  startServer(): Promise<void>;
  /** A page in a fresh browser context at a URL of the server; `logged in`: by the token in the URL. */
  open(options?: PageOptions): Promise<Page>;
};

type PageOptions = {
  hash?: string;
  width?: number;
  dark?: boolean;
  language?: string;
  /** Whether the page is logged in. */
  isLoggedIn?: boolean;
};

export type WebTest = (name: string, script: ScriptEntry[], run: (setup: PageSetup) => Promise<void>) => void;

/** Tests that share one browser per file; skipped, with the reason, if there is none. */
export function useBrowser(): WebTest {
  let browser: Browser | undefined;
  beforeAll(async () => {
    if (why === '')
      browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', WITHOUT_FEATURES] });
  });
  afterAll(async () => {
    await browser?.close();
  });
  return (name, script, run) =>
    test(name, async (context) => {
      context.skip(why !== '', why);
      if (browser) await run(await openSetup(browser, script));
    });
}

async function openSetup(browser: Browser, script: ScriptEntry[]): Promise<PageSetup> {
  const on = ground();
  const model = await modelServer(script);
  const client = openClient(on.root);
  const token = await client.accessToken();
  const serve = (port: number) => serveHttp(client, { port, complain: (text) => expect.soft(text).toBe('') });
  let server: HttpServer = await serve(0);
  const { url } = server;
  onTestFinished(() => server.close());
  return {
    ...{ on, token, url, model },
    startDaemon: () => on.start(model.flags),
    stopServer: () => server.close(),
    async startServer() {
      server = await serve(Number(new URL(url).port));
    },
    async open({ hash = '', width = 1280, dark = false, language = 'en', isLoggedIn = true } = {}) {
      const context = await browser.newContext({
        viewport: { width, height: 800 },
        colorScheme: dark ? 'dark' : 'light',
        locale: language,
      });
      context.setDefaultTimeout(30_000);
      onTestFinished(() => context.close());
      watchFaults(context, url);
      const page = await context.newPage();
      await page.goto(`${url}/${isLoggedIn ? `#token=${token}` : hash}`);
      if (!isLoggedIn) return page;
      await page.getByRole('navigation').waitFor();
      if (hash !== '') await page.goto(`${url}/${hash}`);
      return page;
    },
  };
}

/** Fails the test if a page throws, violates its content security policy, or sends requests to other servers. */
function watchFaults(context: BrowserContext, url: string): void {
  context.on('weberror', (error) => expect.soft(String(error.error())).toBe(''));
  context.on('console', (message) => {
    // A refused or lost request is logged by the browser itself, and that private windows take no pushes.
    if (/^Failed to load resource|support the Push API in incognito mode/.test(message.text())) return;
    if (message.type() === 'error' || message.type() === 'warning') expect.soft(message.text()).toBe('');
  });
  context.on('request', (request) => expect.soft(request.url().startsWith(`${url}/`), request.url()).toBe(true));
}

/** A session with these events; the message that creates it stays in the inbox. */
export async function openSession({ on, url, token }: PageSetup, events: EventBody[], name = 'demo'): Promise<void> {
  await ask(url, token, 'POST', `/api/sessions/${encodeURIComponent(name)}/messages`, { body: { text: 'x' } });
  await record(sessionPaths(on.session(sessionFolder(name))), events);
}

/** A call of the shell, as a scripted model makes it. */
export const shell = (command: string) => [{ id: 'c', name: 'shell', args: JSON.stringify({ command }) }];

/** What the model said, with the calls it made. */
export const answered = (text: string, calls = shell('true')): EventBody => ({
  ...{ type: 'model.answered', text, calls, usage: { tokens: 1, cost: null }, model: 'm', ms: 1 },
  ...{ delivered: [], seen: 1 },
});

/** Names the session to create. */
export async function nameSession(page: Page, name: string): Promise<void> {
  await page.locator('summary', { hasText: 'Name, mode and limits' }).press('Enter');
  await page.getByLabel('Name of the session').fill(name);
}

/** Shows the transcript from its beginning. */
export async function showAllEntries(page: Page): Promise<void> {
  const earlier = page.getByRole('log').getByRole('button', { name: 'Show earlier' });
  while ((await earlier.count()) > 0) {
    // It may be gone by then.
    await earlier.press('Enter', { timeout: 1000 }).catch(() => {});
    await page.evaluate('new Promise(requestAnimationFrame)');
  }
}

/** Waits until the result of `look` matches. */
export const eventually = <T>(look: () => T) => expect.poll(look, { timeout: 30_000 });

/**
 * Checks the page with axe-core, from a phone to a wide desktop, light and dark; that it fits each width; and that
 * nothing is cut off with text of twice the size.
 */
export async function expectAccessible(page: Page): Promise<void> {
  await page.evaluate(axe.source);
  for (const [width, colorScheme] of LOOKS) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme });
    const found: AxeViolation[] = await page.evaluate(
      "axe.run({ resultTypes: ['violations'] }).then(({ violations }) => violations)",
    );
    const reported = found.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
    expect(reported, `${width} px, ${colorScheme}`).toEqual([]);
    expect(await page.evaluate('document.documentElement.scrollWidth'), `${width} px`).toBeLessThanOrEqual(width);
  }
  const devtools = await page.context().newCDPSession(page);
  await page.setViewportSize({ width: 1280, height: 800 });
  await devtools.send('Page.setFontSizes', { fontSizes: { standard: 32, fixed: 26 } });
  expect(await page.evaluate('getComputedStyle(document.documentElement).fontSize')).toBe('32px');
  expect(await page.evaluate(CUT_OFF), 'text of 200 %').toEqual([]);
  await devtools.send('Page.setFontSizes', { fontSizes: { standard: 16, fixed: 13 } });
  await devtools.detach();
}

/** Runs in the page: finds overflowing content that cannot be scrolled to; lines that end in "…" can be expanded. */
const CUT_OFF = `[...document.querySelectorAll('body *')].flatMap((one) => {
  const { overflowX, overflowY, textOverflow, webkitLineClamp } = getComputedStyle(one);
  const hides = (overflow) => overflow === 'hidden' || overflow === 'clip';
  const isWider = hides(overflowX) && textOverflow !== 'ellipsis' && one.scrollWidth > one.clientWidth + 1;
  const isHigher = hides(overflowY) && webkitLineClamp === 'none' && one.scrollHeight > one.clientHeight + 1;
  const right = one.matches('svg *') ? 0 : one.getBoundingClientRect().right;
  const isOutside = right > innerWidth + 1 && !one.parentElement.closest('.graph, .table, pre');
  const drawn = one.matches('.graph .node') ? one.querySelector('rect').getBoundingClientRect().width : 0;
  const isSmall = drawn > 0 && drawn < 1.9 * 200;
  return isWider || isHigher || isOutside || isSmall ? [one.outerHTML.slice(0, 200)] : [];
})`;

const LOOKS = [390, 768, 1280, 1920].flatMap((width) => (['light', 'dark'] as const).map((it) => [width, it] as const));

type AxeViolation = { id: string; nodes: Array<{ html: string }> };
