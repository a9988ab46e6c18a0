import { UserError } from '../../base/user-error.ts';
import type { BrowserControl } from '../../engine/ports/tool-ports.ts';
import { BrowserInput, type BrowserLost } from '../../protocol/workspace/browser-control.ts';
import type { BrowserSettings } from '../browser/browser-args.ts';
import type { BrowserPool } from '../browser/browser-pool.ts';
import { openPageRemote, type PageRemote } from './page-remote.ts';
import { openPersonSocket, type Visitor } from './person-socket.ts';

/** Pictures wait while more bytes than this wait to be read. */
const FULL_BYTES = 4 * 1024 * 1024;

export type ControlOptions = {
  pool: BrowserPool;
  /** The session's profile folder. */
  folder: string;
  settings: () => BrowserSettings;
  /** Where the socket is, in a folder that commands of the agent do not see. */
  socket: string;
  /** The person no longer has the browser, though nobody took it back. */
  onLost: () => void;
  nobodyMs?: number | undefined;
};

/**
 * Lets a person use a session's browser over a Unix socket that is there only while they have it. The hold takes its
 * turn among the calls of the agent: it begins when the call under way has ended, and later calls wait for its end.
 */
export function openBrowserControl(options: ControlOptions): BrowserControl {
  const { pool, folder } = options;
  let hold: { end(): void } | undefined;
  let lost: BrowserLost | null = null;
  return {
    get state() {
      return { isOpen: pool.isOpen(folder), lost };
    },
    give() {
      if (hold || lost) return;
      const mine = beginHold(options, (why) => {
        lost = why;
        options.onLost();
      });
      hold = mine;
    },
    takeBack() {
      hold?.end();
      hold = undefined;
      lost = null;
    },
  };
}

function beginHold(
  { pool, folder, settings, socket: path, nobodyMs }: ControlOptions,
  loseTo: (why: BrowserLost) => void,
): { end(): void } {
  const over = new AbortController();
  let remote: PageRemote | undefined;
  // A reader that is far behind gets no picture until it acknowledges one.
  const show = (visitor: Visitor): void =>
    void remote
      ?.show((output) => {
        if (visitor.unread < FULL_BYTES) visitor.send(output);
      })
      .catch(visitor.cut);
  const person = openPersonSocket({
    ...{ path, nobodyMs, arrived: show, lose },
    take(came) {
      const input = BrowserInput.safeParse(came);
      if (input.success) remote?.do(input.data);
      return input.success;
    },
  });
  const ended = new Promise<void>((resolve) => over.signal.addEventListener('abort', () => resolve()));

  function end(): void {
    over.abort(new UserError('The browser was given back.'));
    person.close();
  }
  function lose(why: BrowserLost): void {
    if (over.signal.aborted) return;
    end();
    loseTo(why);
  }

  void pool
    .use({ folder, settings, signal: over.signal }, async (browser) => {
      remote = openPageRemote(browser.tabs);
      if (person.visitor) show(person.visitor);
      await Promise.race([ended, browser.ended]);
      if (!browser.isOpen()) lose('browser_closed');
      await remote.close();
    })
    // It ended before its turn came, or the browser could not be started again.
    .catch(() => lose('browser_closed'));
  return { end };
}
