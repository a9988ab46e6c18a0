import type { World } from '../../engine/ports.ts';
import { UserError } from '../../protocol/errors.ts';
import { type Resolve, systemResolve } from '../web/destination.ts';
import { type Browser, launch } from './launch.ts';
import type { BrowserSettings } from './settings.ts';

const DEFAULT_MOST = 3;
const DEFAULT_IDLE_MINUTES = 10;
const MINUTE_MS = 60_000;

/** One session's place in the pool. */
type Seat = {
  browser: Browser | undefined;
  /** Its calls run one after another. */
  queue: Promise<unknown>;
  calls: number;
  usedAt: number;
  idle: NodeJS.Timeout | undefined;
};

export type Lease = { folder: string; settings: () => BrowserSettings; signal: AbortSignal };

/** A browser for each session, while it is used. */
export type BrowserPool = {
  /** Runs `use` with the session's browser, started where it is not open; the calls of a session wait for each other. */
  use<T>(lease: Lease, use: (browser: Browser) => Promise<T>): Promise<T>;
  /** Ends all of them. */
  close(): Promise<void>;
};

export type PoolOptions = {
  env: NodeJS.ProcessEnv;
  log: World['log'];
  resolve?: Resolve | undefined;
  /** How large a downloaded file may be; 256 MiB if left out. */
  mostBytes?: number | undefined;
};

/** Keeps one browser a session, by its profile's folder, while it is used; the rest are closed after a while, or for another. */
export function browserPool({ env, log, resolve = systemResolve, mostBytes }: PoolOptions): BrowserPool {
  const seats = new Map<string, Seat>();
  let isClosed = false;
  /** Starts run one after another, so that they count each other. */
  let starting: Promise<unknown> = Promise.resolve();

  function seatOf(folder: string): Seat {
    const seat = seats.get(folder) ?? {
      browser: undefined,
      queue: Promise.resolve(),
      calls: 0,
      usedAt: 0,
      idle: undefined,
    };
    seats.set(folder, seat);
    return seat;
  }

  async function ready(seat: Seat, lease: Lease): Promise<Browser> {
    if (seat.browser?.isOpen()) return seat.browser;
    await seat.browser?.close();
    seat.browser = undefined;
    const turn = starting.then(async () => {
      lease.signal.throwIfAborted();
      if (isClosed) throw new UserError('The daemon is stopping.');
      await makeRoom(lease.settings().browser?.most ?? DEFAULT_MOST);
      return launch({ ...lease, env, resolve, mostBytes });
    });
    starting = turn.catch(() => undefined);
    const browser = await turn;
    seat.browser = browser;
    if (isClosed) await browser.close();
    return browser;
  }

  async function makeRoom(most: number): Promise<void> {
    const open = [...seats.values()].filter(({ browser }) => browser?.isOpen());
    if (open.length < most) return;
    const rest = open.filter(({ calls }) => calls === 0).sort((one, other) => one.usedAt - other.usedAt);
    const [oldest] = rest;
    if (!oldest) {
      throw new UserError(
        `All ${open.length} browsers are at work for other sessions. Try again in a while; a person can allow more with ` +
          '`browser.most` in agentd.json.',
      );
    }
    await end(oldest);
    await makeRoom(most);
  }

  async function end(seat: Seat): Promise<void> {
    clearTimeout(seat.idle);
    const { browser } = seat;
    seat.browser = undefined;
    await browser?.close();
  }

  function rest(folder: string, seat: Seat, settings: () => BrowserSettings): void {
    seat.usedAt = performance.now();
    const ms = (settings().browser?.idle_minutes ?? DEFAULT_IDLE_MINUTES) * MINUTE_MS;
    seat.idle = setTimeout(() => {
      if (seat.calls > 0) return;
      void end(seat).then(() => seat.calls === 0 && !seat.browser && seats.delete(folder));
    }, ms);
    seat.idle.unref();
  }

  return {
    async use(lease, use) {
      const seat = seatOf(lease.folder);
      clearTimeout(seat.idle);
      seat.calls++;
      const turn = seat.queue.then(async () => {
        lease.signal.throwIfAborted();
        const browser = await ready(seat, lease);
        try {
          return await use(browser);
        } finally {
          await browser.saveCookies().catch((error: unknown) => {
            if (browser.isOpen()) log('warn', `the browser's cookies were not saved: ${error}`);
          });
        }
      });
      seat.queue = turn.catch(() => undefined);
      try {
        return await turn;
      } finally {
        seat.calls--;
        if (seat.calls === 0) rest(lease.folder, seat, lease.settings);
      }
    },
    async close() {
      isClosed = true;
      await starting;
      await Promise.all([...seats.values()].map(end));
    },
  };
}
