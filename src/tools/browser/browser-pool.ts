import { raceAbort, settlesWithin } from '../../base/async.ts';
import { errorText, UserError } from '../../base/user-error.ts';
import type { SessionPorts } from '../../engine/ports/session-ports.ts';
import { type ResolveHost, resolveWithSystem } from '../web/destination.ts';
import type { BrowserSettings } from './browser-args.ts';
import { type Browser, launchBrowser } from './launch-browser.ts';

const DEFAULT_MAX_BROWSERS = 3;
const DEFAULT_IDLE_MINUTES = 10;
const MINUTE_MS = 60_000;
/** How long the end of the daemon waits for a browser that is just starting; that one ends with the daemon's pipe. */
const STARTING_MS = 5000;

/** One session's place in the pool. */
type PoolEntry = {
  browser: Browser | undefined;
  /** Calls of one session run one after another. */
  queue: Promise<unknown>;
  calls: number;
  usedAt: number;
  idle: NodeJS.Timeout | undefined;
};

/** A session's claim to a browser: its profile folder, its settings, and the signal of the current call. */
export type BrowserLease = { folder: string; settings: () => BrowserSettings; signal: AbortSignal };

/** One browser per session, open while in use. */
export type BrowserPool = {
  /** Runs `use` with the session's browser, starting it if needed; calls of one session are serialized. */
  use<T>(lease: BrowserLease, use: (browser: Browser) => Promise<T>): Promise<T>;
  /** Whether the session of this profile folder has a browser open. */
  isOpen(folder: string): boolean;
  /** Closes all browsers. */
  close(): Promise<void>;
};

export type BrowserPoolOptions = {
  env: NodeJS.ProcessEnv;
  log: SessionPorts['log'];
  resolve?: ResolveHost | undefined;
  /** Maximum size of a downloaded file; default 256 MiB. */
  mostBytes?: number | undefined;
};

/**
 * Keeps one browser per session, keyed by profile folder. Idle browsers are closed after a while, or to make room for
 * another.
 */
export function openBrowserPool({ env, log, resolve = resolveWithSystem, mostBytes }: BrowserPoolOptions): BrowserPool {
  const entries = new Map<string, PoolEntry>();
  let isClosed = false;
  /** Starts are serialized so that each counts the others. */
  let starting: Promise<unknown> = Promise.resolve();

  async function ready(entry: PoolEntry, lease: BrowserLease): Promise<Browser> {
    if (entry.browser?.isOpen()) return entry.browser;
    await entry.browser?.close();
    entry.browser = undefined;
    const turn = starting.then(async () => {
      lease.signal.throwIfAborted();
      if (isClosed) throw new UserError('The daemon is stopping.');
      await makeRoom([...entries.values()], lease.settings().browser?.max_open ?? DEFAULT_MAX_BROWSERS);
      const browser = await launchBrowser({ ...lease, env, resolve, mostBytes });
      if (isClosed || lease.signal.aborted) await browser.close();
      lease.signal.throwIfAborted();
      entry.browser = browser;
      return browser;
    });
    starting = turn.catch(() => undefined);
    // A stop does not wait for a program that may never answer.
    return raceAbort(turn, lease.signal);
  }

  function closeWhenIdle(folder: string, entry: PoolEntry, settings: () => BrowserSettings): void {
    entry.usedAt = performance.now();
    const ms = (settings().browser?.idle_minutes ?? DEFAULT_IDLE_MINUTES) * MINUTE_MS;
    entry.idle = setTimeout(() => {
      if (entry.calls > 0) return;
      void closeBrowser(entry).then(() => entry.calls === 0 && !entry.browser && entries.delete(folder));
    }, ms);
    entry.idle.unref();
  }

  return {
    async use(lease, use) {
      const entry = entries.get(lease.folder) ?? newEntry();
      entries.set(lease.folder, entry);
      clearTimeout(entry.idle);
      entry.calls++;
      // An aborted call leaves the queue, but the calls after it still wait for those before it.
      const turn = raceAbort(entry.queue, lease.signal).then(async () => {
        lease.signal.throwIfAborted();
        const browser = await ready(entry, lease);
        try {
          return await use(browser);
        } finally {
          await browser.saveCookies().catch((error: unknown) => {
            if (browser.isOpen() || error instanceof UserError)
              log('warn', `the browser's cookies were not saved: ${errorText(error)}`);
          });
        }
      });
      entry.queue = Promise.allSettled([entry.queue, turn]);
      try {
        return await turn;
      } finally {
        entry.calls--;
        if (entry.calls === 0) closeWhenIdle(lease.folder, entry, lease.settings);
      }
    },
    isOpen: (folder) => entries.get(folder)?.browser?.isOpen() ?? false,
    async close() {
      isClosed = true;
      await settlesWithin(starting, STARTING_MS);
      await Promise.all([...entries.values()].map(closeBrowser));
    },
  };
}

const newEntry = (): PoolEntry => ({
  browser: undefined,
  queue: Promise.resolve(),
  calls: 0,
  usedAt: 0,
  idle: undefined,
});

/** Closes idle browsers, least recently used first, until fewer than `most` are open. */
async function makeRoom(entries: readonly PoolEntry[], most: number): Promise<void> {
  const open = entries.filter(({ browser }) => browser?.isOpen());
  if (open.length < most) return;
  const [oldest] = open.filter(({ calls }) => calls === 0).sort((one, other) => one.usedAt - other.usedAt);
  if (!oldest) {
    throw new UserError(
      `All ${open.length} browsers are in use by other sessions. Try again in a while; a person can allow more with ` +
        '`browser.max_open` in agentd.json.',
    );
  }
  await closeBrowser(oldest);
  await makeRoom(entries, most);
}

async function closeBrowser(entry: PoolEntry): Promise<void> {
  clearTimeout(entry.idle);
  const { browser } = entry;
  entry.browser = undefined;
  await browser?.close();
}
