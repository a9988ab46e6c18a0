import { lstatSync } from 'node:fs';
import type { BrowserContext } from 'playwright-core';
import { z } from 'zod';
import { errorText, UserError } from '../../protocol/errors.ts';
import { clip } from '../../protocol/recorded.ts';
import { endGroup, groupRuns, killGroup } from '../process-group.ts';
import { allowed } from '../web/addresses.ts';
import type { Resolve } from '../web/destination.ts';
import { cookieJar } from './cookies.ts';
import { findBrowser } from './executable.ts';
import { type Gate, openGate } from './gate.ts';
import { guardGroup } from './guard.ts';
import { type ProfilePaths, prepareProfile, profilePaths, removeGhost } from './profile.ts';
import type { BrowserSettings } from './settings.ts';
import { openTabs, type Tabs } from './tabs.ts';

const LAUNCH_MS = 30_000;
const CLOSE_MS = 5000;
const LOOK_MS = 1000;
const VIEWPORT = { width: 1280, height: 800 };

/** A running browser of one session. */
export type Browser = {
  tabs: Tabs;
  gate: Gate;
  /** Writes down the cookies there are now. */
  saveCookies(): Promise<void>;
  isOpen(): boolean;
  /** Ends it and all its processes; never throws. */
  close(): Promise<void>;
};

export type LaunchOptions = {
  folder: string;
  settings: () => BrowserSettings;
  env: NodeJS.ProcessEnv;
  resolve: Resolve;
  mostBytes?: number | undefined;
  signal: AbortSignal;
};

/** Starts Chromium on the profile in `folder`. Throws UserError where there is none or it does not start. */
export async function launch({ folder, settings, env, resolve, mostBytes, signal }: LaunchOptions): Promise<Browser> {
  const executable = findBrowser(settings().browser?.executable, env);
  const paths = profilePaths(folder);
  await prepareProfile(paths);
  const gate = await openGate(() => allowed(settings().network?.allow_private ?? []), resolve);
  try {
    // 85 MB and most of a second, which a daemon without a browser shall not spend.
    const { chromium } = await import('playwright-core');
    const context = await chromium.launchPersistentContext(paths.data, {
      executablePath: executable,
      headless: true,
      // Chromium refuses to start as root with its sandbox.
      chromiumSandbox: process.getuid?.() !== 0,
      env: environment(env, paths.home),
      args: flags(gate.url),
      downloadsPath: paths.incoming,
      viewport: VIEWPORT,
      handleSIGINT: false,
      handleSIGTERM: false,
      handleSIGHUP: false,
      timeout: LAUNCH_MS,
    });
    return await opened(context, { gate, paths, settings, mostBytes });
  } catch (error) {
    gate.close();
    signal.throwIfAborted();
    throw error instanceof UserError ? error : notStarted(executable, error);
  }
}

async function opened(
  context: BrowserContext,
  {
    gate,
    paths,
    settings,
    mostBytes,
  }: { gate: Gate; paths: ProfilePaths } & Pick<LaunchOptions, 'settings' | 'mostBytes'>,
): Promise<Browser> {
  let isOpen = true;
  const group = await groupOf(context);
  const dismiss = group === undefined ? () => undefined : guardGroup(group);
  const jar = cookieJar(context, paths.cookies);
  // Somebody may remove or move the session's folder. What Chromium writes at an end in order would bring a part of it back.
  const place = inodeOf(paths.data);
  const watch = setInterval(() => {
    if (inodeOf(paths.data) === place) return;
    if (group !== undefined) killGroup(group);
    void end();
  }, LOOK_MS);
  watch.unref();
  context.once('close', () => void end());
  let ending: Promise<void> | undefined;
  const end = () => {
    ending ??= ended();
    return ending;
  };

  async function ended(): Promise<void> {
    clearInterval(watch);
    isOpen = false;
    const closing = context.close().catch(() => undefined);
    let timer: NodeJS.Timeout | undefined;
    await Promise.race([closing, new Promise((late) => (timer = setTimeout(late, CLOSE_MS)))]);
    clearTimeout(timer);
    if (group !== undefined && groupRuns(group)) await endGroup(group, AbortSignal.abort());
    dismiss();
    gate.close();
    if (inodeOf(paths.data) !== place) await removeGhost(paths).catch(() => undefined);
  }

  try {
    await jar.restore();
    const tabs = await openTabs(context, {
      incoming: paths.incoming,
      mostBytes,
      why: gate.why,
      answersBanners: settings().browser?.cookie_banners !== 'leave',
    });
    return {
      tabs,
      gate,
      isOpen: () => isOpen,
      saveCookies: () => jar.save(),
      async close() {
        await jar.save().catch(() => undefined);
        await end();
      },
    };
  } catch (error) {
    await end();
    throw error;
  }
}

/**
 * The network is only to be had through the gate: for names and numbers, for this machine too, and not by UDP, which no proxy
 * carries. A page's own memory is bounded, and so is what is kept of pages.
 */
function flags(gate: string): string[] {
  return [
    `--proxy-server=${gate}`,
    '--proxy-bypass-list=<-loopback>',
    '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1',
    '--disable-quic',
    // Where it asks for the accounts of its user: a page that needs the real place still gets there.
    '--gaia-url=http://127.0.0.1:1',
    '--force-webrtc-ip-handling-policy=disable_non_proxied_udp',
    '--webrtc-ip-handling-policy=disable_non_proxied_udp',
    '--js-flags=--max-old-space-size=512',
    `--disk-cache-size=${64 * 1024 * 1024}`,
  ];
}

/** What Chromium may know of the daemon's environment: where things are and the language, never a key. */
function environment(env: NodeJS.ProcessEnv, home: string): Record<string, string> {
  const kept = Object.entries(env).filter(([name]) => /^(?:PATH|LANG|LC_\w+|TMPDIR|TZ|FONTCONFIG_\w+)$/.test(name));
  return { ...Object.fromEntries(kept.map(([name, value]) => [name, value ?? ''])), HOME: home };
}

const Processes = z.object({ processInfo: z.array(z.object({ type: z.string(), id: z.int() })) });

/** Chromium leads a process group of its own, whose number is that of its first process. */
async function groupOf(context: BrowserContext): Promise<number | undefined> {
  const session = await context.browser()?.newBrowserCDPSession();
  const told = Processes.safeParse(await session?.send('SystemInfo.getProcessInfo').catch(() => undefined));
  await session?.detach();
  return told.data?.processInfo.find(({ type }) => type === 'browser')?.id;
}

function inodeOf(folder: string): number | undefined {
  return lstatSync(folder, { throwIfNoEntry: false })?.ino;
}

function notStarted(executable: string, error: unknown): UserError {
  const said = errorText(error).replace(/\u001b\[\d+m/g, '');
  const why = /No usable sandbox|Running as root without|error while loading[^\n]*|FATAL[^\n]*/.exec(said)?.[0] ?? said;
  return new UserError(
    `${executable} did not start: ${clip(why, 400)}. A person has to look at it: \`agentctl doctor\`.`,
  );
}
