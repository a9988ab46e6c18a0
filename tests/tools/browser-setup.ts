import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, onTestFinished, test } from 'vitest';
import type { BrowserConfig, NetworkSettings } from '../../src/protocol/settings/config.ts';
import type { Patience } from '../../src/tools/browser/action-context.ts';
import { openBrowserPool } from '../../src/tools/browser/browser-pool.ts';
import { browserTool } from '../../src/tools/browser/browser-tool.ts';
import { findBrowser } from '../../src/tools/browser/find-browser.ts';
import type { ResolveHost } from '../../src/tools/web/destination.ts';
import { temporaryFolder } from '../support/temporary.ts';
import { setup } from './tool-setup.ts';

/** The Chromium of this machine. With AGENTD_TEST_BROWSER=required, these tests fail if it is missing. */
const why = missing();
function missing(): string {
  try {
    findBrowser(undefined, process.env);
    return '';
  } catch (error) {
    if (process.env['AGENTD_TEST_BROWSER'] === 'required') throw error;
    return String(error);
  }
}

/** A test with a real browser; skipped, with the reason, if there is none. */
export const browserTest = (name: string, run: () => Promise<void>) =>
  test(name, async (context) => {
    context.skip(why !== '', why);
    await run();
  });

type Options = {
  network?: NetworkSettings;
  browser?: BrowserConfig;
  resolve?: ResolveHost;
  mostBytes?: number;
  actionMs?: number;
  patience?: Partial<Patience>;
  env?: NodeJS.ProcessEnv;
};

/** Tools with a `browser` that by default may reach 127.0.0.1; closed after the test. */
export function browserSetup(options: Options = {}) {
  const {
    network = { allow_private: ['127.0.0.1'] },
    browser,
    resolve,
    mostBytes,
    actionMs,
    patience,
    env = process.env,
  } = options;
  const logged: string[] = [];
  const open = () =>
    openBrowserPool({ env, log: (level, text) => logged.push(`${level}: ${text}`), resolve, mostBytes });
  const pool = open();
  const settings = () => ({ network, browser });
  const toolOf = (folder: string, from = pool) => browserTool({ pool: from, folder, settings, actionMs, patience });
  const home = temporaryFolder('browser');
  // Hooks run in reverse order, so the browsers have ended before their folder is removed.
  onTestFinished(() => pool.close());
  const folder = join(home, 'session', 'browser');
  const box = setup({ tools: [toolOf(folder)] });
  const run = (args: object, signal?: AbortSignal) => box.use('browser', args, signal);
  return { ...box, run, pool, open, toolOf, home, folder, logged };
}

/**
 * Setups for the tests of one file, which share a browser and its profile, since starting Chromium takes most of the
 * time of such a test. Each test begins without tabs. `resolve` and `mostBytes` apply to the whole file.
 */
export function sharedBrowser({ resolve, mostBytes }: Pick<Options, 'resolve' | 'mostBytes'> = {}) {
  const home = mkdtempSync(join(tmpdir(), 'agentd-browser-'));
  const folder = join(home, 'session', 'browser');
  const pool = openBrowserPool({ env: process.env, log: () => undefined, resolve, mostBytes });
  let network: NetworkSettings | undefined;
  const settings = () => ({ network: network ?? { allow_private: ['127.0.0.1'] } });
  afterAll(async () => {
    await pool.close();
    rmSync(home, { recursive: true, force: true, maxRetries: 3 });
  });
  return ({ network: allowed, actionMs, patience }: Pick<Options, 'network' | 'actionMs' | 'patience'> = {}) => {
    network = allowed;
    const box = setup({ tools: [browserTool({ pool, folder, settings, actionMs, patience })] });
    const { signal } = new AbortController();
    onTestFinished(() =>
      pool.use({ folder, settings, signal }, async ({ tabs }) => {
        while (tabs.count() > 0) await tabs.closeCurrent();
      }),
    );
    const run = (args: object, stop?: AbortSignal) => box.use('browser', args, stop);
    return { ...box, run, folder };
  };
}
