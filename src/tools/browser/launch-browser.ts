import { lstatSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import type { BrowserContext } from 'playwright-core';
import { z } from 'zod';
import { settlesWithin } from '../../base/async.ts';
import { truncate } from '../../base/strings.ts';
import { attempt, errorText, UserError } from '../../base/user-error.ts';
import { endGroup, guardGroup, isGroupRunning, killGroup } from '../process/process-group.ts';
import type { ResolveHost } from '../web/destination.ts';
import { parseAllowedHosts } from '../web/destination.ts';
import { type EgressProxy, startEgressProxy } from '../web/egress-proxy.ts';
import type { BrowserSettings } from './browser-args.ts';
import {
  openCookieJar,
  type ProfilePaths,
  prepareProfile,
  profilePaths,
  removeOrphanedProfile,
} from './browser-profile.ts';
import { findBrowser, requirePlaywright } from './find-browser.ts';
import { openTabs, type Tabs } from './tabs.ts';

const LAUNCH_MS = 30_000;
const CLOSE_MS = 5000;
/** A browser that does not say within this time which cookies it has hangs, and is ended. */
const ANSWER_MS = 10_000;
const POLL_MS = 1000;
const VIEWPORT = { width: 1280, height: 800 };

/** A running browser of one session. */
export type Browser = {
  tabs: Tabs;
  proxy: EgressProxy;
  /** Saves the current cookies. Throws UserError if the browser hangs, which ends it. */
  saveCookies(): Promise<void>;
  isOpen(): boolean;
  /** Resolves once it has ended, for whatever reason. */
  ended: Promise<void>;
  /** Ends the browser and all its processes; never throws. */
  close(): Promise<void>;
};

export type LaunchOptions = {
  folder: string;
  settings: () => BrowserSettings;
  env: NodeJS.ProcessEnv;
  resolve: ResolveHost;
  mostBytes?: number | undefined;
  signal: AbortSignal;
};

/** Starts Chromium on the profile in `folder`. Throws UserError if none is installed or it does not start. */
export async function launchBrowser(options: LaunchOptions): Promise<Browser> {
  const { folder, settings, env, resolve, mostBytes, signal } = options;
  requirePlaywright();
  const executable = findBrowser(settings().browser?.executable, env);
  const paths = profilePaths(folder);
  await prepareProfile(paths);
  const proxy = await startEgressProxy(() => parseAllowedHosts(settings().network?.allow_private ?? []), resolve);
  try {
    // Loaded on demand, because it takes 85 MB and most of a second.
    const { chromium } = await import('playwright-core');
    const context = await chromium.launchPersistentContext(paths.data, {
      executablePath: executable,
      headless: true,
      // Chromium refuses to start as root with its sandbox.
      chromiumSandbox: process.getuid?.() !== 0,
      env: chromiumEnv(env, paths.home),
      args: chromiumFlags(proxy.url),
      downloadsPath: paths.incoming,
      viewport: VIEWPORT,
      handleSIGINT: false,
      handleSIGTERM: false,
      handleSIGHUP: false,
      timeout: LAUNCH_MS,
    });
    return await openBrowser(context, { proxy, paths, settings, mostBytes });
  } catch (error) {
    proxy.close();
    signal.throwIfAborted();
    throw error instanceof UserError ? error : launchError(executable, error);
  }
}

async function openBrowser(
  context: BrowserContext,
  {
    proxy,
    paths,
    settings,
    mostBytes,
  }: { proxy: EgressProxy; paths: ProfilePaths } & Pick<LaunchOptions, 'settings' | 'mostBytes'>,
): Promise<Browser> {
  let isOpen = true;
  const group = await processGroupOf(context);
  const endGuard = group === undefined ? () => undefined : guardGroup(group);
  const jar = openCookieJar(context, paths.cookies);
  // The session's folder may be removed or moved. A clean shutdown of Chromium would then recreate part of it.
  const place = inodeOf(paths.data);
  const watch = setInterval(() => {
    if (inodeOf(paths.data) === place) return;
    if (group !== undefined) killGroup(group);
    void end();
  }, POLL_MS);
  watch.unref();
  context.once('close', () => void end());
  let reportEnd = (): void => undefined;
  const ended = new Promise<void>((resolve) => {
    reportEnd = resolve;
  });
  let ending: Promise<void> | undefined;
  const end = () => {
    ending ??= shutDown();
    return ending;
  };

  async function shutDown(): Promise<void> {
    clearInterval(watch);
    isOpen = false;
    reportEnd();
    // It says nothing about a browser in another place. In the folder's place there may be anything.
    await rm(paths.running, { force: true }).catch(() => undefined);
    await settlesWithin(context.close(), CLOSE_MS);
    if (group !== undefined && isGroupRunning(group)) await endGroup(group, AbortSignal.abort());
    endGuard();
    proxy.close();
    if (inodeOf(paths.data) !== place) await removeOrphanedProfile(paths).catch(() => undefined);
  }

  async function saveCookies(): Promise<void> {
    const saving = jar.save();
    if (await settlesWithin(saving, ANSWER_MS)) return saving;
    if (group !== undefined) killGroup(group);
    await end();
    throw new UserError(`The browser did not answer within ${ANSWER_MS / 1000} s and was ended.`);
  }

  try {
    await jar.restore();
    await writeFile(paths.running, `${process.pid}\n`, { mode: 0o600 });
    const tabs = await openTabs(context, {
      incoming: paths.incoming,
      mostBytes,
      why: proxy.lastFault,
      answersBanners: settings().browser?.cookie_banners !== 'leave',
    });
    return {
      tabs,
      proxy,
      isOpen: () => isOpen,
      ended,
      saveCookies,
      async close() {
        await saveCookies().catch(() => undefined);
        await end();
      },
    };
  } catch (error) {
    await end();
    throw error;
  }
}

/**
 * Chromium features that are disabled, such as the popups of the address bar, which nobody sees and which take half the
 * processor time of a start. Only the last such switch counts, so it repeats the features that Playwright disables.
 */
export const WITHOUT_FEATURES = `--disable-features=${[
  'WebUIOmniboxPopup,WebUIOmniboxAimPopup',
  'AvoidUnnecessaryBeforeUnloadCheckSync,DestroyProfileOnBrowserClose,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable',
  'LensOverlay,MediaRouter,PaintHolding,ThirdPartyStoragePartitioning,AvoidCorsURLLoaderRestartOnRedirect',
  'TcpPortRandomizationWin,OptimizationHints,NetworkTimeServiceQuerying,AimEnabled,PreconnectToSearch',
  'msForceBrowserSignIn,msEdgeUpdateLaunchServicesPreferredVersion',
].join(',')}`;

/**
 * Sends all network access through the egress proxy, including loopback, and disables UDP, which a proxy cannot carry.
 * Bounds caches and the memory per page.
 */
function chromiumFlags(proxy: string): string[] {
  return [
    `--proxy-server=${proxy}`,
    '--proxy-bypass-list=<-loopback>',
    '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1',
    '--disable-quic',
    // Where Chromium queries accounts of its user; pages that need the real host still reach it.
    '--gaia-url=http://127.0.0.1:1',
    '--force-webrtc-ip-handling-policy=disable_non_proxied_udp',
    '--webrtc-ip-handling-policy=disable_non_proxied_udp',
    '--js-flags=--max-old-space-size=512',
    `--disk-cache-size=${64 * 1024 * 1024}`,
    WITHOUT_FEATURES,
  ];
}

/** The part of the daemon's environment that Chromium gets: paths and language, never a key. */
function chromiumEnv(env: NodeJS.ProcessEnv, home: string): Record<string, string> {
  const kept = Object.entries(env).filter(([name]) => /^(?:PATH|LANG|LC_\w+|TMPDIR|TZ|FONTCONFIG_\w+)$/.test(name));
  const given = Object.fromEntries(kept.map(([name, value]) => [name, value ?? '']));
  return { ...given, ...utf8Locale(given), HOME: home };
}

/** Without a UTF-8 locale (a service often has none), Chromium names a file with an umlaut `download`. */
function utf8Locale(env: Record<string, string>): Record<string, string> {
  const locale = env['LC_ALL'] || env['LC_CTYPE'] || env['LANG'] || '';
  if (/utf-?8/i.test(locale)) return {};
  return { [env['LC_ALL'] ? 'LC_ALL' : 'LC_CTYPE']: 'C.UTF-8' };
}

const Processes = z.object({ processInfo: z.array(z.object({ type: z.string(), id: z.int() })) });

/** The process group of Chromium, which its first process leads. */
async function processGroupOf(context: BrowserContext): Promise<number | undefined> {
  const session = await context.browser()?.newBrowserCDPSession();
  const info = Processes.safeParse(await session?.send('SystemInfo.getProcessInfo').catch(() => undefined));
  await session?.detach();
  return info.data?.processInfo.find(({ type }) => type === 'browser')?.id;
}

/** Undefined if there is no such folder, or none that can be looked at: Chromium could not use it either. */
function inodeOf(folder: string): number | undefined {
  return attempt(() => lstatSync(folder).ino);
}

function launchError(executable: string, error: unknown): UserError {
  const message = errorText(error).replace(/\u001b\[\d+m/g, '');
  const why =
    /No usable sandbox|Running as root without|error while loading[^\n]*|FATAL[^\n]*/.exec(message)?.[0] ?? message;
  return new UserError(
    `${executable} did not start: ${truncate(why, 400)}. A person has to look at it: \`agentctl doctor\`.`,
  );
}
